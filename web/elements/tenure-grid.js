// <tenure-grid>: numbers or seats, ten thousand of them, by mouse, finger and key.
//
//   count, start  how many numbers, from which on (0)        digits   zeros in front, to this length
//   columns       in a row (10)                              label    what they are, for those who listen
//   mine, elsewhere, other, sold   ranges: "1-5,9"           uncertain  nobody knows: dotted, and nothing is picked
//   view          cells | blocks: an overview by hundreds
//
// For what changes live: `items` (ids, instead of count), `setCells([[id, {state, holder}], …])`, `goTo(id)`,
// `refuse(id, name)`, `shake(id)`: the same without a word. Events: tenure-pick {item, state}, cancelable. Parts: toolbar, legend, viewport, grid, cell, swatch, said.
// Up to a hundred numbers are found without being asked for: there is no field to go to one.
// `--tenure-grid-height` is the most that a large one takes; `--tenure-grid-above`, `--tenure-grid-below` is what of the
// page's window something else covers.
//
// Only the rows in view exist; they move as the view does. The focused row is kept wherever it is, so that nobody
// loses their place by scrolling.

import { formatNumber } from '../i18n/format.js';
import { t } from '../i18n/index.js';
import { define, make, setAttribute, TenureElement, write } from './base.js';
import { BLOCK, GridModel, move, parseRanges, STATES } from './grid-model.js';
import sheet from './grid-style.js';

/**
 * @typedef {import('./grid-model.js').Cell} Cell
 * @typedef {import('./grid-model.js').CellState} CellState
 * @typedef {import('../i18n/index.js').Key} Key
 */

/** Rows above and below the view that exist too: a flick of the finger finds them there. */
const AHEAD = 6;
/** A row and its gap: a finger's width. Of the overview: with room for a bar and a count. */
const ROW_PX = 48;
const BLOCK_ROW_PX = 72;
/** Up to so many pixels a grid stands whole, and scrolls with its page: two scrollers are one too many. */
const WHOLE_MAX_PX = 960;
/** More changes than this at once are no event to look at. */
const FLIPS_MAX = 40;
/** From so many numbers on an overview helps. */
const OVERVIEW_FROM = 500;
/** Up to so many are all in view, or nearly. */
const GOTO_FROM = 101;
/** On less than this, a hundred's name and count need the room of two columns. */
const NARROW_PX = 544;
/** How long it is said that somebody was faster. */
const SAID_MS = 5_000;

/** @type {Record<CellState, Key>} */
const WORDS = { free: 'grid.free', mine: 'grid.mine', elsewhere: 'grid.elsewhere', other: 'grid.other', sold: 'grid.sold' };

export class TenureGrid extends TenureElement {
  static sheets = [sheet];
  static observedAttributes = [
    'count', 'start', 'digits', 'columns', 'label', 'mine', 'elsewhere', 'other', 'sold', 'uncertain', 'view',
  ];
  #model = new GridModel([], 10);
  /** @type {string[] | undefined} */
  #items;
  #made = '';
  #painted = '';
  #view = '';
  #place = 0;
  /** @type {Map<number, HTMLElement>} */
  #rows = new Map();
  /** @type {HTMLElement[]} */
  #spare = [];
  /** Counted once per drawing. */
  #blocks = this.#model.blocks();
  #isDrawing = false;
  #legend = make('div', { part: 'legend', role: 'group' });
  #input = make('input', { id: 'number', autocomplete: 'off', inputmode: 'numeric', enterkeyhint: 'go' });
  #label = make('label', { for: 'number' });
  #go = make('button', { type: 'submit' });
  #form = make('form', {}, this.#label, this.#input, this.#go);
  #views = make('div', { class: 'views', role: 'group' });
  #grid = make('div', { part: 'grid', role: 'grid' });
  #viewport = make('div', { part: 'viewport' }, this.#grid);
  #empty = make('p', { part: 'empty' });
  #said = make('p', { part: 'said', role: 'status' });
  #isNarrow = false;
  /** The number that was refused last, while that is said. */
  #refused = '';
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #saying;
  #resize = new ResizeObserver(() => this.#fit());

  /** The ids, instead of a count. */
  set items(items) {
    this.#items = items;
    this.request();
  }

  get items() {
    return this.#items ?? this.#model.ids;
  }

  build() {
    const toolbar = make('div', { part: 'toolbar' }, this.#legend, this.#views, this.#form);
    this.root.append(make('div', { class: 'frame' }, toolbar, this.#viewport, this.#empty, this.#said));
    this.#viewport.addEventListener('scroll', () => this.#drawSoon(), { passive: true });
    this.#grid.addEventListener('keydown', (event) => this.#press(event));
    this.#grid.addEventListener('click', (event) => this.#click(event));
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#views.append(...['cells', 'blocks'].map((view) => {
      const button = make('button', { type: 'button', 'data-view': view });
      button.addEventListener('click', () => this.setAttribute('view', view));
      return button;
    }));
  }

  connectedCallback() {
    super.connectedCallback();
    this.#resize.observe(this.#viewport);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#resize.disconnect();
    clearTimeout(this.#saying);
  }

  get #isBlocks() {
    return this.text('view') === 'blocks';
  }

  get #columns() {
    const { columns } = this.#model;
    return this.#isBlocks && this.#isNarrow ? Math.ceil(columns / 2) : columns;
  }

  get #length() {
    return this.#isBlocks ? Math.ceil(this.#model.ids.length / BLOCK) : this.#model.length;
  }

  // ---- what is shown --------------------------------------------------------------------------------------

  update() {
    this.#make();
    this.#paint();
    const turned = this.#turn();
    this.#place = Math.min(this.#place, Math.max(0, this.#length - 1));
    this.#grid.style.setProperty('--_columns', String(this.#columns));
    setAttribute(this.#grid, 'aria-label', this.text('label') || t('grid.label'));
    write(this.#label, t('grid.goto'));
    setAttribute(this.#input, 'placeholder', t('grid.goto'));
    write(this.#go, t('grid.go'));
    this.#form.hidden = this.#model.ids.length < GOTO_FROM;
    this.#views.hidden = this.#model.ids.length < OVERVIEW_FROM;
    for (const button of this.#views.querySelectorAll('button')) {
      write(button, button.dataset.view === 'blocks' ? t('grid.overview') : t('grid.numbers'));
      button.setAttribute('aria-pressed', String((button.dataset.view === 'blocks') === this.#isBlocks));
    }
    this.#drawLegend();
    this.#drawEmpty();
    this.#clear();
    this.#draw();
    if (turned) this.#reveal(this.#place);
  }

  /** Between numbers and overview one stays where one was. */
  #turn() {
    const view = this.text('view');
    if (view === this.#view) return false;
    this.#view = view;
    if (!this.#isBlocks) this.#place *= BLOCK;
    else this.#place = Math.floor((this.#model.places.get(this.#model.idAt(this.#place) ?? '') ?? 0) / BLOCK);
    return true;
  }

  /** The numbers themselves. */
  #make() {
    const key = ['count', 'start', 'digits', 'columns'].map((name) => this.text(name)).join() + (this.#items?.join() ?? '');
    if (key === this.#made) return;
    this.#made = key;
    this.#painted = '';
    const start = this.number('start', 0);
    const count = this.number('count', 0);
    const digits = this.#digits;
    const ids = this.#items ?? Array.from({ length: count }, (_, index) => String(start + index).padStart(digits, '0'));
    this.#model = new GridModel(ids, this.number('columns', 10));
  }

  get #digits() {
    return this.number('digits', String(this.number('start', 0) + this.number('count', 1) - 1).length);
  }

  /** Their states, as far as attributes say. */
  #paint() {
    const states = STATES.filter((state) => state !== 'free');
    const key = states.map((state) => this.text(state)).join('|');
    if (key === this.#painted) return;
    const first = this.#painted === '';
    this.#painted = key;
    if (first && key === '|||') return;
    const wanted = new Map(states.flatMap((state) => parseRanges(this.text(state), this.#digits).map((id) => [id, state])));
    for (const id of this.#model.ids) this.#model.set(id, { state: wanted.get(id) ?? 'free' });
  }

  /**
   * What has changed. Only those cells are touched.
   * @param {Iterable<[string, Cell]>} changes
   */
  setCells(changes) {
    const touched = [...changes].filter(([id, cell]) => this.#model.set(id, cell));
    if (touched.length === 0) return;
    if (touched.some(([id, { state }]) => id === this.#refused && state !== 'other')) this.#say('');
    this.#drawLegend();
    if (this.#isBlocks) return this.#redraw();
    for (const [id] of touched) {
      const element = this.#cellOf(this.#model.placeOf(id));
      if (!element) continue;
      this.#fill(element, Number(element.dataset.place));
      if (touched.length <= FLIPS_MAX) play(element, FLIP, 160);
    }
  }

  #drawLegend() {
    const { counts, filter } = this.#model;
    setAttribute(this.#legend, 'aria-label', t('grid.legend'));
    if (this.#legend.children.length === 0) {
      this.#legend.append(...STATES.map((state) => {
        const swatch = make('span', { part: 'swatch', class: 'swatch cell', 'data-state': state, 'aria-hidden': 'true' });
        const button = make('button', { type: 'button', 'data-state': state }, swatch, make('span'), make('b'));
        button.addEventListener('click', () => this.#filter(this.#model.filter === state ? undefined : state));
        return button;
      }));
    }
    for (const button of this.#legend.querySelectorAll('button')) {
      const state = /** @type {CellState} */ (button.dataset.state);
      button.hidden = state === 'elsewhere' && counts.elsewhere === 0;
      button.setAttribute('aria-pressed', String(filter === state));
      const [, word, count] = button.children;
      if (word) write(word, t(WORDS[state]));
      if (count) write(count, formatNumber(counts[state], this.language));
    }
  }

  #drawEmpty() {
    this.#empty.hidden = this.#isBlocks || this.#length > 0;
    if (this.#empty.hidden) return;
    const button = make('button', { type: 'button' }, t('grid.all'));
    button.addEventListener('click', () => this.#filter(undefined));
    this.#empty.replaceChildren(t('grid.none'), button);
  }

  /** @param {CellState | undefined} state */
  #filter(state) {
    this.#model.show(state);
    this.#place = 0;
    this.#viewport.scrollTop = 0;
    if (this.#isBlocks) this.setAttribute('view', 'cells');
    this.request();
  }

  // ---- drawing the rows in view ---------------------------------------------------------------------------

  #drawSoon() {
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    requestAnimationFrame(() => {
      this.#isDrawing = false;
      this.#draw();
    });
  }

  #fit() {
    const isNarrow = this.#viewport.clientWidth < NARROW_PX;
    const turns = isNarrow !== this.#isNarrow && this.#isBlocks;
    this.#isNarrow = isNarrow;
    if (turns) this.update();
    else this.#draw();
  }

  #redraw() {
    this.#clear();
    this.#draw();
  }

  get #rowHeight() {
    return this.#isBlocks ? BLOCK_ROW_PX : ROW_PX;
  }

  get #rowCount() {
    return Math.ceil(this.#length / this.#columns);
  }

  get #isWhole() {
    return !this.#isBlocks && this.#rowCount * ROW_PX <= WHOLE_MAX_PX;
  }

  #draw() {
    const height = this.#rowHeight;
    const rows = this.#rowCount;
    this.#grid.style.blockSize = `${rows * height}px`;
    this.#grid.style.setProperty('--_row', `${height}px`);
    this.#viewport.classList.toggle('whole', this.#isWhole);
    setAttribute(this.#grid, 'aria-rowcount', String(rows));
    setAttribute(this.#grid, 'aria-colcount', String(this.#columns + 1));
    const { scrollTop, clientHeight } = this.#viewport;
    const first = Math.max(0, Math.floor(scrollTop / height) - AHEAD);
    const last = Math.min(rows - 1, Math.ceil((scrollTop + clientHeight) / height) + AHEAD);
    const focused = Math.floor(this.#place / this.#columns);
    for (const [row, element] of this.#rows) {
      if ((row >= first && row <= last) || row === focused) continue;
      this.#rows.delete(row);
      this.#spare.push(element);
    }
    for (let row = first; row <= last; row += 1) this.#row(row, height);
    if (rows > 0) this.#row(focused, height);
    for (const element of this.#spare.splice(0)) element.remove();
  }

  /**
   * @param {number} row
   * @param {number} height
   */
  #row(row, height) {
    if (this.#rows.has(row)) return;
    const element = this.#spare.pop() ?? this.#makeRow();
    this.#rows.set(row, element);
    element.style.transform = `translateY(${row * height}px)`;
    element.setAttribute('aria-rowindex', String(row + 1));
    const [header, ...cells] = /** @type {HTMLElement[]} */ ([...element.children]);
    const first = row * this.#columns;
    if (header) write(header, (this.#isBlocks ? this.#blocks[first]?.from : this.#model.idAt(first)) ?? '');
    cells.forEach((cell, column) => this.#fill(cell, row * this.#columns + column));
    if (!element.isConnected) this.#grid.append(element);
  }

  #makeRow() {
    const row = make('div', { role: 'row' }, make('div', { role: 'rowheader', 'aria-colindex': '1' }));
    for (let column = 0; column < this.#columns; column += 1) {
      row.append(make('div', { role: 'gridcell', part: 'cell', class: 'cell', 'aria-colindex': String(column + 2) }));
    }
    return row;
  }

  #clear() {
    this.#blocks = this.#isBlocks ? this.#model.blocks() : [];
    const hadFocus = this.root.activeElement?.getAttribute('role') === 'gridcell';
    for (const element of this.#rows.values()) element.remove();
    this.#rows.clear();
    if (hadFocus) queueMicrotask(() => this.#cellOf(this.#place)?.focus({ preventScroll: true }));
  }

  /**
   * @param {HTMLElement} element
   * @param {number} place
   */
  #fill(element, place) {
    element.hidden = place >= this.#length;
    element.dataset.place = String(place);
    element.tabIndex = place === this.#place ? 0 : -1;
    if (element.hidden) return;
    if (this.#isBlocks) return this.#fillBlock(element, place);
    const id = this.#model.idAt(place) ?? '';
    const { state, holder } = this.#model.cell(id);
    const word = state === 'other' && holder ? t('grid.other.by', { name: holder }) : t(WORDS[state]);
    element.dataset.state = state;
    write(element, id);
    setAttribute(element, 'aria-label', t('grid.cell', { id, state: word }));
    setAttribute(element, 'title', holder ? word : null);
    setAttribute(element, 'aria-selected', String(state === 'mine' || state === 'elsewhere'));
    setAttribute(element, 'aria-disabled', state === 'other' || state === 'sold' || this.hasAttribute('uncertain') ? 'true' : null);
  }

  /**
   * @param {HTMLElement} element
   * @param {number} place
   */
  #fillBlock(element, place) {
    const block = this.#blocks[place];
    if (!block) return;
    const { from, to, free, size, mine } = block;
    element.classList.add('block');
    element.classList.toggle('has-mine', mine);
    // What is read out is what is seen, with where it ends.
    element.replaceChildren(from, make('span', { class: 'unseen' }, ` – ${to} `), make('i'), make('small', {}, t('grid.block.free', { n: free })));
    element.style.setProperty('--_free', String(free / size));
    setAttribute(element, 'aria-label', null);
  }

  /** @param {number | undefined} place */
  #cellOf(place) {
    if (place === undefined) return undefined;
    const row = this.#rows.get(Math.floor(place / this.#columns));
    return /** @type {HTMLElement | undefined} */ (row?.children[(place % this.#columns) + 1]);
  }

  // ---- what people do -------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event */
  #press(event) {
    if (event.altKey || event.metaKey) return;
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      return this.#pick(this.#place);
    }
    const pageRows = Math.max(1, Math.floor(Math.min(this.#viewport.clientHeight, innerHeight) / this.#rowHeight) - 1);
    const rtl = getComputedStyle(this).direction === 'rtl';
    const mirrored = /** @type {Record<string, string>} */ ({ ArrowLeft: 'ArrowRight', ArrowRight: 'ArrowLeft' });
    const key = (rtl && mirrored[event.key]) || event.key;
    const target = move({ key, ctrl: event.ctrlKey }, this.#place, { length: this.#length, columns: this.#columns, pageRows });
    if (target === undefined) return;
    event.preventDefault();
    this.#focus(target);
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const cell = /** @type {Element} */ (event.target).closest('[role=gridcell]');
    if (!(cell instanceof HTMLElement)) return;
    const place = Number(cell.dataset.place);
    this.#focus(place, true);
    this.#pick(place);
  }

  /** @param {number} place */
  #pick(place) {
    if (this.#isBlocks) return this.goTo(this.#model.ids[place * BLOCK] ?? '');
    const item = this.#model.idAt(place);
    if (item === undefined || this.hasAttribute('uncertain')) return;
    const { state, holder } = this.#model.cell(item);
    this.tell('tenure-pick', { item, state, holder });
  }

  /** @param {number} place @param {boolean} [isSeen] */
  #focus(place, isSeen = false) {
    const before = this.#cellOf(this.#place);
    this.#place = place;
    if (before) before.tabIndex = -1;
    this.#reveal(place);
    this.#draw();
    const cell = this.#cellOf(place);
    if (!cell) return;
    cell.tabIndex = 0;
    cell.focus({ preventScroll: true });
    // What is under the finger does not move.
    if (this.#isWhole && !isSeen) cell.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }

  /** Scrolls no further than is needed. @param {number} place */
  #reveal(place) {
    const height = this.#rowHeight;
    const top = Math.floor(place / this.#columns) * height;
    const { scrollTop, clientHeight } = this.#viewport;
    if (top < scrollTop) this.#viewport.scrollTop = top;
    else if (top + height + 6 > scrollTop + clientHeight) this.#viewport.scrollTop = top + height + 6 - clientHeight;
  }

  #submit() {
    const typed = this.#input.value;
    const id = this.#model.find(typed);
    if (id === undefined) return this.#say(typed.trim() ? t('grid.missing', { n: typed.trim() }) : '');
    this.#say('');
    this.#input.value = '';
    this.goTo(id);
  }

  /** Shows a number and puts the focus on it. @param {string} id */
  goTo(id) {
    if (this.#isBlocks) this.setAttribute('view', 'cells');
    if (this.#model.placeOf(id) === undefined) this.#model.show(undefined);
    this.update();
    const place = this.#model.placeOf(id);
    if (place === undefined) return;
    const height = this.#rowHeight;
    this.#viewport.scrollTop = Math.max(0, Math.floor(place / this.#columns) * height - this.#viewport.clientHeight / 3);
    this.#focus(place);
  }

  /**
   * Somebody else was faster: the cell shakes once, and it is said who.
   * @param {string} id
   * @param {string} [name]
   */
  refuse(id, name) {
    this.shake(id);
    this.#say(name ? t('grid.faster', { name, id }) : t('grid.taken', { id }));
    // It is over when that number is nobody else's any more, or after a while.
    this.#refused = id;
    this.#saying = setTimeout(() => this.#say(''), SAID_MS);
  }

  /** The cell shakes once; why is said by whoever asks for it. @param {string} id */
  shake(id) {
    const cell = this.#cellOf(this.#model.placeOf(id));
    if (cell) play(cell, SHAKE, 200);
  }

  /** @param {string} text */
  #say(text) {
    clearTimeout(this.#saying);
    this.#refused = '';
    write(this.#said, text);
  }
}

const FLIP = [{ transform: 'rotateX(70deg)' }, { transform: 'none' }];
const SHAKE = [0, -3, 3, -2, 2, 0].map((x) => ({ transform: `translateX(${x}px)` }));

/**
 * Shows that something changed, to those who like things to move.
 * @param {HTMLElement} element
 * @param {Keyframe[]} frames
 * @param {number} duration
 */
function play(element, frames, duration) {
  if (!matchMedia('(prefers-reduced-motion: reduce)').matches) element.animate(frames, { duration, easing: 'ease-out' });
}

define('tenure-grid', TenureGrid);
