// How long to wait before the next try: longer each time, and never the same for everyone.

/** Pauses that double, with jitter, so that a thousand pages do not come back in the same instant. */
export class Backoff {
  /** @param {{firstMs?: number, maxMs?: number, random?: () => number}} [options] */
  constructor({ firstMs = 500, maxMs = 30_000, random = Math.random } = {}) {
    this.firstMs = firstMs;
    this.maxMs = maxMs;
    this.random = random;
    this.tries = 0;
  }

  /** The next pause: between half and all of what is due. */
  next() {
    const due = Math.min(this.maxMs, this.firstMs * 2 ** Math.min(this.tries, 16));
    this.tries += 1;
    return due / 2 + (due / 2) * this.random();
  }

  reset() {
    this.tries = 0;
  }
}

/**
 * About this long: a tenth more or less.
 * @param {number} ms
 * @param {() => number} random
 */
export const jittered = (ms, random) => ms * (0.9 + 0.2 * random());
