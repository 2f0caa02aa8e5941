// The host pool's bar and the list of events, newest first. Rows are kept by id: what is read stays where it is.
const opened = new WeakMap();

function node(parent, tag, name, text) {
  const element = document.createElement(tag);
  element.className = name;
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function makeRow(list, event, toggle) {
  const row = node(list, 'div', 'event');
  row.setAttribute('role', 'listitem');
  row.dataset.id = event.id;
  const line = node(row, event.members.length ? 'button' : 'div', 'line');
  for (const name of ['time', 'dot']) node(line, 'span', name);
  const words = node(line, 'span', 'words');
  for (const name of ['text', 'note']) node(words, 'span', name);
  if (!event.members.length) return row;
  line.type = 'button';
  line.onclick = () => toggle(event.id);
  node(row, 'div', 'members').setAttribute('role', 'list');
  return row;
}

function drawRow(row, event, open) {
  row.className = `event ${event.tone}`;
  const line = row.firstChild;
  line.title = event.detail;
  for (const name of ['time', 'text', 'note']) say(line.querySelector(`.${name}`), event[name]);
  if (!event.members.length) return;
  line.setAttribute('aria-expanded', String(open));
  row.lastChild.hidden = !open;
  if (open) drawList(row.lastChild, event.members, new Set(), () => {});
}

// As it is asked for, by moving as few rows as possible.
function drawList(list, events, open, toggle) {
  const wanted = new Set(events.map((event) => event.id));
  for (const row of [...list.children]) if (!wanted.has(row.dataset.id)) row.remove();
  const known = new Map([...list.children].map((row) => [row.dataset.id, row]));
  events.forEach((event, index) => {
    const row = known.get(event.id) ?? makeRow(list, event, toggle);
    drawRow(row, event, open.has(event.id));
    if (list.children[index] !== row) list.insertBefore(row, list.children[index] ?? null);
  });
}

// The first row in sight and where it stands; null at the top, where the newest are to be seen.
function held(list) {
  if (list.scrollTop === 0) return null;
  const row = [...list.children].find((element) => element.offsetTop + element.offsetHeight > list.scrollTop);
  return row ? { row, top: row.getBoundingClientRect().top } : null;
}

// Where the list is scrolled, its newest rows are out of sight.
function sayNewer(root, list) {
  const scrolled = list.scrollTop > 0;
  root.querySelector('.newer').hidden = !scrolled;
  root.querySelector('.newest').hidden = scrolled;
}

function watch(root, list) {
  opened.set(list, new Set());
  list.addEventListener('scroll', () => sayNewer(root, list), { passive: true });
  root.querySelector('.newer').onclick = () => {
    list.scrollTop = 0;
    list.focus();
  };
}

function drawEvents(root, data) {
  const list = root.querySelector('.events');
  if (!opened.has(list)) watch(root, list);
  const open = opened.get(list);
  const toggle = (id) => {
    if (!open.delete(id)) open.add(id);
    drawEvents(root, list.data);
  };
  list.data = data;
  const place = held(list);
  drawList(list, data.events, open, toggle);
  if (place?.row.isConnected) list.scrollTop += place.row.getBoundingClientRect().top - place.top;
  const none = root.querySelector('.none');
  say(none, data.empty);
  none.hidden = data.events.length > 0;
  sayNewer(root, list);
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector('.side');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  say(root.querySelector('.pool-line'), data.pool.line);
  say(root.querySelector('.pool-tokens'), data.pool.tokens);
  root.querySelector('.pool-fill').style.width = `${(100 * data.pool.fraction).toFixed(2)}%`;
  drawEvents(root, data);
}
