// The few pictures there are, as paths on a square of sixteen. Each state has its own shape.

const LOCK = 'M4.5 7h7A1.5 1.5 0 0 1 13 8.5v4A1.5 1.5 0 0 1 11.5 14h-7A1.5 1.5 0 0 1 3 12.5v-4A1.5 1.5 0 0 1 4.5 7z';

/** @type {Record<string, {paths: string[], dots?: [number, number, number][], fill?: boolean}>} */
const ICONS = {
  free: { paths: [LOCK, 'M5.2 7V4.7a2.8 2.8 0 0 1 5.4-1'] },
  mine: { paths: [LOCK, 'M5.2 7V4.8a2.8 2.8 0 0 1 5.6 0V7'], dots: [[8, 10.5, 1.4]] },
  other: { paths: [LOCK, 'M5.2 7V4.8a2.8 2.8 0 0 1 5.6 0V7', 'M4.5 12.5 9 8M8 13l4-4'] },
  done: { paths: ['M3 8.6 6.4 12 13 4.8'] },
  lost: { paths: ['M7 7H4.5A1.5 1.5 0 0 0 3 8.5v4A1.5 1.5 0 0 0 4.5 14H7M10 14h1.5a1.5 1.5 0 0 0 1.5-1.5v-4A1.5 1.5 0 0 0 11.5 7H10', 'M8.8 6.2 7.4 9.4l2 1.6-1.4 3.6', 'M5.2 7V4.8A2.8 2.8 0 0 1 7.4 2.1M10.8 7V5.6'] },
  uncertain: { paths: ['M5.6 4.3A4 4 0 0 1 12 7a2.7 2.7 0 0 1 1.7 4.3M11.5 12.5h-7A2.9 2.9 0 0 1 4.1 6.7', 'M2.5 2.5l11 11'] },
  idle: { paths: ['M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2z', 'M8 4.8V8l2.2 1.6'] },
  nudged: { paths: ['M4.2 11V7a3.8 3.8 0 0 1 7.6 0v4l1.2 1.5H3L4.2 11z', 'M6.8 14.3h2.4'] },
  readonly: { paths: ['M1.6 8S4 3.8 8 3.8 14.4 8 14.4 8 12 12.2 8 12.2 1.6 8 1.6 8z'], dots: [[8, 8, 1.8]] },
};

const SVG = 'http://www.w3.org/2000/svg';

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 */
function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** @param {number} size */
function square(size) {
  return shape('svg', { viewBox: '0 0 16 16', width: size, height: size, 'aria-hidden': 'true', part: 'icon' });
}

/**
 * @param {string} name
 * @param {number} [size]
 */
export function icon(name, size = 16) {
  const svg = square(size);
  const { paths, dots = [] } = ICONS[name] ?? { paths: [] };
  svg.append(...paths.map((d) => shape('path', { d })));
  svg.append(...dots.map(([cx, cy, r]) => shape('circle', { cx, cy, r, fill: 'currentColor', stroke: 'none' })));
  return svg;
}

/** A disc that empties: `setPie` says how much is left. @param {number} [size] */
export function pie(size = 16) {
  const svg = square(size);
  svg.append(
    shape('circle', { cx: 8, cy: 8, r: 6.5 }),
    shape('circle', {
      class: 'wedge', cx: 8, cy: 8, r: 2.25, 'stroke-width': 4.5, 'stroke-linecap': 'butt', pathLength: 100,
      'stroke-dasharray': '100 100', transform: 'rotate(-90 8 8)',
    }),
  );
  return svg;
}

/** A ring around something: `setPie` says how much is left. */
export function ring() {
  const svg = shape('svg', { viewBox: '0 0 64 64', 'aria-hidden': 'true', part: 'ring' });
  const round = { cx: 32, cy: 32, r: 28 };
  svg.append(
    shape('circle', { ...round, class: 'track' }),
    shape('circle', {
      ...round, class: 'wedge', pathLength: 100, 'stroke-dasharray': '100 100', transform: 'rotate(-90 32 32)',
    }),
  );
  return svg;
}

/**
 * @param {Element} svg
 * @param {number} fraction
 */
export function setPie(svg, fraction) {
  const left = Math.max(0, Math.min(1, fraction)) * 100;
  svg.querySelector('.wedge')?.setAttribute('stroke-dasharray', `${left.toFixed(2)} 100`);
}
