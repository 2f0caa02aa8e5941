// A row of figures. Nodes are kept and only their text changes, so nothing flickers and text can be selected.
function node(parent, tag, name) {
  const element = document.createElement(tag);
  element.className = name;
  parent.appendChild(element);
  return element;
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector('.cards');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  root.classList.toggle('six', data.cards.length === 6);
  data.cards.forEach((card, index) => {
    let box = root.children[index];
    if (!box) {
      box = node(root, 'div', 'card');
      node(box, 'div', 'label');
      node(box, 'div', 'value');
      node(box, 'div', 'sub');
    }
    box.dataset.card = card.key;
    box.title = card.hint;
    box.classList.toggle('missing', card.value === 'n/a');
    box.classList.toggle('bad', card.tone === 'bad');
    const [label, value, sub] = box.children;
    if (label.textContent !== card.label) label.textContent = card.label;
    if (sub.textContent !== card.sub) sub.textContent = card.sub;
    if (value.textContent !== card.value) {
      const [number, ...unit] = card.value.split(' ');
      value.textContent = number;
      if (unit.length) node(value, 'span', 'unit').textContent = ` ${unit.join(' ')}`;
    }
  });
  while (root.children.length > data.cards.length) root.lastChild.remove();
}
