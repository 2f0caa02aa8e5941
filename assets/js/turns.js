// The table of turns. Rows are kept by turn id, so a click is never lost to a refresh.
const COLUMNS = ['agent', 'priority', 'phase', 'tier', 'context', 'kv', 'in_phase', 'queued', 'moves'];

function node(parent, tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

function makeRow(body, id) {
  const row = node(body, 'tr');
  row.dataset.turn = id;
  for (const column of COLUMNS) {
    const cell = node(row, 'td', column);
    if (column === 'phase' || column === 'tier') node(cell, 'span', 'dot');
    node(cell, 'span', 'text');
  }
  node(row, 'td', 'actions');
  return row;
}

function fillActions(cell, row, send) {
  const signature = row.actions.map((action) => action.verb).join();
  if (cell.dataset.signature === signature) return;
  cell.dataset.signature = signature;
  cell.replaceChildren();
  for (const action of row.actions) {
    const button = node(cell, 'button', action.verb, action.label);
    button.type = 'button';
    button.title = action.hint;
    button.setAttribute('aria-label', `${action.label} turn ${row.id}`);
    button.onclick = () => send('action', { turn: row.id, verb: action.verb });
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector('.turns');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  const body = root.querySelector('tbody');
  const known = new Map([...body.children].map((row) => [row.dataset.turn, row]));
  data.rows.forEach((row, index) => {
    const element = known.get(String(row.id)) ?? makeRow(body, row.id);
    known.delete(String(row.id));
    COLUMNS.forEach((column, i) => {
      const text = element.children[i].querySelector('.text');
      if (text.textContent !== row[column]) text.textContent = row[column];
    });
    element.querySelector('td.phase .dot').dataset.colour = row.phase_colour;
    element.querySelector('td.tier .dot').dataset.colour = row.tier_colour;
    element.querySelector('td.phase').title = row.phase_hint;
    element.querySelector('td.moves').title = row.moves_hint;
    fillActions(element.lastChild, row, setTriggerValue);
    if (body.children[index] !== element) body.insertBefore(element, body.children[index] ?? null);
  });
  for (const element of known.values()) element.remove();
  root.querySelector('.empty').textContent = data.empty;
  root.querySelector('table').hidden = data.rows.length === 0;
  root.querySelector('.more').textContent = data.more;
  const message = root.querySelector('.message');
  message.textContent = data.message;
  message.className = `message ${data.tone}`;
}
