// One reservation, followed: fetched again when its numbers change, when its time is up, when the page is seen
// again, and now and then, since what another tab does to it is no event.

import { Backoff } from '../../sdk/src/backoff.js';
import { part } from '../../sdk/src/http.js';
import { Refused } from '../../sdk/tenure.js';
import { freshly } from '../lib/fresh.js';
import { RaffleLive } from './live.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Reservation} Reservation
 */

const LOOK_EVERY_MS = 5_000;
/** At the deadline our clock may be a little ahead of the server's; or nobody answers, for longer. */
const AGAIN_MS = 300;
const AGAIN_MS_MAX = 5_000;

/**
 * Time is up, says our clock: asks until the server says so too, less and less often, and not where it refuses.
 * @param {Place} place
 * @param {() => Promise<boolean>} ask Whether the server has noticed.
 */
export async function untilNoticed(place, ask) {
  const pauses = new Backoff({ firstMs: AGAIN_MS, maxMs: AGAIN_MS_MAX });
  while (!place.isLeft) {
    try {
      if (document.hidden === false && await ask()) return;
    } catch (error) {
      // Otherwise the bar says how the connection is.
      if (error instanceof Refused && !error.isPassing) return;
    }
    const pauseMs = pauses.next();
    await new Promise((resolve) => { setTimeout(resolve, pauseMs); });
  }
}

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

  /** Its time is up, says our clock. */
  timeUp() {
    const { phase, expires_at: end } = this.reservation;
    return untilNoticed(this.place, async () => {
      await this.#fetch();
      const isSame = this.reservation.phase === phase && this.reservation.expires_at === end;
      return !isSame || this.reservation.status !== 'pending';
    });
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
