// A table of figures. Nodes are kept and only their text changes, so that text stays selected over updates.
function fitted(parent, tag, count) {
  while (parent.children.length > count) parent.lastChild.remove();
  while (parent.children.length < count) parent.appendChild(document.createElement(tag));
  return [...parent.children];
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function fill(element, [number, unit]) {
  const [first, second] = fitted(element, 'span', 2);
  second.className = 'unit';
  say(first, number);
  say(second, unit ? ` ${unit}` : '');
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector('.figures-frame');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  fitted(root.querySelector('thead tr'), 'th', data.head.length).forEach((cell, index) => {
    cell.scope = 'col';
    if (!data.head[index]) cell.setAttribute('role', 'presentation');
    say(cell, data.head[index]);
  });
  fitted(root.querySelector('tbody'), 'tr', data.rows.length).forEach((line, index) => {
    const row = data.rows[index];
    line.dataset.row = row.key;
    line.title = row.hint;
    const cells = fitted(line, 'td', row.cells.length + 1);
    say(cells[0], row.label);
    cells.slice(1).forEach((cell, column) => {
      cell.className = row.cells[column].tone;
      fill(cell, [row.cells[column].text, row.cells[column].unit]);
    });
  });
  fitted(root.querySelector('.notes'), 'li', data.notes.length).forEach((item, index) => say(item, data.notes[index]));
}
