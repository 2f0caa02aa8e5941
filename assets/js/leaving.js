// A step to another page waits until what was asked before it is answered. Streamlit would forget a value that was typed
// right before the step, and would go back to the old page for a beat that is still under way.

// What is sent right behind a step would take the server back to this page: a step has STEP_MS to be made.
const STEP_MS = 5000;
const SETTLES_MS = 60;
const LONGEST_MS = 3000;

class Leaving {
  // `ask`: called when a step begins to wait, once all before it is sent; it returns what tells whether that is answered.
  constructor(ask) {
    this.ask = ask;
    this.clicked = this.clicked.bind(this);
    document.addEventListener('click', this.clicked, true);
  }

  clicked(event) {
    const link = event.composedPath().find((part) => part.tagName === 'A');
    if (!link || this.passing || !inside(link)) return;
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    // The latest click counts, also one that asks for the page that is shown.
    clearTimeout(this.timer);
    if (link.pathname === location.pathname) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    this.hold(link);
  }

  hold(link) {
    const since = performance.now();
    const again = (next) => { this.timer = setTimeout(next, SETTLES_MS); };
    const pass = (answered) => {
      if (!answered() && performance.now() - since < LONGEST_MS) return again(() => pass(answered));
      this.pass(link.href);
    };
    again(() => pass(this.ask()));
  }

  // The page may have drawn another link in its place.
  pass(href) {
    this.passing = true;
    [...document.querySelectorAll('a')].find((link) => link.href === href)?.click();
    this.passing = false;
  }

  stop() {
    clearTimeout(this.timer);
    document.removeEventListener('click', this.clicked, true);
  }
}

// To a page of this site.
function inside(link) {
  return link.origin === location.origin && !link.hasAttribute('download');
}
