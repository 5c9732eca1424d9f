// What is said, in the language that is chosen. `t('lock.free')`; numbers choose the plural by `n`.

import en from './en.js';
import es from './es.js';
import ja from './ja.js';
import ko from './ko.js';
import * as shell from './shell.js';
import * as tasks from './tasks.js';
import * as jobs from './jobs.js';
import * as consoleTexts from './console.js';
import * as item from './item.js';
import * as labels from './labels.js';
import * as admin from './admin.js';
import * as adminPayments from './admin-payments.js';
import * as raffle from './raffle.js';
import * as paying from './paying.js';

// What the elements say stands by language; what the pages say stands by part, all languages side by side.
const all = { ...en, ...shell.en, ...tasks.en, ...jobs.en, ...consoleTexts.en, ...item.en, ...labels.en, ...admin.en, ...adminPayments.en, ...raffle.en, ...paying.en };

/**
 * @typedef {keyof typeof all} Key
 * @typedef {string | {[category: string]: string}} Text
 * @typedef {'en' | 'es' | 'ja' | 'ko'} Language
 */

/** @type {Record<Language, Record<Key, Text>>} */
export const languages = {
  en: all,
  es: { ...es, ...shell.es, ...tasks.es, ...jobs.es, ...consoleTexts.es, ...item.es, ...labels.es, ...admin.es, ...adminPayments.es, ...raffle.es, ...paying.es },
  ja: { ...ja, ...shell.ja, ...tasks.ja, ...jobs.ja, ...consoleTexts.ja, ...item.ja, ...labels.ja, ...admin.ja, ...adminPayments.ja, ...raffle.ja, ...paying.ja },
  ko: { ...ko, ...shell.ko, ...tasks.ko, ...jobs.ko, ...consoleTexts.ko, ...item.ko, ...labels.ko, ...admin.ko, ...adminPayments.ko, ...raffle.ko, ...paying.ko },
};

/** What each language calls itself. @type {Record<Language, string>} */
export const languageNames = { en: 'English', es: 'Español', ja: '日本語', ko: '한국어' };

const STORED = 'tenure.language';

/** Tells `change` when another language is chosen. */
export const languageEvents = new EventTarget();

/** @type {Language} */
let current = 'en';

/** @returns {Language} */
export const language = () => current;

/** @param {string | undefined | null} wanted @returns {Language | undefined} */
export function known(wanted) {
  const short = wanted?.toLowerCase().split('-')[0] ?? '';
  return short in languages ? /** @type {Language} */ (short) : undefined;
}

/**
 * Chooses a language, for this page and, if asked to, for the next ones.
 * @param {string} wanted
 * @param {{keep?: boolean}} [options]
 */
export function setLanguage(wanted, { keep = false } = {}) {
  current = known(wanted) ?? 'en';
  if (typeof document !== 'undefined') document.documentElement.lang = current;
  if (keep) stored()?.setItem(STORED, current);
  languageEvents.dispatchEvent(new Event('change'));
}

/** The language that the person chose, else the page's, else the first of the browser's that we speak. */
export function preferredLanguage() {
  const candidates = [
    stored()?.getItem(STORED),
    ...(globalThis.navigator?.languages ?? []),
  ];
  return candidates.map(known).find((one) => one !== undefined) ?? 'en';
}

/**
 * @param {Key} key
 * @param {Record<string, string | number>} [values]
 * @param {Language} [inLanguage]
 */
export function t(key, values = {}, inLanguage = current) {
  const text = languages[inLanguage][key];
  const chosen = typeof text === 'string' ? text : plural(text, Number(values.n), inLanguage);
  return chosen.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/**
 * @param {{[category: string]: string}} texts
 * @param {number} n
 * @param {Language} inLanguage
 */
function plural(texts, n, inLanguage) {
  return texts[new Intl.PluralRules(inLanguage).select(n)] ?? texts.other ?? '';
}

function stored() {
  try {
    return globalThis.localStorage;
  } catch {
    // Some browsers refuse it to pages that they do not trust.
    return undefined;
  }
}
