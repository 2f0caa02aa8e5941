// A figure drawn larger: what it says in pixels grows with it, what it says in figures stays.
const PIXELS = new Set(['size', 'xshift', 'yshift', 'standoff', 'ticklabelstandoff', 'borderpad', 'arrowwidth']);
const WITHIN = { margin: ['l', 'r', 't', 'b'], pad: ['l', 'r', 't', 'b'], line: ['width'] };
const LARGEST = 1.6;

function enlarged(part, factor, name = '') {
  if (factor === 1 || part === null || typeof part !== 'object' || part.bdata) return part;
  if (Array.isArray(part)) {
    return typeof part[0] === 'object' ? part.map((entry) => enlarged(entry, factor, name)) : part;
  }
  const own = WITHIN[name] ?? [];
  return Object.fromEntries(Object.entries(part).map(([key, value]) => {
    const pixels = typeof value === 'number' && (PIXELS.has(key) || own.includes(key));
    return [key, pixels ? value * factor : enlarged(value, factor, key)];
  }));
}

// How much larger its marks and words are drawn in `width` x `height` than where it stood in the page.
function growth(width, height, usual) {
  return Math.min(LARGEST, Math.max(1, Math.min(width / usual.width, height / usual.height)));
}
