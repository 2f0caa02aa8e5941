// The pane of the open turn. Nodes are kept, so that a selection and a scrolled text stay over refreshes.
function node(parent, tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// As many children as asked for, made where they lack.
function fit(parent, count, make) {
  while (parent.children.length > count) parent.lastChild.remove();
  while (parent.children.length < count) make(parent);
  return [...parent.children];
}

function pairs(list, entries) {
  const rows = fit(list, entries.length, (parent) => {
    const row = node(parent, 'div', 'pair');
    node(row, 'dt');
    node(row, 'dd');
  });
  entries.forEach(([label, value], index) => {
    say(rows[index].children[0], label);
    say(rows[index].children[1], value);
    rows[index].children[1].title = value;
  });
}

function strip(bar, spans, which) {
  const parts = fit(bar, spans.length, (parent) => node(parent, 'i'));
  spans.forEach(([length, phase, tier, from, took, words], index) => {
    parts[index].style.flexGrow = Math.max(length, 1e-3);
    parts[index].dataset.colour = which === 'phase' ? phase : tier;
    parts[index].title = `${words}, from ${from} UTC, ${took}`;
  });
}

function lines(list, spans) {
  const rows = fit(list, spans.length, (parent) => {
    const row = node(parent, 'li');
    for (const name of ['time', 'dot', 'what', 'took']) node(row, 'span', name);
  });
  [...spans].reverse().forEach(([, phase, , from, took, words], index) => {
    const [time, dot, what, length] = rows[index].children;
    say(time, from);
    dot.dataset.colour = phase;
    say(what, words);
    say(length, took);
  });
}

function build(pane, close) {
  const head = node(pane, 'div', 'head');
  node(head, 'h4');
  node(head, 'span', 'state');
  const button = node(head, 'button', 'close', 'close');
  button.type = 'button';
  button.title = 'Close (Escape)';
  button.onclick = close;
  const parts = node(pane, 'div', 'parts');
  const left = node(parts, 'div', 'part');
  node(left, 'dl', 'facts');
  const middle = node(parts, 'div', 'part');
  node(middle, 'h5', '', 'Costs paid');
  node(middle, 'dl', 'costs');
  node(middle, 'h5', '', 'History, newest first');
  node(middle, 'div', 'strip phases').setAttribute('aria-hidden', 'true');
  node(middle, 'div', 'strip tiers').setAttribute('aria-hidden', 'true');
  node(middle, 'ol', 'spans').tabIndex = 0;
  const right = node(parts, 'div', 'part wide');
  node(right, 'h5', '', 'Text so far');
  const text = node(right, 'pre', 'text');
  text.tabIndex = 0;
  node(text, 'span', 'prompt');
  node(text, 'span', 'came');
  node(pane, 'div', 'note');
}

function drawDetail(pane, detail, close) {
  pane.hidden = !detail;
  if (!detail) return;
  if (!pane.children.length) build(pane, close);
  const at = (selector) => pane.querySelector(selector);
  say(at('h4'), detail.title);
  say(at('.state'), detail.over);
  at('.parts').hidden = !detail.facts;
  say(at('.note'), detail.note ?? '');
  if (!detail.facts) return;
  pairs(at('.facts'), detail.facts);
  pairs(at('.costs'), detail.costs);
  strip(at('.phases'), detail.spans, 'phase');
  strip(at('.tiers'), detail.spans, 'tier');
  lines(at('.spans'), detail.spans);
  const text = at('.text');
  const other = pane.dataset.turn !== String(detail.id);
  const atEnd = other || text.scrollHeight - text.scrollTop - text.clientHeight < 24;
  say(at('.prompt'), detail.prompt);
  say(at('.came'), detail.text || detail.no_text);
  if (atEnd) text.scrollTop = text.scrollHeight;
  pane.dataset.turn = detail.id;
}
