// What the server says, doubted. A proxy's page, a cut answer or another program on the same port must end a connection
// and not the page: whoever gets something from here can add it up without looking again. It never mends anything.

/**
 * @typedef {import('./rows.js').Snapshot} Snapshot
 * @typedef {import('./rows.js').TenureEvent} TenureEvent
 */

/** @param {unknown} value */
export const isNumber = (value) => Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0;
/** @param {unknown} value */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
/** @param {unknown} value @param {(one: any) => boolean} is */
const isList = (value, is) => Array.isArray(value) && value.every(is);
/** @param {unknown} value */
export const isText = (value) => typeof value === 'string';
/** @param {any} row */
const isRow = (row) => isObject(row) && isText(row.id);

/** @param {boolean} is @param {string} what */
export function sure(is, what) {
  if (!is) throw new TypeError(`the server says something else than ${what}`);
}

/** @param {any} said @returns {Snapshot} */
export function snapshotOf(said) {
  sure(isObject(said) && isNumber(said.epoch) && isNumber(said.seq), 'a snapshot');
  sure(isList(said.items, isRow), 'a snapshot of items');
  sure(isList(said.claims, (claim) => isRow(claim) && isList(claim.items, isText)), 'a snapshot of claims');
  return said;
}

/**
 * @param {any} said
 * @param {unknown} epoch
 * @returns {TenureEvent}
 */
export function eventOf(said, epoch) {
  sure(isObject(said) && isNumber(said.seq) && isText(said.type) && isNumber(epoch), 'an event');
  sure(isObject(said.actor), 'who did it');
  sure(said.items === undefined || isList(said.items, isText), 'the items of an event');
  const isChange = (/** @type {any} */ change) => isObject(change) && isText(change.item) && isObject(change.after);
  sure(said.changes === undefined || said.changes === null || isList(said.changes, isChange), 'what an event changes');
  return said;
}

/**
 * A page of events after a number.
 * @param {any} said
 * @returns {{epoch: number, last: number, newest: number, events: unknown[]}}
 */
export function pageOf(said) {
  const isPage = isObject(said) && [said.epoch, said.last, said.newest].every(isNumber) && Array.isArray(said.events);
  sure(isPage, 'a page of events');
  return said;
}

/**
 * The item after which the next page begins: another one than the last, or the pages would never end.
 * @param {any} said
 * @param {string | null} before
 * @returns {string | null}
 */
export function nextOf(said, before) {
  sure(isObject(said) && Array.isArray(said.items), 'a page of items');
  sure(said.next === null || (isText(said.next) && said.next !== before), 'where the next page begins');
  return said.next;
}
