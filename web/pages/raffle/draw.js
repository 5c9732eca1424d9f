// The draw: the number that won, and how anybody can draw it again. Before it, what binds it.

import { language, t } from '../../i18n/index.js';
import { formatNumber } from '../../i18n/format.js';
import { part } from '../../sdk/src/http.js';
import { fill, h, set, write } from '../lib/dom.js';
import { canCheck, holds } from '../lib/draw.js';
import { trying } from '../lib/notice.js';
import { facts } from './frame.js';
import { dayOf, padded } from './model.js';

/**
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('../lib/draw.js').Draw} Draw
 */

export class DrawPanel {
  /** The number. */
  head = h('section', { class: 'winner', hidden: true });
  #summary = h('summary');
  #body = h('div', { class: 'stack' });
  /** How to be sure of it. */
  details = h('details', { class: 'fair', hidden: true }, this.#summary, this.#body);
  /** @type {Draw | undefined} */ #draw;
  /** @type {boolean | undefined} */ #holds;
  #drawn = '';

  /** @param {import('../lib/place.js').Place} place */
  constructor(place) {
    this.place = place;
  }

  /** @param {Raffle} raffle @param {string[]} chars */
  draw(raffle, chars) {
    const { status, winner, seed_hash: bound } = raffle;
    this.details.hidden = !bound;
    if (!bound) return;
    const isDrawn = status === 'drawn' && winner !== null;
    const isMine = isDrawn && chars[winner - 1] === 'b';
    const key = [language(), status, winner, isMine, bound, this.#draw?.seed, this.#holds].join('|');
    if (key === this.#drawn) return;
    this.#drawn = key;
    set(this.head, 'aria-label', t('buy.draw'));
    this.head.hidden = !isDrawn;
    this.head.classList.toggle('won', isMine);
    if (isDrawn) {
      fill(this.head, h('p', { class: 'soft small-text' }, t('buy.draw.winner')), h('p', { class: 'number figures' }, padded(winner, raffle.numbers)),
        h('p', {}, isMine ? t('buy.draw.won') : chars.includes('b') ? t('buy.draw.lost') : t('buy.draw.over')));
    }
    write(this.#summary, isDrawn ? t('buy.draw.check') : t('buy.draw.fair'));
    if (isDrawn && !this.#draw) void this.#load(raffle, chars);
    const check = h('button', { class: 'button', type: 'button', onclick: () => { void this.#verify(raffle, chars, check); } }, t('buy.draw.again'));
    fill(this.#body, h('p', { class: 'small-text' }, isDrawn ? t('buy.draw.how') : t('buy.draw.bound')),
      facts([[t('buy.draw.seed_hash'), code(bound)], ...this.#rows()]),
      isDrawn && this.#draw && canCheck() && h('div', { class: 'row' }, check,
        h('p', { class: this.#holds === false ? 'bad' : 'good', role: 'status' }, this.#holds === undefined ? '' : this.#holds ? t('buy.draw.holds') : t('buy.draw.fails'))),
      isDrawn && h('p', { class: 'small-text' }, t('buy.draw.command'), h('br'),
        code(`tenure raffle verify ${location.origin}/raffles/${raffle.id}/draw --seed-hash ${bound}`)));
  }

  /** @returns {[string, string | Node][]} */
  #rows() {
    const draw = this.#draw;
    if (!draw) return [];
    return [
      [t('buy.draw.seed'), code(draw.seed)],
      [t('buy.draw.sold'), h('span', {}, formatNumber(draw.sold.length, language()), ' · ', code(draw.sold_hash))],
      [t('buy.draw.when'), dayOf(draw.drawn_at)],
    ];
  }

  /** @param {Raffle} raffle @param {string[]} chars */
  async #load(raffle, chars) {
    try {
      this.#draw = await this.place.get(`/raffles/${part(raffle.id)}/draw`);
    } catch {
      // The winner is known without it; the next drawing tries again.
      this.#drawn = '';
      return;
    }
    this.draw(raffle, chars);
  }

  /** @param {Raffle} raffle @param {string[]} chars @param {HTMLButtonElement} button */
  async #verify(raffle, chars, button) {
    const draw = this.#draw;
    if (!draw) return;
    await trying(button, async () => { this.#holds = (await holds(draw, raffle.seed_hash)) && draw.winner === raffle.winner; });
    this.draw(raffle, chars);
    this.#body.querySelector('button')?.focus();
  }
}

/** @param {string} text */
const code = (text) => h('code', {}, text);
