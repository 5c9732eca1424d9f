// The image and what is outlined in it: drawing, choosing, moving, reshaping, by pointer and by keys. It shows and
// tells; what becomes of a change is the page's to say.

import { h, set } from '../lib/dom.js';
import { boxOf, handlesOf, inside, isBigEnough, isSame, middle, moved, outline, reshaped, spanned } from './geometry.js';
import { paint } from './colours.js';

/**
 * @typedef {import('./geometry.js').Geometry} Geometry
 * @typedef {import('./geometry.js').Spot} Spot
 * @typedef {'select' | 'rectangle' | 'polygon'} Tool
 * @typedef {{id: string, geometry: Geometry, class_id: string, version: number, isUnsaved?: boolean}} Shown
 *
 * @typedef {object} Wishes
 * @property {(geometry: Geometry) => void} onDraw
 * @property {(id: string, geometry: Geometry, base: {version: number, at: number}) => void} onChange
 * @property {(id: string | undefined) => void} onSelect
 * @property {(id: string) => void} onDelete
 * @property {(one: Shown) => boolean} canEdit
 * @property {() => boolean} canDraw
 */

const SVG = 'http://www.w3.org/2000/svg';
const ZOOM_MAX = 8;
const FIT_MAX = 3;
/** Nearer to the first point than this, on the screen, closes a polygon. */
const CLOSE_PX = 12;
/** A click that trembles is no drag. */
const SLIP_PX = 3;
/** A row of key presses is one change. */
const KEYS_MS = 500;

/** @param {string} tag @param {Record<string, string | number>} [attributes] */
function shape(tag, attributes = {}) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

export class Stage {
  /** @type {Shown[]} */ #shown = [];
  /** @type {string | undefined} */ selected = undefined;
  /** @type {Tool} */ tool = 'select';
  #scale = 1;
  #isFit = true;
  /** What is going on under the pointer. @type {{kind: 'draw' | 'move' | 'reshape' | 'pan', from: Spot, at: [number, number], shown?: Shown, now?: Geometry, handle?: string, base?: {version: number, at: number}, scroll?: [number, number]} | undefined} */
  #gesture = undefined;
  /** The polygon that is being drawn. @type {Spot[]} */ #draft = [];
  /** @type {Spot | undefined} */ #pointer = undefined;
  /** @type {{id: string, now: Geometry, base: {version: number, at: number}, timer: ReturnType<typeof setTimeout>} | undefined} */ #keyed = undefined;
  #shapes = shape('g');
  #drafts = shape('g', { class: 'draft' });
  #handles = shape('g', { class: 'handles' });
  #svg = /** @type {SVGSVGElement} */ (shape('svg', { class: 'picture' }));

  /**
   * @param {{width: number, height: number, url: string | null}} image
   * @param {Wishes} wishes
   */
  constructor({ width, height, url }, wishes) {
    this.size = { width, height };
    this.wishes = wishes;
    set(this.#svg, 'viewBox', `0 0 ${width} ${height}`);
    this.#svg.append(shape('rect', { class: 'ground', width, height }));
    if (url) this.#svg.append(shape('image', { href: url, width, height }));
    this.#svg.append(this.#shapes, this.#drafts, this.#handles);
    this.element = h('div', { class: 'stage', tabindex: 0, role: 'application' }, this.#svg);
    this.element.style.setProperty('--ratio', `${width} / ${height}`);
    const svg = this.#svg;
    svg.addEventListener('pointerdown', (event) => this.#down(event));
    svg.addEventListener('pointermove', (event) => this.#move(event));
    svg.addEventListener('pointerup', (event) => this.#up(event));
    svg.addEventListener('pointercancel', () => this.#drop());
    svg.addEventListener('dblclick', () => this.#close());
    this.element.addEventListener('keydown', (event) => this.#key(event));
    this.element.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
    }, { passive: false });
    this.sizes = new ResizeObserver(() => { if (this.#isFit) this.fit(); });
    this.sizes.observe(this.element);
  }

  close() {
    this.sizes.disconnect();
    this.flush();
  }

  /** Somebody is in the middle of something with this one. @param {string} id */
  isBusy(id) {
    return this.#gesture?.shown?.id === id || this.#keyed?.id === id;
  }

  /** @param {Shown[]} shown */
  show(shown) {
    // What is under the pointer stays as it is there, with the version that it was taken at.
    this.#shown = shown;
    if (this.selected && !shown.some(({ id }) => id === this.selected)) this.#choose(undefined);
    this.draw();
  }

  /** @param {Tool} tool */
  use(tool) {
    this.tool = tool;
    this.#draft = [];
    if (tool !== 'select') this.#choose(undefined);
    this.draw();
  }

  /** @param {string | undefined} id */
  select(id) {
    this.flush();
    this.selected = id;
    this.draw();
  }

  fit() {
    const { clientWidth, clientHeight } = this.element;
    if (clientWidth === 0) return;
    this.#isFit = true;
    this.#scale = Math.min(FIT_MAX, clientWidth / this.size.width, clientHeight / this.size.height);
    this.#resize();
  }

  /** @param {number} by */
  zoom(by) {
    const { element } = this;
    const [x, y] = [(element.scrollLeft + element.clientWidth / 2) / this.#scale, (element.scrollTop + element.clientHeight / 2) / this.#scale];
    this.#isFit = false;
    this.#scale = Math.min(ZOOM_MAX, Math.max(0.1, this.#scale * by));
    this.#resize();
    element.scrollTo(x * this.#scale - element.clientWidth / 2, y * this.#scale - element.clientHeight / 2);
  }

  #resize() {
    this.#svg.style.inlineSize = `${Math.floor(this.size.width * this.#scale)}px`;
    this.#svg.style.blockSize = `${Math.floor(this.size.height * this.#scale)}px`;
    this.draw();
  }

  // ---- drawing --------------------------------------------------------------------------------------------

  draw() {
    const canDraw = this.wishes.canDraw();
    this.element.dataset.tool = canDraw ? this.tool : 'select';
    this.#shapes.replaceChildren(...this.#shown.map((one) => this.#drawShape(one)));
    this.#drawDraft();
    this.#drawHandles();
  }

  /** As it is now, under the pointer or the keys. @param {Shown} one @returns {Geometry} */
  #now(one) {
    if (this.#gesture?.shown?.id === one.id && this.#gesture.now) return this.#gesture.now;
    return this.#keyed?.id === one.id ? this.#keyed.now : one.geometry;
  }

  /** @param {Shown} one */
  #drawShape(one) {
    const geometry = this.#now(one);
    const points = outline(geometry);
    const isSelected = one.id === this.selected;
    const group = shape('g', { class: `shape${isSelected ? ' selected' : ''}${this.wishes.canEdit(one) ? ' editable' : ''}${one.isUnsaved ? ' unsaved' : ''}`, 'data-id': one.id });
    paint(group, one.class_id);
    const { left, top } = boxOf(geometry);
    const px = 1 / this.#scale;
    const words = shape('text', { x: left + 4 * px, y: top > 18 * px ? top - 5 * px : top + 15 * px, 'font-size': 12 * px, 'stroke-width': 3 * px });
    words.textContent = one.class_id;
    group.append(shape('polygon', { class: 'casing', points }), shape('polygon', { class: 'line', points }), words);
    return group;
  }

  #drawHandles() {
    const one = this.#shown.find(({ id }) => id === this.selected);
    if (!one || !this.wishes.canEdit(one)) return this.#handles.replaceChildren();
    const px = 1 / this.#scale;
    const reach = (matchMedia('(pointer: coarse)').matches ? 22 : 10) * px;
    return this.#handles.replaceChildren(...handlesOf(this.#now(one)).flatMap(([name, [cx, cy]]) => [
      shape('circle', { cx, cy, r: 5 * px, class: 'dot' }), shape('circle', { cx, cy, r: reach, class: `grip ${name}`, 'data-handle': name }),
    ]));
  }

  #drawDraft() {
    const parts = [];
    const gesture = this.#gesture;
    if (gesture?.kind === 'draw' && gesture.now) parts.push(shape('polygon', { points: outline(gesture.now) }));
    if (this.#draft.length > 0) {
      const spots = this.#pointer ? [...this.#draft, this.#pointer] : this.#draft;
      parts.push(shape('polyline', { points: spots.map((spot) => spot.join(',')).join(' ') }));
      parts.push(...this.#draft.map(([cx, cy], index) => shape('circle', { cx, cy, r: (index === 0 ? 6 : 3.5) / this.#scale, class: index === 0 ? 'first' : '' })));
    }
    this.#drafts.replaceChildren(...parts);
  }

  // ---- the pointer ----------------------------------------------------------------------------------------

  /** @param {PointerEvent} event @returns {Spot} */
  #spot(event) {
    const { left, top } = this.#svg.getBoundingClientRect();
    return [(event.clientX - left) / this.#scale, (event.clientY - top) / this.#scale];
  }

  /** @param {PointerEvent} event */
  #down(event) {
    if (event.button !== 0 || this.#gesture) return;
    this.flush();
    const from = this.#spot(event);
    /** @type {[number, number]} */
    const at = [event.clientX, event.clientY];
    if (this.tool === 'polygon' && this.wishes.canDraw()) return this.#addPoint(inside(from, this.size));
    this.#svg.setPointerCapture(event.pointerId);
    if (this.tool === 'rectangle' && this.wishes.canDraw()) {
      this.#gesture = { kind: 'draw', from, at };
      return undefined;
    }
    const target = /** @type {Element} */ (event.target);
    const handle = target.closest('[data-handle]')?.getAttribute('data-handle') ?? undefined;
    const id = handle ? this.selected : target.closest('.shape')?.getAttribute('data-id') ?? undefined;
    const shown = this.#shown.find((one) => one.id === id);
    if (id !== this.selected) this.#choose(id);
    if (shown && this.wishes.canEdit(shown)) {
      this.#gesture = { kind: handle ? 'reshape' : 'move', from, at, shown, handle, base: { version: shown.version, at: performance.now() } };
    } else if (!shown) this.#gesture = { kind: 'pan', from, at, scroll: [this.element.scrollLeft, this.element.scrollTop] };
    return this.draw();
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const to = this.#spot(event);
    if (this.#draft.length > 0) {
      this.#pointer = inside(to, this.size);
      return this.#drawDraft();
    }
    const gesture = this.#gesture;
    if (!gesture) return undefined;
    const { kind, from, at, shown, handle = '', scroll = [0, 0] } = gesture;
    const [dx, dy] = [event.clientX - at[0], event.clientY - at[1]];
    if (!gesture.now && kind !== 'pan' && Math.hypot(dx, dy) < SLIP_PX) return undefined;
    if (kind === 'pan') return this.element.scrollTo(scroll[0] - dx, scroll[1] - dy);
    if (kind === 'draw') gesture.now = spanned(from, to, this.size);
    else if (shown && kind === 'move') gesture.now = moved(shown.geometry, to[0] - from[0], to[1] - from[1], this.size);
    else if (shown) gesture.now = reshaped(shown.geometry, handle, to, this.size);
    return this.draw();
  }

  /** @param {PointerEvent} event */
  #up(event) {
    const gesture = this.#gesture;
    if (!gesture) return;
    if (this.#svg.hasPointerCapture(event.pointerId)) this.#svg.releasePointerCapture(event.pointerId);
    this.#gesture = undefined;
    const { kind, shown, now, base } = gesture;
    if (now && kind === 'draw' && isBigEnough(now)) this.#made(now);
    else if (now && shown && base && !isSame(now, shown.geometry)) this.wishes.onChange(shown.id, now, base);
    this.draw();
  }

  #drop() {
    this.#gesture = undefined;
    this.draw();
  }

  /** @param {Spot} spot */
  #addPoint(spot) {
    const [first] = this.#draft;
    const isNear = first && Math.hypot(spot[0] - first[0], spot[1] - first[1]) * this.#scale < CLOSE_PX;
    if (isNear && this.#draft.length >= 3) return this.#close();
    const last = this.#draft.at(-1);
    if (last && Math.hypot(spot[0] - last[0], spot[1] - last[1]) * this.#scale < SLIP_PX) return undefined;
    this.#draft.push(spot);
    return this.#drawDraft();
  }

  #close() {
    const points = this.#draft;
    this.#draft = [];
    this.#pointer = undefined;
    /** @type {Geometry} */
    const polygon = { type: 'polygon', points };
    if (points.length >= 3 && isBigEnough(polygon)) this.#made(polygon);
    this.draw();
  }

  /** @param {Geometry} geometry */
  #made(geometry) {
    this.wishes.onDraw(geometry);
  }

  /** @param {string | undefined} id */
  #choose(id) {
    this.flush();
    this.selected = id;
    this.wishes.onSelect(id);
  }

  // ---- keys -----------------------------------------------------------------------------------------------

  /** What keys moved is told now. */
  flush() {
    const keyed = this.#keyed;
    if (!keyed) return;
    clearTimeout(keyed.timer);
    this.#keyed = undefined;
    this.wishes.onChange(keyed.id, keyed.now, keyed.base);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey) return;
    const done = this.#act(event);
    if (done) event.preventDefault();
  }

  /** @param {KeyboardEvent} event @returns {boolean} Whether the key meant something. */
  #act({ key, shiftKey, altKey }) {
    /** @type {Record<string, [number, number]>} */
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[key];
    const one = this.#shown.find(({ id }) => id === this.selected);
    if (way && one && this.wishes.canEdit(one)) {
      const step = shiftKey ? 10 : 1;
      this.#nudge(one, way[0] * step, way[1] * step, altKey);
      return true;
    }
    if (key === 'Escape') {
      const wasBusy = this.#draft.length > 0 || this.selected !== undefined || this.tool !== 'select';
      if (this.#draft.length === 0) this.#choose(undefined);
      this.#draft = [];
      this.#drop();
      return wasBusy;
    }
    if ((key === 'Delete' || key === 'Backspace') && this.#draft.length > 0) {
      this.#draft.pop();
      this.#drawDraft();
      return true;
    }
    if ((key === 'Delete' || key === 'Backspace') && one && this.wishes.canEdit(one)) {
      this.wishes.onDelete(one.id);
      return true;
    }
    if (key === 'Enter' && this.tool !== 'select' && this.wishes.canDraw()) {
      if (this.#draft.length > 0) this.#close();
      else this.#made(middle(this.tool, this.size));
      return true;
    }
    return false;
  }

  /** @param {Shown} one @param {number} dx @param {number} dy @param {boolean} isReshaping */
  #nudge(one, dx, dy, isReshaping) {
    const before = this.#now(one);
    const { right, bottom } = boxOf(before);
    const last = before.type === 'polygon' ? String(before.points.length - 1) : 'se';
    const corner = before.type === 'polygon' ? /** @type {Spot} */ (before.points.at(-1)) : /** @type {Spot} */ ([right, bottom]);
    const now = isReshaping ? reshaped(before, last, [corner[0] + dx, corner[1] + dy], this.size) : moved(before, dx, dy, this.size);
    const base = this.#keyed?.base ?? { version: one.version, at: performance.now() };
    clearTimeout(this.#keyed?.timer);
    this.#keyed = { id: one.id, now, base, timer: setTimeout(() => this.flush(), KEYS_MS) };
    this.draw();
  }
}
