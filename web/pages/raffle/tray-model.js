// What the tray claims and offers, from what is known. No DOM.

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {'on' | 'off' | 'none'} Look Can be pressed; is seen, and cannot; is not there.
 *
 * @typedef {object} Known
 * @property {boolean} canBuy
 * @property {boolean} isOpen Numbers are sold here.
 * @property {boolean} isCertain We know what is free, and what is ours.
 * @property {number} picks How many are chosen, and not reserved yet.
 * @property {string | undefined} phase Of the reservation, if one is open.
 */

/** What there is to say about a reservation beside its numbers; where there is room, more. @type {Record<string, [Key, Key?]>} */
const PHASES = {
  selection: ['buy.tray.selection', 'buy.tray.selection.more'],
  checkout: ['buy.tray.checkout', 'buy.tray.checkout.more'],
  paying: ['buy.tray.paying'],
  verification: ['buy.tray.verification'],
};

/** @param {Known} known */
export function trayState({ canBuy, isOpen, isCertain, picks, phase }) {
  const canPick = canBuy && isOpen && phase === undefined;
  /** What another would have to agree to is not promised while nobody knows. @param {boolean} isThere @param {boolean} [isAble] @returns {Look} */
  const look = (isThere, isAble = isCertain) => (!isThere ? 'none' : isAble ? 'on' : 'off');
  const [what, more] = phase !== undefined ? PHASES[phase] ?? ['buy.tray.paying']
    : !canBuy ? ['buy.tray.viewer'] : !isOpen ? ['buy.raffle.closed']
      : picks > 0 ? ['buy.tray.not_yet'] : ['buy.tray.how', 'buy.tray.how.more'];
  return {
    heading: /** @type {Key} */ (phase !== undefined ? (isCertain ? 'buy.tray.reserved' : 'buy.tray')
      : picks > 0 ? 'buy.tray.picked' : canPick ? 'buy.tray.pick' : 'buy.tray.look'),
    what: /** @type {Key} */ (what),
    more: /** @type {Key | undefined} */ (more),
    /** It is as high from the start as it will be. */
    isBuying: canPick || phase !== undefined,
    canChange: canBuy && isCertain && (phase === undefined || phase === 'selection'),
    reserve: look(canPick, isCertain && picks > 0),
    clear: look(canPick && picks > 0, true),
    pay: look(phase === 'selection'),
    cancel: look(phase === 'selection' || phase === 'checkout'),
    go: look(phase !== undefined && phase !== 'selection'),
  };
}
