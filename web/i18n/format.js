// Times and numbers as people read them. Pure: what is now, and in which language, is handed in.

/**
 * Time left as figures: 0:07, 2:41, 1:02:03. A second that has begun still counts.
 * @param {number} ms
 */
export function formatLeft(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/**
 * A time of day; with the day where it is not today's.
 * @param {string} iso
 * @param {number} nowMs
 * @param {string} language
 */
export function formatTime(iso, nowMs, language) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return '';
  const isToday = date.toDateString() === new Date(nowMs).toDateString();
  /** @type {Intl.DateTimeFormatOptions} */
  const time = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  return new Intl.DateTimeFormat(language, isToday ? time : { ...time, day: 'numeric', month: 'short' }).format(date);
}

/**
 * Everything there is to say about a moment, for whoever points at it.
 * @param {string} iso
 * @param {string} language
 */
export function formatMoment(iso, language) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return '';
  return new Intl.DateTimeFormat(language, { dateStyle: 'full', timeStyle: 'long' }).format(date);
}

/**
 * @param {number} n
 * @param {string} language
 */
export const formatNumber = (n, language) => new Intl.NumberFormat(language).format(n);
