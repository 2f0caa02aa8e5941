// A chart as files: its picture with a heading and where its figures come from, and its figures as CSV.
const RISKY = /^'*[=+\-@\t\r]/;
const TYPES = {
  f4: Float32Array, f8: Float64Array, i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array,
  u4: Uint32Array,
};
const SHARPNESS = 2;

// The figure that was sent; values that an earlier trace has too are named there by trace and part, and numbers that
// hover text says with a noun come without it.
function figureOf(plot) {
  const figure = JSON.parse(plot.json);
  for (const trace of figure.data) {
    const { counts } = trace.meta ?? {};
    if (counts) trace.customdata = Array.from(unpacked(trace.customdata), (number) => counted(number, counts));
    for (const name of ['x', 'y']) {
      const [from, part] = trace[name]?.of ?? [];
      if (part) trace[name] = figure.data[from][part];
    }
  }
  return figure;
}

// Plotly's packed numbers, or a list as it is.
function unpacked(values) {
  if (!values?.bdata) return values ?? [];
  const bytes = Uint8Array.from(atob(values.bdata), (character) => character.charCodeAt(0));
  return new TYPES[values.dtype](bytes.buffer);
}

function counted(number, noun) {
  return `${number.toLocaleString('en-US')} ${noun}${number === 1 ? '' : 's'}`;
}

// The shortest number that is the same in 32 bits: 5.2, not 5.199999809265137.
function shortest(value) {
  for (let digits = 6; digits < 9; digits += 1) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.fround(rounded) === value) return rounded;
  }
  return value;
}

// As Python's csv writes it; a text that a spreadsheet would run as a formula gets a leading '.
function csvCell(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : '';
  const text = RISKY.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// One column of a block: values of a trace, values of its own, or one value for all rows.
function column(part, data) {
  if ('all' in part) return { all: part.all };
  const values = part.of ? unpacked(data[part.of[0]][part.of[1]]) : part.values;
  return { values: values instanceof Float32Array ? Array.from(values, shortest) : Array.from(values) };
}

// `table`: the head, the blocks of columns below each other, and whether the first column is instants.
function csvText({ table, data }) {
  const lines = [table.head.map(csvCell).join(',')];
  for (const block of table.blocks) {
    const columns = block.map((part) => column(part, data));
    const rows = Math.max(...columns.map(({ values }) => values?.length ?? 0));
    for (let row = 0; row < rows; row += 1) {
      const cells = columns.map(({ values, all }) => (values ? values[row] : all));
      if (table.times) cells[0] = new Date(cells[0]).toISOString();
      lines.push(cells.map(csvCell).join(','));
    }
  }
  return `\ufeff${lines.join('\r\n')}\r\n`;
}

function save(content, type, figure, ending) {
  const at = new Date().toISOString().replace(/[-:]|\.\d+/g, '');
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = `${figure.file}-${at}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function saveTable(plot) {
  const figure = figureOf(plot);
  save(csvText(figure), 'text/csv;charset=utf-8', figure, 'csv');
}

function wrapped(brush, text, width) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (lines.at(-1) && brush.measureText(longer).width > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

// The chart as it stands, zoom and legend included, on its own ground; above it what it is, below it whose figures.
async function savePicture(plot) {
  const figure = figureOf(plot);
  const { width, height, paper_bgcolor: ground, font } = plot._fullLayout;
  const image = new Image();
  image.src = await window.Plotly.toImage(plot, { format: 'png', width, height, scale: SHARPNESS });
  await image.decode();
  const canvas = document.createElement('canvas');
  const brush = canvas.getContext('2d');
  const line = Math.round(font.size * 1.5);
  const pad = 14;
  const fonts = [`600 ${Math.round(font.size * 1.15)}px ${font.family}`, `${font.size}px ${font.family}`];
  brush.font = fonts[0];
  const above = wrapped(brush, figure.heading, width - 2 * pad);
  brush.font = fonts[1];
  const saved = `saved ${new Date().toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  const below = wrapped(brush, `${figure.source} · ${saved}`, width - 2 * pad);
  const top = above.length * line + pad;
  canvas.width = SHARPNESS * width;
  canvas.height = SHARPNESS * (top + height + below.length * line + pad);
  brush.scale(SHARPNESS, SHARPNESS);
  brush.fillStyle = ground;
  brush.fillRect(0, 0, canvas.width, canvas.height);
  brush.drawImage(image, 0, top, width, height);
  brush.textBaseline = 'top';
  brush.fillStyle = font.color;
  [brush.font] = fonts;
  above.forEach((text, index) => brush.fillText(text, pad, pad * 0.7 + index * line));
  [, brush.font] = fonts;
  below.forEach((text, index) => brush.fillText(text, pad, top + height + pad * 0.4 + index * line));
  canvas.toBlob((blob) => save(blob, 'image/png', figure, 'png'), 'image/png');
}
