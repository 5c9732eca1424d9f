// Time. `OwnClock` is this machine's, and only ever measures how long something took. `ServerClock` is the
// server's, estimated from its answers: whatever is shown to a person is counted on it. Neither believes the
// date that this machine shows.

/**
 * @typedef {object} Timers
 * @property {(run: () => void, ms: number) => unknown} set
 * @property {(timer: unknown) => void} clear
 */

/** A machine that slept, or whose date was changed: beyond what the date is corrected by while it runs. */
const JUMP_MS = 2_000;
/** Samples of the server's time that are kept: the quickest of them is believed. */
const SAMPLES_MAX = 8;
/** Quartz drifts; after this long a slower sample may be the better one. */
const SAMPLE_AGE_MAX_MS = 10 * 60_000;

/** The platform's timers. @type {Timers} */
export const systemTimers = {
  set: (run, ms) => setTimeout(run, ms),
  clear: (timer) => clearTimeout(/** @type {any} */ (timer)),
};

/**
 * Milliseconds that only grow, and that count a sleep of the machine. `performance.now()` stands still during
 * sleep on some systems; the date does not. Where the date runs ahead of it, that difference is taken for
 * sleep: if somebody set the date instead, we believe too much time passed, and ask the server. That errs on
 * the safe side.
 */
export class OwnClock {
  /** @param {{steady?: () => number, wall?: () => number}} [sources] */
  constructor({ steady = () => performance.now(), wall = () => Date.now() } = {}) {
    this.steady = steady;
    this.wall = wall;
    this.slept = 0;
    this.lastSteady = steady();
    this.lastWall = wall();
    /** @type {Set<(ms: number) => void>} */
    this.onJump = new Set();
  }

  now() {
    const steady = this.steady();
    const wall = this.wall();
    const ahead = wall - this.lastWall - (steady - this.lastSteady);
    const isJump = Math.abs(ahead) > JUMP_MS;
    // What is too short to be told from a correction of the date is kept, for many short sleeps add up; a date that
    // falls behind is not, for it would hide the next sleep.
    if (isJump || ahead < 0) {
      this.lastSteady = steady;
      this.lastWall = wall;
    }
    if (ahead > JUMP_MS) this.slept += ahead;
    // A date that was set back says nothing about time; that samples may be off by it is not so: they are on
    // the steady clock. It is told all the same, since it often comes with waking up.
    if (isJump) for (const tell of [...this.onJump]) tell(ahead);
    return steady + this.slept;
  }
}

/**
 * The server's time. Each answer says what time it was there at some moment between question and answer; the
 * quicker the answer, the less that leaves open.
 */
export class ServerClock {
  /** @param {OwnClock | {now: () => number, onJump?: Set<(ms: number) => void>}} own */
  constructor(own) {
    this.own = own;
    /** @type {{at: number, offset: number, doubt: number}[]} */
    this.samples = [];
    // What was measured before a sleep is worth less than the next answer, however slow.
    own.onJump?.add(() => { for (const sample of this.samples) sample.doubt = Infinity; });
  }

  /** It has been told the time at least once. */
  get isKnown() {
    return this.samples.length > 0;
  }

  /**
   * An answer that was asked for and received at these times of the own clock.
   * @param {number} sentAt
   * @param {number} receivedAt
   * @param {string | number | undefined} serverTime
   */
  note(sentAt, receivedAt, serverTime) {
    const time = typeof serverTime === 'string' ? Date.parse(serverTime) : serverTime;
    if (time === undefined || !Number.isFinite(time)) return;
    const doubt = Math.max(0, receivedAt - sentAt) / 2;
    this.samples.push({ at: receivedAt, offset: time - (sentAt + receivedAt) / 2, doubt });
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
  }

  /** The server's time in milliseconds since 1970. Before any answer: this machine's date, as a guess. */
  now() {
    const own = this.own.now();
    const young = this.samples.filter((sample) => own - sample.at < SAMPLE_AGE_MAX_MS);
    const from = young.length > 0 ? young : this.samples.slice(-1);
    if (from.length === 0) return Date.now();
    const best = from.reduce((a, b) => (b.doubt <= a.doubt ? b : a));
    return own + best.offset;
  }
}

/**
 * The last moment, on the own clock, at which something that the server granted for `leftMs` can be counted
 * on. The server counts from when it decided, which came after the request was sent; counting from before
 * that, less a margin for clocks that run at different speeds, ends before the server's time does. A clock that
 * is being corrected may run off by half a millisecond in each second, which counts where the time is long.
 * @param {number} sentAt
 * @param {number} leftMs
 */
export function safeDeadline(sentAt, leftMs) {
  const margin = Math.max(Math.min(Math.max(leftMs / 100, 250), 2_000), leftMs / 2_000);
  return sentAt + Math.max(0, leftMs - margin);
}
