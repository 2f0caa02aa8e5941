// Draws the page's charts in the reader's theme, and again when it or the width changes.
const CHARTS = JSON.parse(document.getElementById('charts').textContent);
const DARK = window.matchMedia('(prefers-color-scheme: dark)');

function draw() {
  for (const [name, themes] of Object.entries(CHARTS)) {
    // Plotly writes into what it is given.
    const { data, layout } = structuredClone(DARK.matches ? themes.dark : themes.light);
    Plotly.react(name, data, layout, { displaylogo: false, displayModeBar: false, responsive: true });
  }
}

DARK.addEventListener('change', draw);
draw();
