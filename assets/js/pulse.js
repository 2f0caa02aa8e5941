// Asks for the page's next figures: one beat each period, only while its tab is seen and not before the last answer came.
const PATIENCE_MS = 5000;
// Until the page knows of a theme that has changed.
const THEME_MS = 300;
// A beat right behind a step to another page would take the server back to this one: the step has this long to be made.
const LEAVING_MS = 2000;

class Pulse {
  constructor() {
    this.asked = performance.now();
    this.quietUntil = 0;
    this.plan = this.plan.bind(this);
    this.leaving = this.leaving.bind(this);
    this.themed = this.themed.bind(this);
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.scheme.addEventListener('change', this.themed);
    document.addEventListener('visibilitychange', this.plan);
    document.addEventListener('click', this.leaving, true);
    window.addEventListener('popstate', this.leaving, true);
  }

  // The page has answered: `period` in ms, 0 for a page that is paused; `ask` sends the next beat.
  answered(period, ask) {
    Object.assign(this, { period, ask, waiting: false });
    this.plan();
  }

  plan() {
    clearTimeout(this.timer);
    if (!this.period || document.hidden) return;
    // An answer that does not come was lost with its connection: ask again, the page may be back.
    const due = this.asked + (this.waiting ? Math.max(PATIENCE_MS, 3 * this.period) : this.period);
    this.timer = setTimeout(() => this.beat(), Math.max(0, Math.max(due, this.quietUntil) - performance.now()));
  }

  beat() {
    this.asked = performance.now();
    this.waiting = true;
    this.ask();
    this.plan();
  }

  // A link may lead to another page; so do the browser's own buttons.
  leaving(event) {
    const link = event.composedPath().find((part) => part.tagName === 'A');
    if (event.type === 'click' && (!link || link.hasAttribute('download'))) return;
    this.quietUntil = performance.now() + LEAVING_MS;
    this.plan();
  }

  // A page that is paused, or asks for little, is drawn in the new colours too.
  themed() {
    setTimeout(() => this.beat(), THEME_MS);
  }

  stop() {
    clearTimeout(this.timer);
    this.scheme.removeEventListener('change', this.themed);
    document.removeEventListener('visibilitychange', this.plan);
    document.removeEventListener('click', this.leaving, true);
    window.removeEventListener('popstate', this.leaving, true);
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector('.pulse');
  root.pulse ??= new Pulse();
  root.pulse.answered(data.period_ms, () => setTriggerValue('beat', data.beat));
  return () => root.pulse.stop();
}
