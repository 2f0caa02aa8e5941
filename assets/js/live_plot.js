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

export default async function ({ data, parentElement }) {
  const element = parentElement.querySelector('.parkdeck-plot');
  const figure = JSON.parse(data);
  element.style.height = `${figure.layout.height}px`;
  try {
    await loadPlotly();
  } catch (error) {
    element.textContent = `No chart: ${error.message}; reload the page.`;
    return;
  }
  const named = figure.file ? { ...CONFIG, toImageButtonOptions: { filename: figure.file, scale: 2 } } : CONFIG;
  if (figure.alt) {
    element.setAttribute('role', 'figure');
    element.setAttribute('aria-label', figure.alt);
  }
  await window.Plotly.react(element, figure.data, figure.layout, named);
}
