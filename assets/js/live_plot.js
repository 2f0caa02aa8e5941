// A Plotly chart on an element that is kept: Plotly.react changes what differs, so zoom and legend state stay.
const CONFIG = {
  responsive: true,
  displaylogo: false,
  displayModeBar: 'hover',
  modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d'],
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
  await window.Plotly.react(element, figure.data, figure.layout, CONFIG);
}
