// A Plotly chart on an element that is kept: Plotly.react changes what differs, so zoom and legend state stay.
// A figure with `file` says what its picture is called. The buttons are named one by one, so that none that Plotly adds, such as an upload, ever appears.
const CONFIG = {
  responsive: true,
  displaylogo: false,
  displayModeBar: 'hover',
  modeBarButtons: [['zoom2d', 'pan2d', 'zoomIn2d', 'zoomOut2d', 'resetScale2d'], ['toImage']],
  showSendToCloud: false,
  plotlyServerURL: '',
};

function loadPlotly() {
  if (window.Plotly) return Promise.resolve();
  window.__parkdeckPlotly ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = '/assets/plotly.min.js';
    script.onload = resolve;
    script.onerror = () => reject(new Error('the chart library did not load'));
    document.head.appendChild(script);
  });
  return window.__parkdeckPlotly;
}

// `narrow` of a figure: the parts of its layout that differ where it is less than `below` pixels wide.
function laidOut(element) {
  const { layout, narrow } = element.figure;
  return narrow && element.clientWidth < narrow.below ? { ...layout, ...narrow.layout } : layout;
}

async function draw(element) {
  const { data, file } = element.figure;
  const layout = laidOut(element);
  element.style.height = `${layout.height}px`;
  const named = file ? { ...CONFIG, toImageButtonOptions: { filename: file, scale: 2 } } : CONFIG;
  await window.Plotly.react(element, data, layout, named);
}

// A change of width draws anew where it changes the layout; plotly itself fits the rest.
function watch(element) {
  if (element.watched) return;
  element.watched = new ResizeObserver(() => {
    if (element.layout && element.layout.height !== laidOut(element).height) draw(element);
  });
  element.watched.observe(element);
}

export default async function ({ data, parentElement }) {
  const element = parentElement.querySelector('.parkdeck-plot');
  element.figure = JSON.parse(data);
  element.style.height = `${element.figure.layout.height}px`;
  try {
    await loadPlotly();
  } catch (error) {
    element.textContent = `No chart: ${error.message}; reload the page.`;
    return;
  }
  const { alt, narrow } = element.figure;
  if (alt) {
    element.setAttribute('role', 'figure');
    element.setAttribute('aria-label', alt);
  }
  await draw(element);
  if (narrow) watch(element);
}
