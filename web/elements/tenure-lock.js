// <tenure-lock>: who has it, since when, until when, as a badge.
//
//   state       free | mine | elsewhere | other | done | sold | lost | uncertain (no connection) | unknown;
//               without one, and with any other, nothing is claimed: unknown
//   holder      whose it is            since       when they got it
//   expires-at  until when it is mine  urgent-ms   from when on that presses (120000)
//   label       says this instead of the state's word
//
// Parts: badge, icon, text, time. What is mine and ends soon looks so by itself.

import { formatLeft, formatMoment, formatTime } from '../i18n/format.js';
import { t } from '../i18n/index.js';
import { css, define, make, setAttribute, TenureElement, write } from './base.js';
import { now, onTick, URGENT_MS } from './clock.js';
import { icon, pie, setPie } from './icons.js';

const SHEET = css`
  :host { display: inline-block; max-inline-size: 100%; vertical-align: middle; }
  [part=badge] {
    display: inline-flex; align-items: center; gap: 0.375rem; max-inline-size: 100%; min-block-size: 1.75rem;
    padding: 0.125rem 0.625rem 0.125rem 0.5rem; border-radius: var(--tenure-radius); border: 1px solid var(--_line);
    background: var(--_fill); color: var(--_ink); font-size: var(--tenure-text-s); line-height: 1.25;
    --_line: var(--tenure-line-strong); --_fill: transparent; --_ink: var(--tenure-ink-soft);
  }
  [part=text] { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
  [part=time] { white-space: nowrap; }
  [part=time]:empty { display: none; }
  [part=time]::before { content: "· "; opacity: 0.6; }
  [data-look=mine], [data-look=elsewhere] {
    --_line: var(--tenure-accent); --_fill: var(--tenure-accent-soft); --_ink: var(--tenure-accent-ink);
    border-width: 2px; font-weight: 600;
  }
  [data-look=elsewhere] { border-style: dashed; }
  [data-look=urgent] {
    --_line: var(--tenure-urgent); --_fill: var(--tenure-urgent-soft); --_ink: var(--tenure-urgent-ink);
    border-width: 2px; font-weight: 600;
  }
  [data-look=other] {
    --_line: var(--tenure-amber); --_ink: var(--tenure-amber-ink);
    --_fill: repeating-linear-gradient(-45deg, var(--tenure-amber-soft) 0 5px,
      color-mix(in oklch, var(--tenure-amber-soft) 86%, var(--tenure-amber)) 5px 6px);
  }
  [data-look=done], [data-look=sold] {
    --_line: transparent; --_fill: var(--tenure-done-fill); --_ink: var(--tenure-done-ink);
  }
  [data-look=lost] { --_line: var(--tenure-red); --_fill: var(--tenure-red-soft); --_ink: var(--tenure-red-ink); font-weight: 600; }
  [data-look=uncertain] {
    --_line: var(--tenure-unsure); --_fill: var(--tenure-unsure-soft); --_ink: var(--tenure-unsure-ink);
    border-style: dotted; border-width: 2px;
  }
  .wedge { transition: stroke-dasharray 1s linear; }
  @media (prefers-reduced-motion: reduce) { .wedge { transition: none; } }
`;

const LOOKS = new Set(['free', 'mine', 'elsewhere', 'other', 'done', 'sold', 'lost', 'uncertain']);

export class TenureLock extends TenureElement {
  static sheets = [SHEET];
  static observedAttributes = ['state', 'holder', 'since', 'expires-at', 'urgent-ms', 'label'];
  #badge = make('span', { part: 'badge' });
  #text = make('span', { part: 'text' });
  #time = make('span', { part: 'time', class: 'figures' });
  #look = '';
  #stop = () => {};

  build() {
    this.#badge.append(this.#text, this.#time);
    this.root.append(this.#badge);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#stop();
  }

  update() {
    this.#stop();
    const state = this.text('state', 'unknown');
    write(this.#text, this.text('label') || this.#words(state));
    const since = this.text('since');
    setAttribute(this.#badge, 'title', since && formatMoment(since, this.language));
    this.#draw(LOOKS.has(state) ? state : 'uncertain');
    write(this.#time, '');
    const expiresAt = Date.parse(this.text('expires-at'));
    if (state === 'mine' && Number.isFinite(expiresAt)) this.#stop = onTick((at) => this.#tick(expiresAt - at));
  }

  /** @param {number} leftMs */
  #tick(leftMs) {
    const urgentMs = this.number('urgent-ms', URGENT_MS);
    this.#draw(leftMs < urgentMs ? 'urgent' : 'mine');
    const svg = this.#badge.querySelector('svg');
    if (svg && leftMs < urgentMs) setPie(svg, leftMs / urgentMs);
    write(this.#time, t('lock.left', { time: formatLeft(leftMs) }));
    return leftMs > 0 ? ((leftMs - 1) % 1000) + 1 : undefined;
  }

  /** @param {string} look */
  #draw(look) {
    if (this.#look === look) return;
    this.#look = look;
    this.#badge.dataset.look = look;
    this.#badge.querySelector('svg')?.remove();
    const names = /** @type {Record<string, string>} */ ({ elsewhere: 'mine', sold: 'done' });
    this.#badge.prepend(look === 'urgent' ? pie() : icon(names[look] ?? look));
  }

  /** @param {string} state */
  #words(state) {
    const name = this.text('holder');
    const since = this.text('since');
    const time = since ? formatTime(since, now(), this.language) : '';
    switch (state) {
      case 'mine': return time ? t('lock.mine', { time }) : t('lock.mine.plain');
      case 'elsewhere': return t('lock.elsewhere');
      case 'other': return time ? t('lock.other.short', { name, time }) : name;
      case 'done': return t('lock.done');
      case 'sold': return t('lock.sold');
      case 'lost': return t('lock.lost');
      case 'uncertain': return t('lock.uncertain');
      case 'free': return t('lock.free');
      default: return t('lock.unknown');
    }
  }
}

define('tenure-lock', TenureLock);
