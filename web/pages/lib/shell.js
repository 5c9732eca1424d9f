// What stands around every page: the bar with its switches, the rail for those who work here, and the outlet.

import { language, languageEvents, languageNames, languages, setLanguage, t } from '../../i18n/index.js';
import { now } from '../../elements/clock.js';
import { el, fill, h, set, write } from './dom.js';
import { partsFor } from './parts.js';

/** @typedef {import('./place.js').Session} Session */
/** @typedef {import('../../i18n/index.js').Key} Key */

const THEME = 'tenure.theme';
const THEMES = /** @type {const} */ (['auto', 'light', 'dark']);
/** @type {Record<string, Key>} */
const THEME_TEXTS = { auto: 'theme.auto', light: 'theme.light', dark: 'theme.dark' };

/** When that was, on the clock that elements count on. @param {number} ageMs */
export const heardAt = (ageMs) => new Date(now() - ageMs).toISOString();

export class Shell {
  #name = h('span', { class: 'place' });
  #live = el('tenure-live', { hidden: true });
  #person = h('div', { class: 'person row' });
  #languages = h('select', { class: 'small' });
  #themes = h('select', { class: 'small' });
  #menu = h('button', { class: 'button quiet menu', type: 'button', 'aria-expanded': 'false', 'aria-controls': 'settings' });
  #rail = h('nav', { class: 'rail' });
  #skip = h('a', { class: 'skip', href: '#main' });
  #search = h('input', { type: 'search', class: 'search', hidden: true, enterkeyhint: 'search' });
  main = h('main', { id: 'main', tabindex: -1 });
  /** @type {Session} */
  #session = { person: null, role: null, demo: [] };
  #path = '';
  /** @type {import('../../sdk/tenure.js').Watch[]} */
  #followed = [];
  #title = '';
  /** @type {(text: string) => void} */
  #onSearch = () => {};

  /** @param {{signOut: () => void}} options */
  constructor({ signOut }) {
    this.signOut = signOut;
    for (const name of Object.keys(languages)) {
      this.#languages.append(new Option(languageNames[/** @type {import('../../i18n/index.js').Language} */ (name)], name));
    }
    this.#languages.addEventListener('change', () => setLanguage(this.#languages.value, { keep: true }));
    this.#themes.append(...THEMES.map((theme) => new Option('', theme)));
    this.#themes.addEventListener('change', () => this.#setTheme(this.#themes.value));
    this.#setTheme(localStorage.getItem(THEME) ?? 'auto');
    this.#search.addEventListener('input', () => this.#onSearch(this.#search.value));
    addEventListener('keydown', (event) => this.#key(event));
    const bar = h('header', { class: 'bar' }, this.#skip,
      h('a', { class: 'brand', href: '/app/', 'aria-label': 'Tenure' }, h('img', { src: '/pages/icon.svg', alt: '', width: 24, height: 24 }), h('b', {}, 'Tenure')),
      this.#name, this.#search, h('span', { class: 'gap' }), this.#live, this.#menu,
      h('div', { class: 'settings', id: 'settings' }, this.#person, this.#languages, this.#themes));
    // On a phone the switches are folded away.
    const fold = (/** @type {boolean} */ isOpen) => set(this.#menu, 'aria-expanded', String(isOpen));
    this.#menu.addEventListener('click', () => fold(this.#menu.getAttribute('aria-expanded') !== 'true'));
    addEventListener('keydown', (event) => { if (event.key === 'Escape') fold(false); });
    document.body.prepend(bar, h('div', { class: 'body' }, this.#rail, this.main));
    languageEvents.addEventListener('change', () => this.draw());
  }

  /** @param {Session} session @param {string} path @param {'work' | 'buyer' | 'plain'} layout */
  show(session, path, layout) {
    this.#session = session;
    this.#path = path;
    document.body.dataset.layout = session.person ? layout : 'plain';
    this.draw();
  }

  draw() {
    const { person, role } = this.#session;
    write(this.#skip, t('nav.skip'));
    write(this.#menu, person?.name ?? t('nav.menu'));
    set(this.#rail, 'aria-label', t('nav.label'));
    set(this.#languages, 'aria-label', t('nav.language'));
    set(this.#themes, 'aria-label', t('nav.theme'));
    set(this.#search, 'aria-label', t('nav.search'));
    set(this.#search, 'placeholder', t('nav.search'));
    this.#languages.value = language();
    for (const option of this.#themes.options) option.textContent = t(THEME_TEXTS[option.value] ?? 'theme.auto');
    fill(this.#person, person && h('span', { class: 'who' }, person.name),
      person && h('button', { class: 'button quiet', type: 'button', onclick: () => this.signOut() }, t('nav.sign_out')));
    fill(this.#rail, partsFor(role).map(({ path, title }) => {
      const isHere = this.#path === path || this.#path.startsWith(`${path}/`);
      return h('a', { href: path, 'aria-current': isHere && 'page' }, t(title));
    }));
    // On a phone there are more parts than fit: the one that is open is in view.
    const here = /** @type {HTMLElement | null} */ (this.#rail.querySelector('[aria-current]'));
    if (here) this.#rail.scrollLeft = here.offsetLeft - this.#rail.offsetLeft - (this.#rail.clientWidth - here.offsetWidth) / 2;
    this.title(this.#title);
  }

  /** @param {string} text */
  title(text) {
    this.#title = text;
    write(this.#name, text);
    document.title = text ? `${text} · Tenure` : 'Tenure';
  }

  /**
   * The page can be searched.
   * @param {(text: string) => void} act
   * @param {string} [text] What it is searched for already.
   * @returns {() => void} It cannot any more.
   */
  search(act, text = '') {
    this.#onSearch = act;
    this.#search.hidden = false;
    this.#search.value = text;
    return () => {
      this.#onSearch = () => {};
      this.#search.hidden = true;
    };
  }

  /** The bar tells how this stream is. @param {import('../../sdk/tenure.js').Watch} watch @returns {() => void} */
  follow(watch) {
    this.#followed.push(watch);
    const draw = () => this.#drawLive();
    const stop = watch.on('status', draw);
    draw();
    return () => {
      stop();
      this.#followed.splice(this.#followed.indexOf(watch), 1);
      draw();
    };
  }

  #drawLive() {
    const [watch] = this.#followed;
    this.#live.hidden = !watch;
    if (!watch) return;
    set(this.#live, 'state', watch.status.state);
    const age = watch.ageMs;
    set(this.#live, 'updated-at', age === undefined ? undefined : heardAt(age));
  }

  /** @param {string} theme */
  #setTheme(theme) {
    const wanted = THEMES.find((one) => one === theme) ?? 'auto';
    this.#themes.value = wanted;
    localStorage.setItem(THEME, wanted);
    document.documentElement.dataset.theme = wanted;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const isWriting = target.closest?.('input, textarea, select, [contenteditable]');
    if (event.key !== '/' || isWriting || event.ctrlKey || event.metaKey || this.#search.hidden) return;
    event.preventDefault();
    this.#search.focus();
  }
}
