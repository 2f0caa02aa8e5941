// A Plotly chart on an element that is kept: Plotly.react changes what differs, so zoom and legend state stay.
// The buttons are named one by one, so that none that Plotly adds, such as an upload, ever appears.
const icon = (path) => ({ width: 24, height: 24, path });
const CONFIG = {
  displaylogo: false,
  displayModeBar: 'hover',
  modeBarButtons: [
    ['zoom2d', 'pan2d', 'zoomIn2d', 'zoomOut2d', 'resetScale2d'],
    [
      {
        name: 'picture', title: 'Save as PNG', click: savePicture,
        icon: icon('M3 5h18v14H3zM5 7v10h14V7zM6 16l4-5 3 3 2-2 3 4z'),
      },
      {
        name: 'table', title: 'Save the figures as CSV', click: saveTable,
        icon: icon('M3 4h18v16H3zM5 9v3h4V9zM11 9v3h8V9zM5 14v4h4v-4zM11 14v4h8v-4z'),
      },
      {
        name: 'screen', title: SCREEN.into, click: (plot) => toggleScreen(plot.parentElement),
        icon: icon('M3 3h7v2H5v5H3zM14 3h7v7h-2V5h-5zM3 14h2v5h5v2H3zM19 14h2v7h-7v-2h5z'),
      },
    ],
  ],
  showSendToCloud: false,
  plotlyServerURL: '',
};

function loadPlotly() {
  if (window.Plotly) return Promise.resolve();
  window.__parkdeckPlotly ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = '/assets/plotly.min.js';
    script.onload = resolve;
    script.onerror = () => {
      // The next chart or refresh asks again.
      script.remove();
      delete window.__parkdeckPlotly;
      reject(new Error('the chart library did not load'));
    };
    document.head.appendChild(script);
  });
  return window.__parkdeckPlotly;
}

// Draws the latest figure into the room that there is; a chart that is not shown is drawn once it is.
async function draw(plot) {
  const frame = plot.parentElement;
  const width = plot.clientWidth;
  if (!width) return;
  // Read anew each time: Plotly writes into what it is given.
  const { data, layout, narrow } = figureOf(plot);
  const full = isFull(frame);
  if (!full) plot.usual = { width, height: layout.height };
  const factor = full ? growth(width, frame.clientHeight, plot.usual) : 1;
  const laidOut = narrow && width / factor < narrow.below ? { ...layout, ...narrow.layout } : layout;
  const height = full ? frame.clientHeight : laidOut.height;
  const before = plot.drawn;
  plot.drawn = { width, frameHeight: frame.clientHeight, full };
  plot.style.height = `${height}px`;
  await window.Plotly.react(plot, enlarged(data, factor), { ...enlarged(laidOut, factor), width, height }, CONFIG);
  // Plotly lays a new width out with the margins that the old one's legend needed.
  if (before && before.width !== width) await window.Plotly.relayout(plot, { width });
  plot.querySelector('.modebar')?.setAttribute('aria-label', 'Buttons of the chart');
  sayScreen(frame);
}

// A change of the room draws anew; the chart's own height is no such change, except where it fills the screen.
function watch(plot) {
  if (plot.watched) return;
  plot.watched = new ResizeObserver(() => {
    const { width, frameHeight, full } = plot.drawn ?? {};
    const frame = plot.parentElement;
    const other = isFull(frame) !== full || (full && frame.clientHeight !== frameHeight);
    if (plot.clientWidth !== width || other) draw(plot);
  });
  plot.watched.observe(plot.parentElement);
}

// The page's key for full screen is the first chart's.
document.addEventListener('parkdeck', ({ detail }) => {
  const plot = document.querySelector('.parkdeck-plot');
  if (detail === 'full screen' && plot) toggleScreen(plot.parentElement);
});

function tell(plot, { alt }) {
  if (plot.getAttribute('aria-label') === alt) return;
  plot.setAttribute('role', 'figure');
  plot.setAttribute('aria-label', alt);
}

function sayMissing(plot, problem, again) {
  const missing = plot.parentElement.querySelector('.parkdeck-missing');
  plot.hidden = Boolean(problem);
  missing.hidden = !problem;
  if (!problem) return;
  missing.querySelector('p').textContent = `No chart: ${problem}. ${plot.getAttribute('aria-label')}`;
  missing.querySelector('button').onclick = again;
}

// A chart whose marks can be chosen tells of each press; what the server has taken it says in the figure.
function listen(plot) {
  if (!plot.asked || plot.listens || !plot.on) return;
  plot.listens = true;
  plot.on('plotly_click', ({ points: [{ customdata }] }) => {
    if (Number.isInteger(customdata)) plot.asked.ask({ cell: customdata });
  });
}

export default async function update({ data, parentElement, setTriggerValue }) {
  const plot = parentElement.querySelector('.parkdeck-plot');
  const figure = JSON.parse(data);
  plot.json = data;
  if (figure.taken) (plot.asked ??= new Asked()).drawn(figure.taken, setTriggerValue);
  tell(plot, figure);
  try {
    await loadPlotly();
  } catch (error) {
    sayMissing(plot, error.message, () => update({ data: plot.json, parentElement, setTriggerValue }));
    return () => plot.asked?.stop();
  }
  sayMissing(plot, '');
  watch(plot);
  await draw(plot);
  listen(plot);
  return () => plot.asked?.stop();
}
