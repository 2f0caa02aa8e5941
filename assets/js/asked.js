// What the user asked of an element, kept until the server says that it has taken it. Of two values of a trigger Streamlit
// may keep the newer alone, and a run that is to act on one may be ended by another: so each goes out with all that wait
// before it, and again while no answer comes. The server takes each once (panels/asked.py).
const AGAIN_MS = 2000;

class Asked {
  constructor() {
    // Each mount of the element counts by itself, under a word of its own.
    this.from = crypto.getRandomValues(new Uint32Array(4)).join('-');
    this.count = 0;
    this.waiting = [];
    this.stepped = this.stepped.bind(this);
    document.addEventListener('click', this.stepped, true);
  }

  // The element has been drawn: `taken` by the server, `send` is the element's trigger.
  drawn(taken, send) {
    this.send = send;
    if (taken.from === this.from) this.waiting = this.waiting.filter(([number]) => number > taken.number);
    if (!this.waiting.length) clearTimeout(this.timer);
  }

  // Who asks for the same thing again before it is taken has lost patience, and wants it once.
  ask(request) {
    const last = this.waiting.at(-1)?.[1];
    if (JSON.stringify(last) !== JSON.stringify(request)) this.waiting.push([++this.count, request]);
    this.page = location.pathname;
    this.tell();
  }

  tell() {
    this.rest(AGAIN_MS);
    this.send('asked', { from: this.from, asks: this.waiting });
  }

  // Until it is sent again.
  rest(time) {
    clearTimeout(this.timer);
    if (this.waiting.length) this.timer = setTimeout(() => this.again(), time);
  }

  // Not from a tab that nobody sees, nor from a page that has been left.
  again() {
    if (document.hidden || location.pathname !== this.page) this.rest(AGAIN_MS);
    else this.tell();
  }

  stepped(event) {
    const link = event.composedPath().find((part) => part.tagName === 'A');
    if (link && inside(link) && link.pathname !== location.pathname) this.rest(STEP_MS);
  }

  stop() {
    clearTimeout(this.timer);
    document.removeEventListener('click', this.stepped, true);
  }
}
