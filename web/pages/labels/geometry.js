// Shapes in pixels of the image: sums only. Coordinates are multiples of a quarter, which floats hold exactly,
// so that what touches the edge does not reach over it.

/**
 * @typedef {[number, number]} Spot
 * @typedef {{type: 'rectangle', x: number, y: number, width: number, height: number}} Rectangle
 * @typedef {{type: 'polygon', points: Spot[]}} Polygon
 * @typedef {Rectangle | Polygon} Geometry
 * @typedef {{width: number, height: number}} Size
 * @typedef {{left: number, top: number, right: number, bottom: number}} Box
 */

/** Less than this is a slip of the hand. */
export const LEAST = 2;
export const CORNERS = /** @type {const} */ (['nw', 'n', 'ne', 'e', 'se', 's', 'sw', 'w']);

/** @param {number} n */
export const quarter = (n) => Math.round(n * 4) / 4;

/** @param {number} n @param {number} least @param {number} most */
const within = (n, least, most) => Math.min(Math.max(n, least), most);

/** @param {Spot} spot @param {Size} size @returns {Spot} */
export const inside = ([x, y], { width, height }) => [quarter(within(x, 0, width)), quarter(within(y, 0, height))];

/** @param {Geometry} shape @returns {Box} */
export function boxOf(shape) {
  if (shape.type === 'rectangle') return { left: shape.x, top: shape.y, right: shape.x + shape.width, bottom: shape.y + shape.height };
  const [xs, ys] = [shape.points.map(([x]) => x), shape.points.map(([, y]) => y)];
  return { left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) };
}

/** @param {Box} box @returns {Rectangle} */
const rectangleOf = ({ left, top, right, bottom }) => ({ type: 'rectangle', x: left, y: top, width: right - left, height: bottom - top });

/** From corner to corner, whichever they are. @param {Spot} a @param {Spot} b @param {Size} size @returns {Rectangle} */
export function spanned(a, b, size) {
  const [[ax, ay], [bx, by]] = [inside(a, size), inside(b, size)];
  return rectangleOf({ left: Math.min(ax, bx), top: Math.min(ay, by), right: Math.max(ax, bx), bottom: Math.max(ay, by) });
}

/** @param {Geometry} shape */
export function isBigEnough(shape) {
  const { left, top, right, bottom } = boxOf(shape);
  return right - left >= LEAST && bottom - top >= LEAST;
}

/** Moved, as far as the image goes. @param {Geometry} shape @param {number} dx @param {number} dy @param {Size} size @returns {Geometry} */
export function moved(shape, dx, dy, size) {
  const { left, top, right, bottom } = boxOf(shape);
  const [x, y] = [quarter(within(dx, -left, size.width - right)), quarter(within(dy, -top, size.height - bottom))];
  if (shape.type === 'rectangle') return { ...shape, x: shape.x + x, y: shape.y + y };
  return { type: 'polygon', points: shape.points.map(([px, py]) => [px + x, py + y]) };
}

/**
 * With one of its handles elsewhere: a corner or side of a rectangle, a point of a polygon.
 * @param {Geometry} shape
 * @param {string} handle
 * @param {Spot} to
 * @param {Size} size
 * @returns {Geometry}
 */
export function reshaped(shape, handle, to, size) {
  const [x, y] = inside(to, size);
  if (shape.type === 'polygon') return { type: 'polygon', points: shape.points.map((spot, index) => (String(index) === handle ? [x, y] : spot)) };
  const box = boxOf(shape);
  // A side stops short of the other: a rectangle does not turn inside out.
  if (handle.includes('w')) box.left = Math.min(x, box.right - LEAST);
  if (handle.includes('e')) box.right = Math.max(x, box.left + LEAST);
  if (handle.includes('n')) box.top = Math.min(y, box.bottom - LEAST);
  if (handle.includes('s')) box.bottom = Math.max(y, box.top + LEAST);
  return rectangleOf(box);
}

/** Where the handles are. @param {Geometry} shape @returns {[string, Spot][]} */
export function handlesOf(shape) {
  if (shape.type === 'polygon') return shape.points.map((spot, index) => [String(index), spot]);
  const { left, top, right, bottom } = boxOf(shape);
  const [x, y] = [(left + right) / 2, (top + bottom) / 2];
  /** @type {Record<string, Spot>} */
  const spots = { nw: [left, top], n: [x, top], ne: [right, top], e: [right, y], se: [right, bottom], s: [x, bottom], sw: [left, bottom], w: [left, y] };
  return CORNERS.map((name) => [name, /** @type {Spot} */ (spots[name])]);
}

/** Its outline. @param {Geometry} shape */
export function outline(shape) {
  if (shape.type === 'polygon') return shape.points.map((spot) => spot.join(',')).join(' ');
  const { left, top, right, bottom } = boxOf(shape);
  return `${left},${top} ${right},${top} ${right},${bottom} ${left},${bottom}`;
}

/** @param {Geometry} a @param {Geometry} b */
export const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b) || (a.type === b.type && outline(a) === outline(b));

/** Something to begin with, for whoever draws without a pointer. @param {'rectangle' | 'polygon'} type @param {Size} size @returns {Geometry} */
export function middle(type, { width, height }) {
  const box = { left: quarter(width * 0.375), top: quarter(height * 0.375), right: quarter(width * 0.625), bottom: quarter(height * 0.625) };
  if (type === 'rectangle') return rectangleOf(box);
  return { type: 'polygon', points: [[quarter(width / 2), box.top], [box.right, box.bottom], [box.left, box.bottom]] };
}
