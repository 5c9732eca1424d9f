// All elements at once. Each file can also be loaded alone.

export { useClock } from './clock.js';
export { TenureBanner } from './tenure-banner.js';
export { TenureCountdown } from './tenure-countdown.js';
export { TenureGrid } from './tenure-grid.js';
export { TenureLive } from './tenure-live.js';
export { TenureLock } from './tenure-lock.js';
export { TenurePresence } from './tenure-presence.js';
