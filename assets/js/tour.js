// The tour's band. Nodes are kept, so that the focus stays where it is and a reader hears only what has changed. Which
// of the earlier steps is read again is this page's own and goes nowhere.
const PRESSED_MS = 4000;
const DONE = { seen: 'seen', 'not seen': 'unseen' };
const views = new WeakMap();

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

// A button keeps its place and its focus when it cannot be pressed.
function offer(button, label, can, primary, press) {
  say(button, label);
  button.setAttribute('aria-disabled', String(!can));
  button.classList.toggle('primary', can && primary);
  button.onclick = () => can && press();
}

function press(view, verb) {
  view.pressed = { verb, at: performance.now(), before: signature(view.data) };
  view.asked.ask({ verb });
  draw(view);
  setTimeout(() => draw(view), PRESSED_MS + 50);
}

// What was pressed and has not been answered yet.
function waiting(view) {
  const { pressed } = view;
  if (!pressed || performance.now() - pressed.at > PRESSED_MS || pressed.before !== signature(view.data)) return null;
  return pressed.verb;
}

function signature({ mode, step, steps, refused }) {
  return [mode, step, steps[step]?.status, refused].join('|');
}

function drawDots(view, here) {
  const { dots } = view.parts;
  while (dots.children.length > view.data.steps.length) dots.lastChild.remove();
  while (dots.children.length < view.data.steps.length) dots.appendChild(document.createElement('li'));
  view.data.steps.forEach(({ status }, index) => {
    dots.children[index].className = `${DONE[status] ?? ''} ${index === here ? 'here' : ''}`;
  });
}

function drawStep(view) {
  const { parts, data } = view;
  const { steps, step, mode } = data;
  if (view.read !== null && view.read >= step) view.read = null;
  const here = view.read ?? step;
  const { title, does, watch, colour, said, button } = steps[here];
  const lead = mode === 'lead';
  const last = step === steps.length - 1;
  const asked = waiting(view);
  const status = asked === 'act' ? 'working' : steps[here].status;
  say(parts.where, `Tour · step ${here + 1} of ${steps.length}`);
  drawDots(view, here);
  say(parts.led, mode === 'watch' ? data.led : '');
  say(parts.title, title);
  say(parts.does, does);
  show(parts.watch, true);
  say(parts.place, `Watch: ${watch}.`);
  parts.dot.style.background = colour === 'forced' ? '' : `var(--pd-${colour})`;
  parts.dot.classList.toggle('hatched', colour === 'forced');
  parts.said.className = `said ${DONE[status] ?? status}`;
  say(parts.said, status === 'working' ? 'Watching the engine until it is seen …' : said);
  show(parts.leave, lead);
  show(parts.do, lead);
  show(parts.back, true);
  show(parts.next, true);
  const current = view.read === null;
  const over = status === 'seen' || status === 'not seen';
  offer(parts.leave, 'Leave the tour', true, false, () => press(view, 'leave'));
  offer(
    parts.do, status === 'working' ? 'Watching …' : status === 'seen' ? 'Seen' : status === 'not seen' ? 'Try again' : button,
    current && (status === 'ready' || status === 'not seen'), true, () => press(view, 'act'),
  );
  offer(parts.back, 'Back', here > 0, false, () => turn(view, here - 1));
  if (current) {
    offer(parts.next, last ? 'End the tour' : 'Next', lead && over && asked !== 'next', status === 'seen', () => press(view, 'next'));
  } else offer(parts.next, 'Next', true, false, () => turn(view, here + 1));
}

function turn(view, step) {
  view.read = step;
  draw(view);
}

// An offer, or the end of a tour: a title, a sentence and what to do next.
function drawNote(view) {
  const { parts, data } = view;
  const { mode, note, title } = data;
  say(parts.where, 'Tour');
  parts.dots.replaceChildren();
  say(parts.led, '');
  say(parts.title, title);
  say(parts.does, note);
  show(parts.watch, false);
  say(parts.said, '');
  parts.said.className = 'said';
  show(parts.leave, mode === 'over');
  show(parts.do, mode === 'offer' || data.swarm);
  show(parts.back, false);
  show(parts.next, false);
  offer(parts.leave, 'Close', true, false, () => press(view, 'close'));
  const verb = mode === 'offer' ? 'start' : 'swarm';
  offer(parts.do, mode === 'offer' ? 'Take the tour' : 'Start the swarm again', !waiting(view), true, () => press(view, verb));
}

function draw(view) {
  const { mode, steps, refused } = view.data;
  view.root.className = `tour ${mode}`;
  show(view.root, mode !== 'none');
  if (mode === 'none') return;
  say(view.parts.refused, refused);
  if (mode === 'lead' || mode === 'watch') {
    if (steps.length) drawStep(view);
  } else drawNote(view);
}

function mount(root) {
  const find = (name) => root.querySelector(name);
  const parts = {
    where: find('.where'), dots: find('.dots'), led: find('.led'), leave: find('.leave'), title: find('h4'),
    does: find('.does'), watch: find('.watch'), dot: find('.watch .dot'), place: find('.place'), said: find('.said'),
    refused: find('.refused'), do: find('.do'), back: find('.back'), next: find('.next'),
  };
  const view = { root, parts, data: null, asked: new Asked(), read: null, pressed: null };
  views.set(root, view);
  return view;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector('.tour');
  for (const [name, colour] of Object.entries(data.colours)) root.style.setProperty(`--pd-${name}`, colour);
  const view = views.get(root) ?? mount(root);
  view.data = data;
  view.asked.drawn(data.taken, setTriggerValue);
  draw(view);
  return () => view.asked.stop();
}
