// A row of figures. Nodes are kept and only their text changes, so nothing flickers and text can be selected.
function node(parent, tag, name) {
  const element = document.createElement(tag);
  element.className = name;
  parent.appendChild(element);
  return element;
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector('.tiles');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  root.classList.toggle('six', data.tiles.length === 6);
  root.classList.toggle('eight', data.tiles.length === 8);
  data.tiles.forEach((tile, index) => {
    let box = root.children[index];
    if (!box) {
      box = node(root, 'div', 'tile');
      node(box, tile.href ? 'a' : 'div', 'label');
      node(box, 'div', 'value');
      node(box, 'div', 'sub');
    }
    box.dataset.tile = tile.key;
    box.title = tile.hint;
    box.classList.toggle('missing', tile.value === 'n/a');
    box.classList.toggle('bad', tile.tone === 'bad');
    const [label, value, sub] = box.children;
    if (label.textContent !== tile.label) label.textContent = tile.label;
    if (tile.href && label.getAttribute('href') !== tile.href) label.setAttribute('href', tile.href);
    if (sub.textContent !== tile.sub) sub.textContent = tile.sub;
    if (value.textContent !== tile.value) {
      const [number, ...unit] = tile.value.split(' ');
      value.textContent = number;
      if (unit.length) node(value, 'span', 'unit').textContent = ` ${unit.join(' ')}`;
    }
  });
  while (root.children.length > data.tiles.length) root.lastChild.remove();
}
