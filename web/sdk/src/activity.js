// Is somebody there? Real input counts (pointer, key, wheel, touch, scroll), in this tab or in another of the
// same person's, which tell each other. It measures; what idleness means is the server's to say.

import { Emitter } from './emitter.js';

/** What people do. */
const SIGNS = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchstart', 'scroll'];
/** A moving pointer need not be noted more often than this. */
const NOTE_EVERY_MS = 500;
/** Nor other tabs told. */
const TELL_EVERY_MS = 2_000;

/** @typedef {{post: (message: any) => void, on: (heard: (message: any) => void) => void}} Channel */

/** @extends {Emitter<{active: {}}>} */
export class Activity extends Emitter {
  /**
   * @param {object} options
   * @param {{now: () => number}} options.own
   * @param {Channel} [options.channel]
   * @param {EventTarget} [options.target] Where input is seen: a window.
   */
  constructor({ own, channel, target }) {
    super();
    this.own = own;
    this.channel = channel;
    // Whoever opens the page is there.
    this.lastAt = own.now();
    this.toldAt = -Infinity;
    channel?.on((message) => { if (message.type === 'active') this.#note(); });
    if (!target) return;
    const seen = (/** @type {Event} */ event) => { if (event.isTrusted) this.note(); };
    for (const sign of SIGNS) target.addEventListener(sign, seen, { capture: true, passive: true });
  }

  /** Somebody did something here. */
  note() {
    const now = this.own.now();
    if (now - this.lastAt < NOTE_EVERY_MS) return;
    this.#note();
    if (now - this.toldAt < TELL_EVERY_MS) return;
    this.toldAt = now;
    // Only that it was now: the clocks of two tabs have nothing in common.
    this.channel?.post({ type: 'active' });
  }

  /** For how long nobody has done anything. */
  idleMs() {
    return Math.max(0, Math.round(this.own.now() - this.lastAt));
  }

  #note() {
    this.lastAt = this.own.now();
    this.emit('active', {});
  }
}
