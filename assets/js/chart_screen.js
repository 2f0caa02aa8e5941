// Full screen of a chart: by the browser, or where it refuses by an overlay over the page. Its nodes stay where they are.
const SCREEN = { into: 'Full screen', out: 'Leave full screen (Escape)' };

function isFull(frame) {
  return frame.classList.contains('full');
}

// The last of the chart's buttons.
function screenButton(frame) {
  return frame.querySelector('.modebar-group:last-child .modebar-btn:last-child');
}

// Plotly makes the button anew where the chart is, so its words are set after each drawing.
function sayScreen(frame) {
  const button = screenButton(frame);
  if (!button) return;
  const title = isFull(frame) ? SCREEN.out : SCREEN.into;
  button.dataset.title = title;
  button.setAttribute('aria-label', title);
}

function show(frame, full) {
  frame.classList.toggle('full', full);
  sayScreen(frame);
  screenButton(frame)?.focus();
}

async function enter(frame) {
  const leave = () => {
    if (!isFull(frame)) return;
    document.removeEventListener('keydown', onKey, true);
    document.removeEventListener('focusin', onFocus);
    document.removeEventListener('fullscreenchange', onChange);
    if (document.fullscreenElement === frame) document.exitFullscreen();
    if (frame.popover) frame.popover = null;
    show(frame, false);
  };
  const onKey = (event) => {
    if (event.key !== 'Escape') return;
    event.preventDefault();
    event.stopImmediatePropagation();
    leave();
  };
  // The page behind it is not seen, so the keyboard stays in front.
  const onFocus = (event) => {
    if (!frame.isConnected) leave();
    else if (!frame.contains(event.target)) screenButton(frame)?.focus();
  };
  const onChange = () => {
    if (document.fullscreenElement !== frame) leave();
  };
  frame.leaveScreen = leave;
  document.addEventListener('keydown', onKey, true);
  document.addEventListener('focusin', onFocus);
  document.addEventListener('fullscreenchange', onChange);
  show(frame, true);
  try {
    await frame.requestFullscreen();
    // Left again before the browser had answered.
    if (!isFull(frame)) document.exitFullscreen();
  } catch {
    if (!isFull(frame)) return;
    frame.popover = 'manual';
    frame.showPopover();
  }
}

function toggleScreen(frame) {
  if (isFull(frame)) frame.leaveScreen();
  else enter(frame);
}
