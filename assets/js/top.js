// The head of the Live page: what runs, how old the figures are, how the page looks at them, and its keys.
const SILENT_MS = 5000;
const EDITS = 'input:not([type=radio]), textarea, select, [contenteditable=true]';

function node(parent, tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

function spoken(seconds) {
  return seconds < 120 ? `${Math.floor(seconds)} s` : `${Math.floor(seconds / 60)} min`;
}

class Top {
  constructor(root) {
    this.root = root;
    this.asked = new Asked();
    this.find = (name) => root.querySelector(name);
    this.keyed = this.keyed.bind(this);
    document.addEventListener('keydown', this.keyed);
    this.clock = setInterval(() => this.freshness(), 500);
    this.find('.pause').onclick = () => this.set({ paused: !this.data.chosen.paused });
    this.find('.again').onclick = () => this.again();
    this.find('.every').onchange = (event) => this.set({ every: Number(event.target.value) });
    this.find('.help').onclick = () => this.find('dialog').showModal();
    this.find('.close').onclick = () => this.find('dialog').close();
  }

  show(data, send) {
    Object.assign(this, { data, came: performance.now() });
    this.asked.drawn(data.taken, send);
    for (const [name, colour] of Object.entries(data.colours)) this.root.style.setProperty(`--pd-${name}`, colour);
    const badge = this.find('.badge.state');
    badge.textContent = data.state;
    badge.className = `badge state ${data.tone}`;
    this.find('.badge.modelled').hidden = !data.modelled;
    this.find('.line').textContent = this.find('.line').title = data.line;
    this.find('.warning').textContent = data.warning;
    this.find('.warning').hidden = !data.warning;
    this.choices();
    const pause = this.find('.pause');
    pause.textContent = data.chosen.paused ? 'Go on' : 'Pause';
    pause.setAttribute('aria-label', data.chosen.paused ? 'Go on refreshing' : 'Pause the refresh');
    this.find('.again').hidden = !data.chosen.paused;
    this.freshness();
  }

  // An answer from before what the user has just chosen does not take it back.
  wanted() {
    return this.asked.waiting.reduce((chosen, [, { change }]) => ({ ...chosen, ...change }), this.data.chosen);
  }

  choices() {
    const wanted = this.wanted();
    for (const name of ['window', 'units', 'events']) this.choice(name, wanted[name]);
    this.periods(wanted.every);
  }

  choice(name, chosen) {
    const group = this.find(`.choice[data-name=${name}]`);
    const options = this.data[name];
    const signature = JSON.stringify(options);
    if (group.dataset.signature !== signature) {
      group.dataset.signature = signature;
      group.querySelectorAll('label').forEach((label) => label.remove());
      for (const [value, text, hint] of options) {
        const label = node(group, 'label', '');
        const radio = node(label, 'input', '');
        Object.assign(radio, { type: 'radio', name, value, onchange: () => this.set({ [name]: value }) });
        node(label, 'span', '', text);
        label.title = hint;
      }
    }
    group.hidden = options.length < 2;
    for (const radio of group.querySelectorAll('input')) radio.checked = radio.value === chosen;
  }

  periods(chosen) {
    const select = this.find('.every');
    if (!select.options.length) {
      for (const period of this.data.every) node(select, 'option', '', `every ${period} s`).value = period;
    }
    if (this.root.getRootNode().activeElement !== select) select.value = chosen;
  }

  // The page's own clock goes on where nothing comes any more: only here is it seen that the server is gone.
  freshness() {
    const { age_s: age, chosen } = this.data;
    const silent = performance.now() - this.came;
    const old = age === null ? null : age + silent / 1000;
    const lost = !chosen.paused && !document.hidden && silent > Math.max(SILENT_MS, 3000 * chosen.every);
    let text = old === null ? '' : old < 2 + chosen.every ? 'updated now' : `updated ${spoken(old)} ago`;
    if (chosen.paused) text = `paused, figures of ${this.data.time}`;
    if (lost) text = `no answer from Parkdeck for ${spoken(silent / 1000)}; asking again`;
    const fresh = this.find('.fresh');
    if (fresh.textContent !== text) fresh.textContent = text;
    fresh.className = `fresh ${lost ? 'lost' : chosen.paused ? 'held' : ''}`;
  }

  set(change) {
    this.asked.ask({ verb: 'set', change });
    this.choices();
  }

  again() {
    this.asked.ask({ verb: 'again' });
  }

  keyed(event) {
    if (!this.root.isConnected || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.composedPath()[0].matches?.(EDITS) || this.find('dialog').open) return;
    const act = this.keys()[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  keys() {
    const next = (name) => {
      const values = this.data[name].map(([value]) => value);
      if (values.length > 1) this.set({ [name]: values[(values.indexOf(this.wanted()[name]) + 1) % values.length] });
    };
    const tell = (detail) => document.dispatchEvent(new CustomEvent('parkdeck', { detail }));
    const windows = this.data.window.map(([value]) => () => this.set({ window: value }));
    return {
      p: () => this.set({ paused: !this.data.chosen.paused }),
      r: () => this.again(),
      1: windows[0],
      2: windows[1],
      3: windows[2],
      u: () => next('units'),
      e: () => next('events'),
      f: () => tell('full screen'),
      '/': () => tell('filter'),
      '?': () => this.find('dialog').showModal(),
    };
  }

  stop() {
    this.asked.stop();
    clearInterval(this.clock);
    document.removeEventListener('keydown', this.keyed);
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector('.top');
  root.top ??= new Top(root);
  root.top.show(data, setTriggerValue);
  return () => root.top.stop();
}
