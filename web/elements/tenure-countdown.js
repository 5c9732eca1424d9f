// <tenure-countdown>: the time left, on the server's clock.
//
//   expires-at   the deadline         total-ms   what it began with, for ring and bar
//   shape        text | ring | bar    urgent-ms  from when on it presses (120000)
//   label        what ends, for those who listen
//
// Events: tenure-urgent, tenure-expired. Parts: time, ring, bar. It speaks now and then, not every second.

import { formatLeft } from '../i18n/format.js';
import { t } from '../i18n/index.js';
import { css, define, make, setAttribute, TenureElement, write } from './base.js';
import { onTick, URGENT_MS } from './clock.js';
import { ring, setPie } from './icons.js';

const SHEET = css`
  :host { display: inline-block; --_colour: var(--tenure-accent); --_ink: inherit; }
  :host([shape=bar]) { display: block; }
  .urgent { --_colour: var(--tenure-urgent); --_ink: var(--tenure-urgent-ink); }
  [part=time] { font-weight: 600; color: var(--_ink); }
  .ring { display: inline-grid; place-items: center; inline-size: var(--tenure-ring, 4.5rem); aspect-ratio: 1; }
  .ring > * { grid-area: 1 / 1; }
  .ring svg { inline-size: 100%; block-size: 100%; stroke-width: 5; stroke-linecap: butt; }
  /* Five figures fit into the ring, whatever its size; hours need more room. */
  .ring [part=time] { font-size: min(var(--tenure-text-m), calc(var(--tenure-ring, 4.5rem) * 0.23)); letter-spacing: -0.02em; }
  .ring.long [part=time] { font-size: calc(var(--tenure-ring, 4.5rem) * 0.17); }
  .track { stroke: var(--tenure-line); }
  .wedge { stroke: var(--_colour); transition: stroke-dasharray 1s linear; }
  .bar { display: grid; gap: var(--tenure-1); }
  [part=bar] { block-size: 6px; border-radius: 3px; overflow: hidden; background: var(--tenure-line); }
  .drain {
    block-size: 100%; background: var(--_colour); border-radius: inherit; transform-origin: left;
    transition: transform 1s linear;
  }
  :host(:dir(rtl)) .drain { transform-origin: right; }
  @media (prefers-reduced-motion: reduce) { .wedge, .drain { transition: none; } }
`;

/** Seconds left at which it says so. */
const SPOKEN = [600, 300, 120, 60, 30, 10];

export class TenureCountdown extends TenureElement {
  static sheets = [SHEET];
  static observedAttributes = ['expires-at', 'total-ms', 'shape', 'urgent-ms', 'label'];
  #box = make('span', { role: 'timer' });
  #time = make('span', { part: 'time', class: 'figures' });
  #spoken = make('span', { class: 'unseen', 'aria-live': 'polite' });
  #drain = make('div', { class: 'drain' });
  #bar = make('div', { part: 'bar' });
  /** @type {Element | undefined} */
  #ring;
  #shape = '';
  #told = { expiresAt: NaN, isUrgent: false, isOver: false, seconds: Infinity };
  #stop = () => {};

  build() {
    this.#bar.append(this.#drain);
    this.root.append(this.#box, this.#spoken);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#stop();
  }

  update() {
    this.#stop();
    this.#arrange(this.text('shape', 'text'));
    setAttribute(this.#box, 'aria-label', this.text('label') || null);
    const expiresAt = Date.parse(this.text('expires-at'));
    if (!Number.isFinite(expiresAt)) return write(this.#time, '');
    if (this.#told.expiresAt !== expiresAt) this.#told = { expiresAt, isUrgent: false, isOver: false, seconds: Infinity };
    this.#stop = onTick((at) => this.#tick(expiresAt - at));
  }

  /** @param {string} shape */
  #arrange(shape) {
    if (this.#shape === shape) return;
    this.#shape = shape;
    this.#box.className = shape;
    this.#ring = shape === 'ring' ? ring() : undefined;
    const around = shape === 'bar' ? [this.#bar] : this.#ring ? [this.#ring] : [];
    this.#box.replaceChildren(...around, this.#time);
  }

  /** @param {number} leftMs */
  #tick(leftMs) {
    const urgentMs = this.number('urgent-ms', URGENT_MS);
    const isUrgent = leftMs < urgentMs;
    this.#box.classList.toggle('urgent', isUrgent);
    const left = formatLeft(leftMs);
    write(this.#time, left);
    this.#box.classList.toggle('long', left.length > 5);
    // A second ahead: the drawing takes that long to arrive where the figures are.
    const fraction = (leftMs - 1000) / this.number('total-ms', Math.max(leftMs, urgentMs));
    if (this.#ring) setPie(this.#ring, fraction);
    this.#drain.style.transform = `scaleX(${Math.max(0, Math.min(1, fraction))})`;
    this.#speak(leftMs);
    if (isUrgent && !this.#told.isUrgent) {
      this.#told.isUrgent = true;
      if (leftMs > 0) this.tell('tenure-urgent', { leftMs });
    }
    if (leftMs > 0) return ((leftMs - 1) % 1000) + 1;
    if (!this.#told.isOver) {
      this.#told.isOver = true;
      this.tell('tenure-expired');
    }
    return undefined;
  }

  /** @param {number} leftMs */
  #speak(leftMs) {
    const seconds = Math.ceil(leftMs / 1000);
    const before = this.#told.seconds;
    this.#told.seconds = seconds;
    if (before === Infinity) return;
    if (seconds <= 0) return write(this.#spoken, t('time.over'));
    if (!SPOKEN.some((mark) => seconds <= mark && before > mark)) return;
    write(this.#spoken, seconds >= 60
      ? t('time.minutes', { n: Math.round(seconds / 60) })
      : t('time.seconds', { n: seconds }));
  }
}

define('tenure-countdown', TenureCountdown);
