// The grid's sums: which numbers there are, in which state, and where a key leads. No DOM.

/**
 * @typedef {'free' | 'mine' | 'elsewhere' | 'other' | 'sold'} CellState
 * @typedef {{state: CellState, holder?: string}} Cell
 */

/** @type {CellState[]} */
export const STATES = ['free', 'mine', 'elsewhere', 'other', 'sold'];
export const BLOCK = 100;
/** @type {Cell} */
const FREE = Object.freeze({ state: 'free' });

/**
 * `1-3,7` as ids, with zeros in front.
 * @param {string} text
 * @param {number} digits
 */
export function parseRanges(text, digits) {
  return text.split(',').map((part) => part.trim()).filter(Boolean).flatMap((part) => {
    const [, from, to] = /^(\d+)-(\d+)$/.exec(part) ?? [];
    if (from === undefined || to === undefined) return [/^\d+$/.test(part) ? part.padStart(digits, '0') : part];
    const length = Math.max(0, Number(to) - Number(from) + 1);
    return Array.from({ length }, (_, index) => String(Number(from) + index).padStart(digits, '0'));
  });
}

/** The numbers, their states, and which of them are shown. */
export class GridModel {
  /**
   * @param {string[]} ids
   * @param {number} columns
   */
  constructor(ids, columns) {
    this.ids = ids;
    this.columns = columns;
    this.places = new Map(ids.map((id, index) => [id, index]));
    /** @type {Map<string, Cell>} */
    this.cells = new Map();
    /** @type {Record<CellState, number>} */
    this.counts = { free: ids.length, mine: 0, elsewhere: 0, other: 0, sold: 0 };
    /** What is shown, as indices of `ids`; all if undefined. @type {number[] | undefined} */
    this.shown = undefined;
    /** @type {CellState | undefined} */
    this.filter = undefined;
  }

  /** How many are shown. */
  get length() {
    return this.shown?.length ?? this.ids.length;
  }

  get rows() {
    return Math.ceil(this.length / this.columns);
  }

  /** The id at a place that is shown. @param {number} place */
  idAt(place) {
    const index = this.shown ? this.shown[place] : place;
    return index === undefined ? undefined : this.ids[index];
  }

  /** The place of an id, if it is shown. @param {string} id */
  placeOf(id) {
    const index = this.places.get(id);
    if (index === undefined || !this.shown) return index;
    const place = this.shown.indexOf(index);
    return place < 0 ? undefined : place;
  }

  /** @param {string} id */
  cell(id) {
    return this.cells.get(id) ?? FREE;
  }

  /**
   * @param {string} id
   * @param {Cell} cell
   * @returns {boolean} It looks different now.
   */
  set(id, cell) {
    if (!this.places.has(id)) return false;
    const before = this.cell(id);
    if (before.state === cell.state && before.holder === cell.holder) return false;
    this.counts[before.state] -= 1;
    this.counts[cell.state] += 1;
    if (cell.state === 'free') this.cells.delete(id);
    else this.cells.set(id, cell);
    return true;
  }

  /**
   * Shows only those that are in this state now. What changes afterwards stays where it is: nothing may slip
   * away under a finger.
   * @param {CellState | undefined} state
   */
  show(state) {
    this.filter = state;
    this.shown = state && [...this.ids.keys()].filter((index) => this.cell(this.ids[index] ?? '').state === state);
  }

  /**
   * What somebody types as a number: as it is, or with zeros in front.
   * @param {string} typed
   */
  find(typed) {
    const wanted = typed.trim();
    if (wanted === '') return undefined;
    if (this.places.has(wanted)) return wanted;
    const digits = this.ids[0]?.length ?? 0;
    const padded = wanted.replace(/^0+(?=\d)/, '').padStart(digits, '0');
    if (this.places.has(padded)) return padded;
    const upper = wanted.toUpperCase();
    return this.places.has(upper) ? upper : undefined;
  }

  /** The numbers of each hundred: from, to, how many are free. */
  blocks() {
    const blocks = [];
    for (let from = 0; from < this.ids.length; from += BLOCK) {
      const ids = this.ids.slice(from, from + BLOCK);
      const free = ids.reduce((sum, id) => sum + (this.cells.has(id) ? 0 : 1), 0);
      const mine = ids.some((id) => ['mine', 'elsewhere'].includes(this.cell(id).state));
      blocks.push({ from: ids[0] ?? '', to: ids.at(-1) ?? '', free, size: ids.length, mine });
    }
    return blocks;
  }
}

/**
 * Where a key leads from a place in a grid, as the ARIA pattern for grids has it; `undefined` for other keys.
 * @param {{key: string, ctrl?: boolean}} pressed
 * @param {number} place
 * @param {{length: number, columns: number, pageRows: number}} grid
 */
export function move({ key, ctrl = false }, place, { length, columns, pageRows }) {
  const row = Math.floor(place / columns);
  const column = place % columns;
  const last = length - 1;
  // Below the last full row a column may be empty: its last number is one row up.
  const bottom = last - ((last - column) % columns);
  switch (key) {
    case 'ArrowRight': return Math.min(place + 1, last);
    case 'ArrowLeft': return Math.max(place - 1, 0);
    case 'ArrowDown': return place + columns <= last ? place + columns : place;
    case 'ArrowUp': return place - columns >= 0 ? place - columns : place;
    case 'Home': return ctrl ? 0 : row * columns;
    case 'End': return ctrl ? last : Math.min(row * columns + columns - 1, last);
    case 'PageDown': return Math.min(place + pageRows * columns, bottom);
    case 'PageUp': return Math.max(place - pageRows * columns, column);
    default: return undefined;
  }
}
