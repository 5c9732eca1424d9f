// One reservation, followed: fetched again when its numbers change, when its time is up, when the page is seen
// again, and now and then, since what another tab does to it is no event.

import { part } from '../../sdk/src/http.js';
import { freshly } from '../lib/fresh.js';
import { RaffleLive } from './live.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Reservation} Reservation
 */

const LOOK_EVERY_MS = 5_000;
/** At the deadline our clock may be a little ahead of the server's. */
const AGAIN_MS = 300;

export class Following {
  /** @type {Reservation} */
  reservation;
  #path;

  /**
   * @param {Place} place
   * @param {Reservation} reservation
   * @param {() => void} changed
   */
  constructor(place, reservation, changed) {
    this.place = place;
    this.reservation = reservation;
    this.changed = changed;
    this.#path = `/reservations/${part(reservation.id)}`;
    this.refresh = freshly(place, () => this.#fetch());
    const live = new RaffleLive(place, reservation.raffle_id);
    live.on('change', ({ numbers }) => { if (numbers.some((number) => this.reservation.numbers.includes(number))) this.refresh(); });
    live.start();
    place.every(LOOK_EVERY_MS, () => { if (this.reservation.status === 'pending') this.refresh(); });
    place.onLeave(place.tenure.page.on('back', () => this.refresh()));
  }

  /** Its time is up, says our clock: asked until the server says so too. */
  async timeUp() {
    const { phase, expires_at: end } = this.reservation;
    try {
      await this.#fetch();
    } catch {
      // The bar says how the connection is.
    }
    const isSame = this.reservation.phase === phase && this.reservation.expires_at === end;
    if (isSame && this.reservation.status === 'pending' && !this.place.isLeft) setTimeout(() => { void this.timeUp(); }, AGAIN_MS);
  }

  /** An answer to something that we did. @param {Reservation} told */
  take(told) {
    if (told.server_time < this.reservation.server_time) return;
    this.reservation = told;
    if (!this.place.isLeft) this.changed();
  }

  async #fetch() {
    this.take(await this.place.get(this.#path));
  }
}
