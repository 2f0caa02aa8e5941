// The host pool's bar and the list of events, newest first.
function node(parent, tag, name, text) {
  const element = document.createElement(tag);
  element.className = name;
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector('.side');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  root.querySelector('.pool-line').textContent = data.pool.line;
  root.querySelector('.pool-tokens').textContent = data.pool.tokens;
  root.querySelector('.pool-fill').style.width = `${(100 * data.pool.fraction).toFixed(2)}%`;
  const list = root.querySelector('.events');
  const signature = data.events.map((event) => event.id).join();
  if (list.dataset.signature === signature) return;
  list.dataset.signature = signature;
  list.replaceChildren();
  if (!data.events.length) node(list, 'div', 'none', 'Nothing has happened yet.');
  for (const event of data.events) {
    const row = node(list, 'div', `event ${event.tone}`);
    node(row, 'span', 'time', event.time);
    node(row, 'span', 'dot');
    node(row, 'span', 'text', event.text).title = event.detail;
  }
}
