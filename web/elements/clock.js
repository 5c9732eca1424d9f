// The time that elements count on, and one timer for all of them. A page hands in the server's clock
// (`useClock(tenure.clock)`); until then this machine's date must do.

/** @typedef {{now: () => number}} Clock */

/** With less than this left the time presses, on every element alike. */
export const URGENT_MS = 120_000;

/** @type {Clock} */
let clock = { now: () => Date.now() };
/** What ticks, and when next. @type {Map<(now: number) => number | undefined, number>} */
const ticking = new Map();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

export const now = () => clock.now();

/** @param {Clock} wanted */
export function useClock(wanted) {
  clock = wanted;
  for (const tick of ticking.keys()) ticking.set(tick, 0);
  schedule();
}

/**
 * Calls it now and whenever it asked to be called again; it answers in how many milliseconds, or nothing to end.
 * @param {(now: number) => number | undefined} tick
 * @returns {() => void} Ends it.
 */
export function onTick(tick) {
  ticking.set(tick, 0);
  run();
  return () => { ticking.delete(tick); };
}

function run() {
  const time = clock.now();
  for (const [tick, dueAt] of [...ticking]) {
    if (dueAt > time) continue;
    const inMs = tick(time);
    if (inMs === undefined) ticking.delete(tick);
    else if (ticking.has(tick)) ticking.set(tick, time + Math.max(16, inMs));
  }
  schedule();
}

function schedule() {
  clearTimeout(timer);
  timer = undefined;
  if (ticking.size === 0) return;
  // Not longer than this: the clock may be set right meanwhile.
  const inMs = Math.min(1_000, Math.min(...ticking.values()) - clock.now());
  timer = setTimeout(run, Math.max(0, inMs) + 2);
}
