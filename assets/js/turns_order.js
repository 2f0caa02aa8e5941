// Which turns are shown and in what order. No DOM here.
const COLUMNS = ['agent', 'priority', 'phase', 'tier', 'context', 'kv', 'in_phase', 'queued', 'preempted', 'swaps',
  'recomputed'];
const TEXTS = new Set(['agent', 'priority', 'phase', 'tier']);
const PHASES = ['waiting', 'prefill', 'decode', 'paused', 'blocked'];
const TIERS = ['resident', 'host', 'dropped'];
const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

// A row as it was sent becomes an object with the text of each cell.
function readRow(fields, values) {
  const row = Object.fromEntries(fields.map((name, index) => [name, values[index]]));
  row.text = {
    agent: `${row.agent} · ${row.id}`,
    priority: row.priority,
    phase: row.tool ? `${row.phase}: ${row.tool}` : row.held ? `${row.phase}, held` : row.phase,
    tier: row.tier === 'none' ? '–' : row.tier,
    context: whole.format(row.context),
    kv: row.kv === null ? '–' : hundredths.format(row.kv),
    in_phase: tenths.format(row.in_phase),
    queued: row.queued > 0 ? tenths.format(row.queued) : '–',
    preempted: whole.format(row.preempted),
    swaps: whole.format(row.swaps),
    recomputed: whole.format(row.recomputed),
  };
  const { agent, priority, phase, tier } = row.text;
  row.words = `${agent} ${priority} ${phase} ${tier}`.toLowerCase();
  return row;
}

// Words are and-ed; chips of one kind are or-ed. Each kind's counts leave out its own chips, so they say what a click adds.
function matching(rows, { text, phases, tiers }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = { rows: [], counts: Object.fromEntries([...PHASES, ...TIERS].map((name) => [name, 0])) };
  for (const row of rows) {
    if (!words.every((word) => row.words.includes(word))) continue;
    const phase = !phases.length || phases.includes(row.phase);
    const tier = !tiers.length || tiers.includes(row.tier);
    if (tier && row.phase in found.counts) found.counts[row.phase] += 1;
    if (phase && row.tier in found.counts) found.counts[row.tier] += 1;
    if (phase && tier) found.rows.push(row);
  }
  return found;
}

// Without a sort the engine's order; equal ones keep it too.
function ordered(rows, sort) {
  if (!sort) return rows;
  const way = sort.down ? -1 : 1;
  const compare = TEXTS.has(sort.column)
    ? (a, b) => collator.compare(a.text[sort.column], b.text[sort.column])
    : (a, b) => a[sort.column] - b[sort.column];
  return [...rows].sort((a, b) => way * compare(a, b));
}

// Text rises first, numbers fall first; then the other way; then the engine's order again.
function nextSort(sort, column) {
  const first = !TEXTS.has(column);
  if (sort?.column !== column) return { column, down: first };
  return sort.down === first ? { column, down: !first } : null;
}

// The order that stands while somebody points: nobody moves, who has ended stays as it was, who is new comes last.
function inPlace(drawn, wanted, all) {
  const now = new Map(all.map((row) => [row.id, row]));
  const here = new Set(drawn.map((row) => row.id));
  return [
    ...drawn.map((row) => now.get(row.id) ?? { ...row, gone: true }),
    ...wanted.filter((row) => !here.has(row.id)),
  ];
}
