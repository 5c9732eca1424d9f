// <tenure-banner>: what stands above the work: how long it is ours, or what is the matter with the claim.
//
//   state       none | mine | readonly | lost | uncertain | idle | nudged
//   holder      who has it (readonly, lost) or who asks (nudged)      since    since when (mine, readonly)
//   reason      how it was lost: expired, idle, taken_over, …         note     the words with it
//   by          who did that                                         expires-at  until when (mine, idle)
//   message     what is asked (nudged)                               requested   has been asked already (readonly)
//
// Events: tenure-retry, tenure-request-release, tenure-stay, tenure-release, tenure-dismiss.
// Parts: banner, icon, title, text, action. The slot takes more actions.

import { formatLeft, formatMoment, formatTime } from '../i18n/format.js';
import { t } from '../i18n/index.js';
import { css, define, make, setAttribute, TenureElement, write } from './base.js';
import { now, onTick, URGENT_MS } from './clock.js';
import { icon, pie, setPie } from './icons.js';

/** @typedef {import('../i18n/index.js').Key} Key */

const SHEET = css`
  :host { display: block; }
  [part=banner] {
    display: grid; grid-template-columns: auto 1fr auto; align-items: center; gap: var(--tenure-2) var(--tenure-3);
    padding: var(--tenure-3) var(--tenure-4); border-radius: var(--tenure-radius); background: var(--_fill);
    border: 1px solid color-mix(in oklch, var(--_line) 45%, transparent); border-inline-start: 4px solid var(--_line);
    color: var(--tenure-ink); animation: arrive var(--tenure-slow) var(--tenure-ease);
  }
  svg { color: var(--_ink); align-self: start; margin-block-start: 0.125rem; }
  p { margin: 0; line-height: 1.45; font-size: var(--tenure-text-s); overflow-wrap: anywhere; }
  [part=title] { font-weight: 600; font-size: var(--tenure-text-m); color: var(--_ink); }
  .actions { display: flex; flex-wrap: wrap; gap: var(--tenure-2); }
  .actions:not(:has(> button:not([hidden]), > .asked:not([hidden]))):not(.slotted) { display: none; }
  button {
    min-block-size: var(--tenure-target); padding: 0 var(--tenure-4); border-radius: var(--tenure-radius); cursor: pointer;
    border: 1px solid var(--_ink); background: transparent; color: var(--_ink); font-size: var(--tenure-text-s);
    font-weight: 600; transition: background var(--tenure-quick);
  }
  button:hover { background: color-mix(in oklch, var(--_line) 12%, transparent); }
  button.first { background: var(--_ink); color: var(--_fill-solid); }
  button.first:hover { background: color-mix(in oklch, var(--_ink) 88%, var(--_fill-solid)); }
  .asked { align-self: center; font-size: var(--tenure-text-s); color: var(--_ink); }
  [data-look=readonly] { --_line: var(--tenure-amber); --_fill: var(--tenure-amber-soft); --_ink: var(--tenure-amber-ink); }
  [data-look=lost] { --_line: var(--tenure-red); --_fill: var(--tenure-red-soft); --_ink: var(--tenure-red-ink); }
  [data-look=uncertain] {
    --_line: var(--tenure-unsure); --_fill: var(--tenure-unsure-soft); --_ink: var(--tenure-unsure-ink);
    border-style: dotted; border-inline-start-style: dotted;
  }
  [data-look=urgent], [data-look=idle] { --_line: var(--tenure-urgent); --_fill: var(--tenure-urgent-soft); --_ink: var(--tenure-urgent-ink); }
  [data-look=mine], [data-look=nudged] { --_line: var(--tenure-accent); --_fill: var(--tenure-accent-soft); --_ink: var(--tenure-accent-ink); }
  [part=banner] { --_fill-solid: var(--_fill); }
  /* All is well: one line, and only as high as it must be. */
  [data-look=mine], [data-look=urgent] { padding-block: var(--tenure-2); }
  :is([data-look=mine], [data-look=urgent]) svg { align-self: center; margin: 0; }
  :is([data-look=mine], [data-look=urgent]) [part=title] { font-size: var(--tenure-text-s); font-variant-numeric: tabular-nums; }
  [part=text]:empty { display: none; }
  @keyframes arrive { from { opacity: 0; transform: translateY(-4px); } }
  @media (max-width: 40rem) {
    [part=banner] { grid-template-columns: auto 1fr; padding: var(--tenure-3); }
    .actions { grid-column: 1 / -1; }
    .actions button { flex: 1; }
  }
  @media (prefers-reduced-motion: reduce) { [part=banner] { animation: none; } }
`;

/** @type {Record<string, Key>} */
const LOST = {
  taken_over: 'banner.lost.taken_over',
  force_released: 'banner.lost.force_released',
  expired: 'banner.lost.expired',
  idle: 'banner.lost.idle',
  max_hold: 'banner.lost.max_hold',
  released: 'banner.lost.released',
  completed: 'banner.lost.completed',
  cancelled: 'banner.lost.cancelled',
};

/** What can be done, in which state, and what that is called. @type {[string, string, Key, boolean][]} */
const ACTIONS = [
  ['tenure-retry', 'lost', 'lock.retry', true],
  ['tenure-request-release', 'readonly', 'banner.request', false],
  ['tenure-stay', 'idle', 'banner.stay', true],
  ['tenure-release', 'nudged', 'banner.release', true],
  ['tenure-dismiss', 'nudged', 'banner.dismiss', false],
];

export class TenureBanner extends TenureElement {
  static sheets = [SHEET];
  static observedAttributes = [
    'state', 'holder', 'since', 'reason', 'note', 'by', 'expires-at', 'message', 'requested',
  ];
  #title = make('p', { part: 'title' });
  #text = make('p', { part: 'text', class: 'figures' });
  #asked = make('span', { class: 'asked' });
  #slot = make('slot');
  #actions = make('div', { class: 'actions' });
  #banner = make('div', { part: 'banner' }, make('div', {}, this.#title, this.#text), this.#actions);
  /** @type {Map<string, HTMLButtonElement>} */
  #buttons = new Map();
  #stop = () => {};

  build() {
    for (const [name, , , isFirst] of ACTIONS) {
      const button = make('button', { type: 'button', part: 'action', class: isFirst ? 'first' : '' });
      button.addEventListener('click', () => this.tell(name));
      this.#buttons.set(name, button);
      this.#actions.append(button);
    }
    this.#actions.append(this.#asked, this.#slot);
    this.#slot.addEventListener('slotchange', () => this.#drawSlot());
    this.root.append(this.#banner);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#stop();
  }

  update() {
    this.#stop();
    const state = this.text('state', 'none');
    this.#banner.hidden = state === 'none';
    if (state === 'none') {
      delete this.#banner.dataset.look;
      return;
    }
    if (state !== 'mine') this.#look(state);
    // Losing a lock interrupts; the rest can wait for a pause; that all is well need not be said every second.
    setAttribute(this.#banner, 'role', state === 'lost' ? 'alert' : state !== 'mine' && 'status');
    const isRequested = this.hasAttribute('requested');
    for (const [name, of, key] of ACTIONS) {
      const button = /** @type {HTMLButtonElement} */ (this.#buttons.get(name));
      button.hidden = of !== state || (name === 'tenure-request-release' && isRequested);
      write(button, t(key));
    }
    this.#drawSlot();
    this.#asked.hidden = state !== 'readonly' || !isRequested;
    write(this.#asked, t('banner.requested', { name: this.text('holder') }));
    this.#say(state);
  }

  /** What is slotted and hidden takes no room. */
  #drawSlot() {
    this.#actions.classList.toggle('slotted', this.#slot.assignedElements().some((element) => !(/** @type {HTMLElement} */ (element).hidden)));
  }

  /** @param {string} look */
  #look(look) {
    if (this.#banner.dataset.look === look) return;
    this.#banner.dataset.look = look;
    this.#banner.querySelector('svg')?.remove();
    this.#banner.prepend(look === 'urgent' ? pie(20) : icon(look, 20));
  }

  /** @param {string} state */
  #say(state) {
    const name = this.text('holder');
    const since = this.text('since');
    setAttribute(this.#title, 'title', since && formatMoment(since, this.language));
    switch (state) {
      case 'mine': {
        const expiresAt = Date.parse(this.text('expires-at'));
        const mine = since ? t('lock.mine', { time: formatTime(since, now(), this.language) }) : t('lock.mine.plain');
        write(this.#text, '');
        this.#stop = onTick((at) => {
          const leftMs = expiresAt - at;
          const isUrgent = leftMs < URGENT_MS;
          this.#look(isUrgent ? 'urgent' : 'mine');
          const svg = this.#banner.querySelector('svg');
          if (svg && isUrgent) setPie(svg, leftMs / URGENT_MS);
          write(this.#title, Number.isFinite(leftMs) ? `${mine} · ${t('lock.left', { time: formatLeft(leftMs) })}` : mine);
          return leftMs > 0 ? ((leftMs - 1) % 1000) + 1 : undefined;
        });
        return undefined;
      }
      case 'readonly':
        write(this.#title, t('lock.other', { name, time: formatTime(since, now(), this.language) }));
        return write(this.#text, t('banner.readonly'));
      case 'lost':
        write(this.#title, t('lock.lost'));
        return write(this.#text, this.#loss(name));
      case 'uncertain':
        write(this.#title, t('lock.uncertain'));
        return write(this.#text, t('banner.uncertain'));
      case 'nudged': {
        const message = this.text('message');
        write(this.#title, t('banner.nudged', { name }));
        return write(this.#text, message && t('banner.message', { message }));
      }
      case 'idle': {
        const expiresAt = Date.parse(this.text('expires-at'));
        write(this.#text, '');
        this.#stop = onTick((at) => {
          const leftMs = expiresAt - at;
          write(this.#title, t('banner.idle', { time: formatLeft(leftMs) }));
          return leftMs > 0 ? ((leftMs - 1) % 1000) + 1 : undefined;
        });
      }
    }
  }

  /** @param {string} holder */
  #loss(holder) {
    const by = this.text('by') || holder;
    const note = this.text('note');
    const reason = this.text('reason');
    // Who took it over is who has it: once is enough.
    const isTold = reason === 'taken_over' && by === holder;
    return [
      t(reason === 'taken_over' && !by ? 'banner.lost.other' : LOST[reason] ?? 'banner.lost.other', { name: by }),
      note && t('banner.reason', { note }),
      holder && !isTold && t('banner.now', { name: holder }),
    ].filter(Boolean).join(' ');
  }
}

define('tenure-banner', TenureBanner);
