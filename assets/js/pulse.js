// Asks for the page's next figures: one beat each period, only while its tab is seen and not before the last answer came.
const PATIENCE_MS = 5000;
// Until the page knows of a theme that has changed.
const THEME_MS = 300;
// Where the address does not tell that a step has been made, no beat comes right behind it for this long.
const BACK_MS = 2000;

class Pulse {
  constructor() {
    this.asked = performance.now();
    this.number = this.heard = this.quietUntil = 0;
    this.plan = this.plan.bind(this);
    this.back = () => this.quiet(BACK_MS);
    this.themed = this.themed.bind(this);
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.scheme.addEventListener('change', this.themed);
    document.addEventListener('visibilitychange', this.plan);
    window.addEventListener('popstate', this.back, true);
    this.leaving = new Leaving(() => this.barrier());
  }

  // The page has answered: `heard`, the last beat that it knows of; `period` in ms, 0 for a page that is paused;
  // `send` sends the next.
  answered(heard, period, send) {
    // Fewer than before: the server has begun anew.
    const number = heard < this.heard ? heard : Math.max(this.number, heard);
    Object.assign(this, { heard, period, send, number });
    this.plan();
  }

  plan() {
    clearTimeout(this.timer);
    if (!this.period || document.hidden) return;
    // An answer that does not come was lost with its connection: ask again, the page may be back.
    const waits = this.number > this.heard;
    const due = this.asked + (waits ? Math.max(PATIENCE_MS, 3 * this.period) : this.period);
    const quietUntil = this.page === location.pathname ? this.quietUntil : 0;
    this.timer = setTimeout(() => this.beat(), Math.max(0, Math.max(due, quietUntil) - performance.now()));
  }

  beat() {
    this.asked = performance.now();
    this.number += 1;
    this.send(this.number);
    this.plan();
  }

  // One more beat, and none behind it: with its answer all is answered that was asked before.
  barrier() {
    this.quiet(STEP_MS);
    this.beat();
    const { number } = this;
    return () => this.heard >= number;
  }

  // The page is about to be left, or the browser's own buttons may have left it.
  quiet(time) {
    Object.assign(this, { page: location.pathname, quietUntil: performance.now() + time });
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
    window.removeEventListener('popstate', this.back, true);
    this.leaving.stop();
  }
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector('.pulse');
  root.pulse ??= new Pulse();
  root.pulse.answered(data.heard, data.period_ms, (number) => setTriggerValue('beat', number));
  return () => root.pulse.stop();
}
