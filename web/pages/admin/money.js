// Amounts: whole minor units on the wire, the locale's form for people, and whatever a person types in between.

import { language } from '../../i18n/index.js';

/** What raffles can be sold in. */
export const CURRENCIES = [
  'CRC', 'USD', 'EUR', 'GTQ', 'HNL', 'NIO', 'PAB', 'DOP', 'JMD', 'TTD', 'MXN', 'COP', 'PEN', 'BRL', 'GBP', 'CAD', 'CHF', 'JPY', 'CLP', 'PYG', 'KWD', 'TND',
];

/** @param {string} currency */
function format(currency) {
  const wish = /** @type {const} */ ({ style: 'currency', currency });
  try {
    return new Intl.NumberFormat(language(), { ...wish, currencyDisplay: 'narrowSymbol' });
  } catch {
    // No code that anybody knows: the figures at least.
    return new Intl.NumberFormat(language(), { minimumFractionDigits: 2 });
  }
}

/** How many decimals a currency has. @param {string} currency */
const decimalsOf = (currency) => format(currency).resolvedOptions().maximumFractionDigits ?? 2;

/** @param {number} minor @param {string} currency */
export const money = (minor, currency) => format(currency).format(minor / 10 ** decimalsOf(currency));

/** An amount as somebody would type it. @param {number} minor @param {string} currency */
export function plainMoney(minor, currency) {
  const digits = decimalsOf(currency);
  return new Intl.NumberFormat(language(), { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(minor / 10 ** digits);
}

/**
 * What was typed, in minor units; `undefined` if it is no amount. Points and commas are taken as they are meant: the
 * last one with fewer than three digits behind it separates the decimals, the others are for the eye.
 * @param {string} text
 * @param {string} currency
 * @returns {number | undefined}
 */
export function parseMoney(text, currency) {
  const decimals = decimalsOf(currency);
  const figures = text.normalize('NFKC').replace(/^\D+|\D+$/g, '').replace(/(?<=\d)[\s'’](?=\d{3}(?:\D|$))/g, '');
  if (!/^\d[\d.,]*$/.test(figures) || /-/.test(text)) return undefined;
  const last = Math.max(figures.lastIndexOf('.'), figures.lastIndexOf(','));
  const sign = last < 0 ? '' : figures[last] ?? '';
  const behind = last < 0 ? '' : figures.slice(last + 1);
  const isOnly = figures.indexOf(sign) === last;
  const isMixed = figures.includes('.') && figures.includes(',');
  // 1,000 is a thousand; 1,000.500 and 1.5 have decimals, as far as the currency does.
  const hasDecimals = last >= 0 && isOnly && behind.length <= decimals && (behind.length !== 3 || isMixed);
  const whole = hasDecimals ? figures.slice(0, last) : figures;
  const groups = whole.split(/[.,]/);
  if (groups.some((group, index) => (index === 0 ? group.length === 0 || (groups.length > 1 && group.length > 3) : group.length !== 3))) return undefined;
  const minor = Number(groups.join('') + (hasDecimals ? behind : '').padEnd(decimals, '0'));
  return Number.isSafeInteger(minor) ? minor : undefined;
}
