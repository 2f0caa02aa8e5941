// The table of turns. Rows are kept by turn id, so a click is never lost to a refresh; nothing moves under the pointer.
const DRAWN = 100;
const ARMED_MS = 3000;
const STORE = 'parkdeck.turns';
const FINAL = {
  drop: 'its KV is thrown away and must be computed again',
  cancel: 'it ends and cannot be brought back',
};
const views = new WeakMap();

// What this tab has chosen: it outlives a refresh, a visit to another page and a reload.
function chosen() {
  const nothing = { text: '', phases: [], tiers: [], sort: null };
  try {
    return { ...nothing, ...JSON.parse(sessionStorage.getItem(STORE)) };
  } catch {
    return nothing;
  }
}

function choose(view, change) {
  Object.assign(view.chosen, change);
  view.limit = DRAWN;
  try {
    sessionStorage.setItem(STORE, JSON.stringify(view.chosen));
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  paint(view, true);
}

function clear(view) {
  view.root.querySelector('.filter').value = '';
  choose(view, { text: '', phases: [], tiers: [] });
}

// -- what is asked ----------------------------------------------------------------------------------------------------

function disarm(view) {
  clearTimeout(view.armed?.timer);
  view.armed = null;
}

// What cannot be undone is asked for twice, on the same button.
function act(view, turn, verb) {
  const again = view.armed?.turn === turn && view.armed?.verb === verb;
  disarm(view);
  if (verb in FINAL && !again) {
    const timer = setTimeout(() => {
      disarm(view);
      paint(view);
    }, ARMED_MS);
    view.armed = { turn, verb, timer };
  } else view.asked.ask({ verb, turn });
  paint(view);
}

// What is opened is brought into sight and has the focus; what is closed gives it back to its row.
function look(view, turn) {
  const closed = turn === null ? view.open : null;
  view.open = turn;
  view.reveal = turn !== null;
  view.asked.ask({ verb: 'look', turn });
  paint(view);
  if (closed === null) view.pane.focus({ preventScroll: true });
  else (view.body.querySelector(`tr[data-turn='${closed}'] .name`) ?? view.root.querySelector('.filter')).focus();
}

function reveal(view, whole) {
  const still = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
  view.pane.scrollIntoView({ block: 'nearest', behavior: still ? 'auto' : 'smooth' });
  if (whole) view.reveal = false;
}

function escape(view) {
  if (view.armed) disarm(view);
  else if (view.open !== null) look(view, null);
  paint(view);
}

// -- what is drawn ----------------------------------------------------------------------------------------------------

function drawHeads(view) {
  const { sort } = view.chosen;
  for (const column of COLUMNS) {
    const cell = view.root.querySelector(`th.${column}`);
    const mine = sort?.column === column;
    say(cell.querySelector('.title'), view.data.heads[column]);
    say(cell.querySelector('.arrow'), mine ? (sort.down ? '▼' : '▲') : '');
    cell.setAttribute('aria-sort', mine ? (sort.down ? 'descending' : 'ascending') : 'none');
  }
}

function drawChips(view, counts) {
  for (const chip of view.root.querySelectorAll('.chip')) {
    const { kind, name } = chip.dataset;
    say(chip.querySelector('.count'), whole.format(counts[name]));
    chip.setAttribute('aria-pressed', String(view.chosen[kind].includes(name)));
    chip.classList.toggle('none-of', counts[name] === 0);
  }
}

function makeRow(view, id) {
  const row = node(view.body, 'tr');
  row.dataset.turn = id;
  for (const column of COLUMNS) {
    const cell = node(row, 'td', column);
    if (column === 'phase' || column === 'tier') node(cell, 'span', 'dot');
    const text = node(cell, column === 'agent' ? 'button' : 'span', column === 'agent' ? 'name text' : 'text');
    if (column === 'agent') text.type = 'button';
  }
  node(row, 'td', 'actions');
  return row;
}

// One button for each column, kept: one that does not apply now stays in its place and keeps the focus.
function fillActions(view, cell, row) {
  const verbs = [row.held ? 'resume' : 'pause', 'swap_out', 'drop', 'cancel'];
  verbs.forEach((verb, index) => {
    const [label, hint] = view.data.hints[verb];
    const button = cell.children[index] ?? node(cell, 'button', verb, label);
    const off = row.gone || !(row.can & (1 << index));
    const armed = !off && view.armed?.turn === row.id && view.armed.verb === verb;
    button.type = 'button';
    button.className = armed ? `${verb} armed` : verb;
    say(button, armed ? `${label}?` : label);
    button.title = armed ? `Click again within 3 s to ${label} it` : hint;
    button.setAttribute('aria-label', armed ? `${label} turn ${row.id}: click again` : `${label} turn ${row.id}`);
    button.setAttribute('aria-disabled', String(off));
    button.onclick = () => off || act(view, row.id, verb);
  });
}

function drawRow(view, element, row) {
  COLUMNS.forEach((column, index) => {
    const text = row.gone && column === 'phase' ? 'ended' : row.text[column];
    say(element.children[index].querySelector('.text'), text);
  });
  element.querySelector('td.phase .dot').dataset.colour = row.gone ? 'none' : row.phase;
  element.querySelector('td.tier .dot').dataset.colour = row.gone ? 'none' : row.tier;
  element.querySelector('td.priority').dataset.short = row.priority === 'foreground' ? 'fg' : 'bg';
  element.querySelector('td.phase').title = row.held ? 'paused by the operator' : row.text.phase;
  const name = element.querySelector('.name');
  name.title = `${row.text.agent}: open it`;
  name.setAttribute('aria-expanded', String(view.open === row.id));
  element.classList.toggle('open', view.open === row.id);
  element.classList.toggle('gone', Boolean(row.gone));
  fillActions(view, element.lastChild, row);
}

function drawRows(view, rows) {
  // What has ended goes first: a row that need not be moved keeps its focus.
  const wanted = new Set(rows.map((row) => String(row.id)));
  for (const element of [...view.body.children]) if (!wanted.has(element.dataset.turn)) element.remove();
  const known = new Map([...view.body.children].map((element) => [element.dataset.turn, element]));
  const focused = view.root.getRootNode().activeElement;
  rows.forEach((row, index) => {
    const element = known.get(String(row.id)) ?? makeRow(view, row.id);
    drawRow(view, element, row);
    if (view.body.children[index] !== element) view.body.insertBefore(element, view.body.children[index] ?? null);
  });
  if (focused && view.body.contains(focused) && view.root.getRootNode().activeElement !== focused) {
    focused.focus({ preventScroll: true });
  }
}

function drawWords(view, found, drawn) {
  const { data, root } = view;
  const total = data.rows.length + data.unsent;
  const tokens = found.reduce((sum, row) => sum + row.context, 0);
  const empty = root.querySelector('.empty');
  const nothing = total > 0 && found.length === 0 && drawn === 0;
  say(empty.querySelector('.why'), nothing ? 'No turn matches the filter.' : data.empty);
  empty.querySelector('button').hidden = !nothing;
  empty.hidden = !nothing && !data.empty;
  root.querySelector('table').hidden = drawn === 0;
  const all = `${whole.format(total)} ${total === 1 ? 'turn' : 'turns'}`;
  const parts = [found.length === data.rows.length ? all : `${whole.format(found.length)} of ${all} match`];
  parts.push(`${whole.format(tokens)} ${tokens === 1 ? 'token' : 'tokens'} of context`);
  if (data.unsent) parts.push(`${whole.format(data.unsent)} beyond the table's bound are in timeline.csv`);
  say(root.querySelector('.more'), total ? parts.join(' · ') : '');
  const further = root.querySelector('.further');
  const hidden = found.length - view.limit;
  further.hidden = hidden <= 0;
  say(further, `and ${whole.format(Math.max(0, hidden))} more: draw ${whole.format(Math.min(DRAWN, Math.max(0, hidden)))}`);
}

function drawAnswer(view) {
  const { done } = view.data;
  const message = view.root.querySelector('.message');
  const { armed } = view;
  const label = armed && view.data.hints[armed.verb][0];
  say(message, armed ? `Click ${label}? again within 3 s: turn ${armed.turn}, ${FINAL[armed.verb]}.` : done.message);
  message.className = `message ${armed ? 'bad' : done.tone}`;
  const undo = view.root.querySelector('.undo');
  undo.hidden = Boolean(armed) || !done.undo;
  undo.title = done.undo ? view.data.hints[done.undo][1] : '';
  undo.onclick = () => act(view, done.turn, done.undo);
}

// `anew`: the user has just asked for another order, or points no more. Else what is pointed at holds still.
function paint(view, anew = false) {
  const { rows } = view;
  const found = matching(rows, view.chosen);
  const wanted = ordered(found.rows, view.chosen.sort).slice(0, view.limit);
  const still = !anew && view.drawn.length > 0 && (view.pointed || view.body.querySelector(':focus-visible') !== null);
  view.drawn = still ? inPlace(view.drawn, wanted, rows).slice(0, view.limit + DRAWN) : wanted;
  drawHeads(view);
  drawChips(view, found.counts);
  drawRows(view, view.drawn);
  drawWords(view, found.rows, view.drawn.length);
  drawAnswer(view);
  const { detail } = view.data;
  const waiting = view.open === null ? null : { id: view.open, title: `turn ${view.open}`, over: 'Asking the engine.' };
  const known = view.open !== null && detail?.id === view.open;
  drawDetail(view.pane, known ? detail : waiting, () => look(view, null));
  if (view.reveal) reveal(view, known && Boolean(detail.facts || detail.over));
}

// -- once for each mount ----------------------------------------------------------------------------------------------

function makeHeads(view) {
  const head = view.root.querySelector('thead tr');
  for (const column of COLUMNS) {
    const cell = node(head, 'th', TEXTS.has(column) ? column : `${column} number`);
    const button = node(cell, 'button', 'sort');
    button.type = 'button';
    node(button, 'span', 'title');
    node(button, 'span', 'arrow').setAttribute('aria-hidden', 'true');
    button.onclick = () => choose(view, { sort: nextSort(view.chosen.sort, column) });
  }
  say(node(node(head, 'th', 'actions'), 'span', 'spoken'), 'actions');
}

function makeChips(view) {
  const chips = view.root.querySelector('.chips');
  for (const [kind, names] of [['phases', PHASES], ['tiers', TIERS]]) {
    for (const name of names) {
      const chip = node(chips, 'button', `chip ${kind}`);
      chip.type = 'button';
      Object.assign(chip.dataset, { kind, name });
      node(chip, 'span', 'dot').dataset.colour = name;
      node(chip, 'span', '', name);
      node(chip, 'span', 'count', '0');
      chip.onclick = () => {
        const on = view.chosen[kind];
        choose(view, { [kind]: on.includes(name) ? on.filter((other) => other !== name) : [...on, name] });
      };
    }
  }
}

function listen(view) {
  const { root, body } = view;
  const filter = root.querySelector('.filter');
  filter.value = view.chosen.text;
  filter.oninput = () => choose(view, { text: filter.value });
  // The page's own keys must not hear what is typed here.
  for (const kind of ['keydown', 'keyup', 'keypress']) filter.addEventListener(kind, (event) => event.stopPropagation());
  filter.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    if (filter.value) clear(view);
    else escape(view);
  });
  const empty = root.querySelector('.empty');
  node(empty, 'span', 'why');
  const back = node(empty, 'button', 'clear', 'Clear the filter');
  back.type = 'button';
  back.onclick = () => clear(view);
  root.querySelector('.further').onclick = () => {
    view.limit += DRAWN;
    paint(view, true);
  };
  body.onclick = (event) => {
    const row = event.target.closest('tr');
    if (!row || event.target.closest('td.actions')) return;
    const turn = Number(row.dataset.turn);
    look(view, view.open === turn ? null : turn);
  };
  body.onmouseenter = () => (view.pointed = true);
  body.onmouseleave = () => {
    view.pointed = false;
    paint(view);
  };
  const onKey = (event) => {
    if (!root.isConnected) document.removeEventListener('keydown', onKey);
    else if (event.key === 'Escape' && !event.defaultPrevented) escape(view);
  };
  document.addEventListener('keydown', onKey);
}

function mount(root, data) {
  const view = {
    root, data, asked: new Asked(), body: root.querySelector('tbody'), pane: root.parentElement.querySelector('.detail'), rows: [],
    drawn: [], limit: DRAWN, chosen: chosen(), armed: null, open: data.detail?.id ?? null, reveal: false, pointed: false,
  };
  makeHeads(view);
  makeChips(view);
  listen(view);
  views.set(root, view);
  view.told = ({ detail }) => {
    if (detail === 'filter') root.querySelector('.filter').focus();
  };
  document.addEventListener('parkdeck', view.told);
  return view;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector('.turns');
  const frame = root.parentElement;
  for (const [name, colour] of Object.entries(data.colours)) frame.style.setProperty(`--pd-${name}`, colour);
  const view = views.get(root) ?? mount(root, data);
  view.data = data;
  view.asked.drawn(data.taken, setTriggerValue);
  view.rows = data.rows.map((values) => readRow(data.fields, values));
  paint(view);
  return () => {
    view.asked.stop();
    document.removeEventListener('parkdeck', view.told);
  };
}
