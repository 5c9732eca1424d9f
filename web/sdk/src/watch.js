// A collection as it is now, and every change of it. Many may watch one collection; they share one stream.

import { Emitter } from './emitter.js';
import { Rows } from './rows.js';

/**
 * @typedef {import('./rows.js').TenureEvent} TenureEvent
 * @typedef {import('./stream.js').Status} Status
 * @typedef {{items: string[] | undefined, event?: TenureEvent}} Change `items` is undefined when all may differ.
 */

/** @extends {Emitter<{change: Change, event: TenureEvent, snapshot: {}, status: Status}>} */
export class Watch extends Emitter {
  /**
   * @param {string} collection
   * @param {import('./stream.js').Stream} stream
   * @param {{now: () => number}} own
   */
  constructor(collection, stream, own) {
    super();
    this.collection = collection;
    this.stream = stream;
    this.own = own;
    this.rows = new Rows();
    this.isLoaded = false;
    this.watchers = 0;
    stream.on('snapshot', (snapshot) => {
      this.rows.reset(snapshot);
      this.isLoaded = true;
      this.emit('snapshot', {});
      this.emit('change', { items: undefined });
    });
    stream.on('event', (event) => {
      const items = this.rows.apply(event);
      this.emit('event', event);
      this.emit('change', { items, event });
    });
    stream.on('status', (status) => this.emit('status', status));
  }

  get status() {
    return this.stream.status;
  }

  /** How old what is shown may be, for "updated N s ago"; `undefined` before anything was heard. */
  get ageMs() {
    if (this.stream.status.state === 'live') return 0;
    return this.stream.heardAt === undefined ? undefined : this.own.now() - this.stream.heardAt;
  }

  /** Ready once the first snapshot is here; rejected with the refusal where we are not let in. @returns {Promise<void>} */
  loaded() {
    if (this.isLoaded) return Promise.resolve();
    if (this.status.state === 'refused') return Promise.reject(this.stream.refusal);
    return new Promise((resolve, reject) => {
      const stops = [
        this.on('snapshot', () => { stop(); resolve(); }),
        this.on('status', ({ state }) => { if (state === 'refused') { stop(); reject(this.stream.refusal); } }),
      ];
      const stop = () => stops.forEach((one) => one());
    });
  }

  /** One more watches. @returns {() => void} Stops watching. */
  open() {
    this.watchers += 1;
    if (this.watchers === 1) this.stream.start();
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      this.watchers -= 1;
      if (this.watchers === 0) this.stream.stop();
    };
  }
}
