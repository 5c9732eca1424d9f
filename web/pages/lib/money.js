// Amounts: whole minor units on the wire, the locale's form for people, and whatever a person types in between.

import { language } from '../../i18n/index.js';

/**
 * What raffles can be sold in: decimals and sign, as in the server's `payments/money.rs` (a test compares them). What
 * browsers think of decimals differs between their versions, so they are told and never asked.
 * @type {Record<string, [decimals: number, sign: string]>}
 */
export const TABLE = {
  CRC: [2, '₡'], USD: [2, '$'], EUR: [2, '€'], GTQ: [2, 'Q'], HNL: [2, 'L'], NIO: [2, 'C$'], PAB: [2, 'B/.'], DOP: [2, 'RD$'],
  JMD: [2, 'J$'], TTD: [2, 'TT$'], MXN: [2, 'MX$'], COP: [2, 'COL$'], PEN: [2, 'S/'], BRL: [2, 'R$'], GBP: [2, '£'], CAD: [2, 'CA$'],
  CHF: [2, 'CHF'], JPY: [0, '¥'], CLP: [0, 'CLP$'], PYG: [0, '₲'], KWD: [3, 'KD'], TND: [3, 'DT'],
};

export const CURRENCIES = Object.keys(TABLE);

/** What keyboards have instead of the sign. @type {Record<string, string>} */
const TYPED = { CRC: '¢' };

/** How many digits of a minor amount stand behind the point. @param {string} currency */
const decimalsOf = (currency) => TABLE[currency]?.[0] ?? 2;

/** The language with the person's country, whose way to write amounts it is. */
const locale = () => globalThis.navigator?.languages?.find((one) => one.split('-')[0] === language()) ?? language();

/** Making one takes long, and lists draw often. @type {Map<string, Intl.NumberFormat>} */
const formats = new Map();

/** @param {string} currency @param {Intl.NumberFormatOptions} options @param {string} [where] */
function format(currency, options, where = locale()) {
  const digits = decimalsOf(currency);
  const wish = { ...options, minimumFractionDigits: digits, maximumFractionDigits: digits };
  const key = JSON.stringify([where, wish]);
  const known = formats.get(key);
  if (known) return known;
  const made = formatOf(where, wish);
  formats.set(key, made);
  return made;
}

/** @param {string} where @param {Intl.NumberFormatOptions} wish */
function formatOf(where, wish) {
  try {
    return new Intl.NumberFormat(where, wish);
  } catch {
    // No code that anybody knows: the figures at least.
    return new Intl.NumberFormat(where, { ...wish, style: 'decimal', currency: undefined });
  }
}

/** What a currency is called. @param {string} currency @param {Intl.NumberFormatOptions['currencyDisplay']} currencyDisplay @param {string} [where] @param {number} [n] */
const called = (currency, currencyDisplay, where, n = 2) => (
  format(currency, { style: 'currency', currency, currencyDisplay }, where).formatToParts(n).find(({ type }) => type === 'currency')?.value ?? currency);

/** Exact, however large: plain digits and a point, as a bank reads them. @param {number} minor @param {string} currency @returns {Intl.StringNumericLiteral} */
export function plainAmount(minor, currency) {
  const digits = decimalsOf(currency);
  const figures = String(minor).padStart(digits + 1, '0');
  const point = figures.length - digits;
  return /** @type {Intl.StringNumericLiteral} */ (digits === 0 ? figures : `${figures.slice(0, point)}.${figures.slice(point)}`);
}

/** An amount as people read it. @param {number} minor @param {string} currency @param {'narrowSymbol' | 'symbol'} [currencyDisplay] */
export const money = (minor, currency, currencyDisplay = 'narrowSymbol') => (
  format(currency, { style: 'currency', currency, currencyDisplay }).format(plainAmount(minor, currency)));

/**
 * The same where several currencies meet: a sign that others have too, such as $, is none to tell them apart.
 * @param {number} minor @param {string} currency
 */
export function distinctMoney(minor, currency) {
  const sign = called(currency, 'narrowSymbol');
  const isShared = CURRENCIES.some((other) => other !== currency && called(other, 'narrowSymbol') === sign);
  return money(minor, currency, isShared ? 'symbol' : 'narrowSymbol');
}

/** An amount as somebody would type it. @param {number} minor @param {string} currency @param {boolean} [useGrouping] */
export const plainMoney = (minor, currency, useGrouping = true) => format(currency, { useGrouping }).format(plainAmount(minor, currency));

/** Without what is only for the eye or missing on a keyboard. @param {string} text */
const folded = (text) => text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().trim();

/** Whether this beside the figures is the currency's, in a sign or a word. Thousands (`2 mil`), a minus or another currency are not. @param {string} text @param {string} currency */
function isSign(text, currency) {
  const said = folded(text);
  if (said === '') return true;
  const places = [locale(), 'en', 'es'];
  const names = places.flatMap((where) => [1, 2].map((n) => called(currency, 'name', where, n)));
  const signs = [currency, TABLE[currency]?.[1] ?? '', TYPED[currency] ?? '', called(currency, 'narrowSymbol'), ...places.map((where) => called(currency, 'symbol', where))];
  return [...signs, ...names, ...names.flatMap((name) => name.split(/\s/))].some((one) => folded(one) === said);
}

/**
 * What was typed, in minor units; `undefined` if it is no amount. Points and commas are taken as they are meant: the
 * last one with fewer than three digits behind it separates the decimals, the others are for the eye. What can be
 * meant in two ways is no amount.
 * @param {string} text
 * @param {string} currency
 * @returns {number | undefined}
 */
export function parseMoney(text, currency) {
  const decimals = decimalsOf(currency);
  const [, before = '', typed = '', after = ''] = /^(\D*)(\d(?:.*\d)?)(\D*)$/s.exec(text.normalize('NFKC')) ?? [];
  const figures = typed.replace(/(?<=\d)[\s'’](?=\d{3}(?:\D|$))/g, '');
  if (!/^\d[\d.,]*$/.test(figures) || !isSign(before, currency) || !isSign(after, currency)) return undefined;
  const last = Math.max(figures.lastIndexOf('.'), figures.lastIndexOf(','));
  const sign = last < 0 ? '' : figures[last] ?? '';
  const behind = last < 0 ? '' : figures.slice(last + 1);
  const isOnly = last >= 0 && figures.indexOf(sign) === last;
  const isMixed = figures.includes('.') && figures.includes(',');
  const hasDecimals = isOnly && behind.length <= decimals;
  // 1,000 is a thousand; 1,000.500 and 1.5 have decimals, as far as the currency does. With three of them, 1.500 is
  // what it is to whoever writes decimals so.
  if (hasDecimals && behind.length === 3 && !isMixed && !format(currency, {}).format(1).includes(sign)) return undefined;
  const whole = hasDecimals ? figures.slice(0, last) : figures;
  const groups = whole.split(/[.,]/);
  if (groups.some((group, index) => (index === 0 ? group.length === 0 || (groups.length > 1 && group.length > 3) : group.length !== 3))) return undefined;
  const minor = Number(groups.join('') + (hasDecimals ? behind : '').padEnd(decimals, '0'));
  return Number.isSafeInteger(minor) ? minor : undefined;
}
