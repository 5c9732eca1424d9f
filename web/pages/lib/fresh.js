// What is shown is fetched again when something changed: at once, then at most every so often, one at a time.

const PAUSE_MS = 200;

/**
 * @param {import('./place.js').Place} place
 * @param {() => Promise<void>} fetchAgain
 * @returns {() => void} Something changed.
 */
export function freshly(place, fetchAgain) {
  let isRunning = false;
  let isDue = false;
  const run = async () => {
    if (place.isLeft) return;
    if (isRunning) {
      isDue = true;
      return;
    }
    isRunning = true;
    isDue = false;
    try {
      await fetchAgain();
    } catch {
      // The bar says how the connection is; the next change, or its return, fetches again.
    }
    setTimeout(() => {
      isRunning = false;
      if (isDue) void run();
    }, PAUSE_MS);
  };
  return () => { void run(); };
}
