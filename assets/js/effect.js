// What the latest change did. Nodes are kept and only their text changes, so that focus and selection stay.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function fit(parent, count, make) {
  while (parent.children.length > count) parent.lastChild.remove();
  while (parent.children.length < count) make(parent);
  return [...parent.children];
}

function node(parent, tag, name) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  parent.appendChild(element);
  return element;
}

function makeCell(list) {
  const cell = node(list, 'li', 'cell');
  node(cell, 'span', 'spoken');
  const shown = node(cell, 'div', 'shown');
  shown.setAttribute('aria-hidden', 'true');
  node(shown, 'div', 'label');
  node(shown, 'div', 'value');
  node(shown, 'div', 'verdict');
  node(shown, 'div', 'spread');
}

function fill(cell, data) {
  cell.dataset.effect = data.key;
  cell.title = data.hint;
  const [spoken, shown] = cell.children;
  const [label, value, verdict, spread] = shown.children;
  say(spoken, data.said);
  say(label, data.unit ? `${data.label}, ${data.unit}` : data.label);
  say(value, data.value);
  say(verdict, data.verdict);
  // Each side stays on one line.
  const sides = data.spread ? data.spread.split(' → ') : [];
  fit(spread, sides.length, (parent) => node(parent, 'span')).forEach((side, index) =>
    say(side, index + 1 < sides.length ? `${sides[index]} →` : sides[index]));
  cell.classList.toggle('missing', data.value === 'n/a');
  verdict.dataset.tone = data.tone;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector('.effect');
  const asked = (root.asked ??= new Asked());
  asked.drawn(data.taken, setTriggerValue);
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  const at = (selector) => root.querySelector(selector);
  say(at('h4'), data.title);
  const meta = fit(at('.meta'), data.meta.length, (parent) => node(parent, 'span'));
  data.meta.forEach((text, index) => say(meta[index], index ? ` · ${text}` : text));
  fit(at('.cells'), data.cells.length, makeCell).forEach((cell, index) => fill(cell, data.cells[index]));
  say(at('.note'), data.note);
  say(at('.told'), data.told);
  at('.told').dataset.tone = data.tone;
  const undo = at('.undo');
  undo.setAttribute('aria-disabled', String(!data.can_undo));
  undo.title = data.can_undo ? `Set back: ${data.title}` : 'The engine does not run';
  undo.onclick = () => data.can_undo && asked.ask({ verb: 'undo', change: data.key });
  at('.dismiss').title = 'Put this card away in this tab, until the next change';
  at('.dismiss').onclick = () => asked.ask({ verb: 'dismiss', change: data.key });
  return () => asked.stop();
}
