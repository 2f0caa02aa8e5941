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

// One button for each column, kept: one that does not apply now stays in its place and keeps the focus.
function fillActions(cell, row, send) {
  row.actions.forEach((action, index) => {
    const button = cell.children[index] ?? node(cell, 'button', action.verb, action.label);
    button.type = 'button';
    button.className = action.verb;
    if (button.textContent !== action.label) button.textContent = action.label;
    button.title = action.hint;
    button.setAttribute('aria-label', `${action.label} turn ${row.id}`);
    button.setAttribute('aria-disabled', String(action.off));
    button.onclick = () => action.off || send('action', { turn: row.id, verb: action.verb });
  });
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector('.turns');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  const body = root.querySelector('tbody');
  for (const [column, title] of Object.entries(data.heads)) root.querySelector(`th.${column}`).textContent = title;
  // What has ended goes first: a row that need not be moved keeps its focus.
  const wanted = new Set(data.rows.map((row) => String(row.id)));
  for (const row of [...body.children]) if (!wanted.has(row.dataset.turn)) row.remove();
  const known = new Map([...body.children].map((row) => [row.dataset.turn, row]));
  data.rows.forEach((row, index) => {
    const element = known.get(String(row.id)) ?? makeRow(body, row.id);
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
  root.querySelector('.empty').textContent = data.empty;
  root.querySelector('table').hidden = data.rows.length === 0;
  root.querySelector('.more').textContent = data.more;
  const message = root.querySelector('.message');
  message.textContent = data.message;
  message.className = `message ${data.tone}`;
}
