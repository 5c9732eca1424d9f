// The example's own life: times around now, a language, a theme, and a grid in which others buy too.

import { language, languageNames, languages, preferredLanguage, setLanguage, t, languageEvents } from '../i18n/index.js';
import { now } from './clock.js';
import './index.js';

/** @typedef {import('./tenure-grid.js').TenureGrid} TenureGrid */

const PICKED_MAX = 10;
const SELECTION_MS = 600_000;
const OTHERS = ['Ana', 'Bruno', 'Carmen', 'Diego'];

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const query = new URLSearchParams(location.search);

/** `in="150"` and `ago="1200"` are seconds from now, so that the page is always in the present. */
function setTimes() {
  const at = (/** @type {Element} */ element, /** @type {string} */ name) => Number(element.getAttribute(name)) * 1000;
  for (const element of document.querySelectorAll('[data-in]')) {
    element.setAttribute('expires-at', new Date(now() + at(element, 'data-in')).toISOString());
  }
  for (const element of document.querySelectorAll('[data-ago]')) {
    element.setAttribute(element.localName === 'tenure-live' ? 'updated-at' : 'since', new Date(now() - at(element, 'data-ago')).toISOString());
  }
}

function setUpSwitches() {
  const languageSelect = /** @type {HTMLSelectElement} */ (byId('language'));
  for (const name of Object.keys(languages)) {
    languageSelect.append(new Option(languageNames[/** @type {import('../i18n/index.js').Language} */ (name)], name));
  }
  languageSelect.addEventListener('change', () => setLanguage(languageSelect.value, { keep: true }));
  languageEvents.addEventListener('change', () => {
    languageSelect.value = language();
    sayTexts();
  });
  const themeSelect = /** @type {HTMLSelectElement} */ (byId('theme'));
  const setTheme = (/** @type {string} */ theme) => { document.documentElement.dataset.theme = theme; };
  themeSelect.addEventListener('change', () => setTheme(themeSelect.value));
  themeSelect.value = query.get('theme') ?? 'auto';
  setTheme(themeSelect.value);
  setLanguage(query.get('lang') ?? preferredLanguage());
}

function sayTexts() {
  for (const element of document.querySelectorAll('[data-t]')) {
    const key = /** @type {import('../i18n/index.js').Key} */ (element.getAttribute('data-t'));
    element.textContent = t(key);
  }
  byId('freed').textContent = t('raffle.freed', { n: 3 });
  byId('last').textContent = t('raffle.last', { time: '1:59' });
}

/** What each banner can be asked, shown as it is asked. */
function setUpBanners() {
  for (const name of ['tenure-retry', 'tenure-request-release', 'tenure-stay', 'tenure-release', 'tenure-dismiss']) {
    document.addEventListener(name, (event) => {
      const banner = /** @type {Element} */ (event.target);
      if (name === 'tenure-request-release') banner.toggleAttribute('requested', true);
      byId('heard').textContent = `${name} from <${banner.localName} state="${banner.getAttribute('state')}">`;
    });
  }
}

/** Each piece of code with a button that copies it. */
function setUpSnippets() {
  for (const code of document.querySelectorAll('pre[data-copy]')) {
    const button = Object.assign(document.createElement('button'), { type: 'button', className: 'button copy' });
    button.dataset.t = 'admin.copy';
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(code.textContent ?? '');
        button.textContent = t('admin.copied');
      } catch {
        // Not every browser lets a page do that: then it is at least selected.
        getSelection()?.selectAllChildren(code);
      }
    });
    button.addEventListener('blur', () => { button.textContent = t('admin.copy'); });
    const frame = Object.assign(document.createElement('div'), { className: 'snippet' });
    code.replaceWith(frame);
    frame.append(code, button);
  }
}

function setUpGrid() {
  const grid = /** @type {TenureGrid} */ (byId('numbers'));
  /** @type {Set<string>} */
  const picked = new Set(['0041', '0042']);
  const timer = byId('selection');
  const draw = () => {
    byId('chips').replaceChildren(...[...picked].sort().map((id) => Object.assign(document.createElement('li'), { textContent: id })));
  };
  timer.setAttribute('expires-at', new Date(now() + SELECTION_MS - 32_000).toISOString());
  grid.addEventListener('tenure-pick', (event) => {
    const { item, state, holder } = /** @type {CustomEvent} */ (event).detail;
    if (state === 'other' || state === 'sold') return grid.refuse(item, holder);
    if (state === 'free' && picked.size >= PICKED_MAX) return grid.refuse(item);
    if (picked.delete(item)) grid.setCells([[item, { state: 'free' }]]);
    else {
      picked.add(item);
      grid.setCells([[item, { state: 'mine' }]]);
    }
    draw();
  });
  draw();
  if (query.has('still')) return;
  setInterval(() => {
    const id = grid.items[Math.floor(Math.random() * 400)] ?? '';
    if (picked.has(id)) return;
    const isFreed = Math.random() < 0.4;
    const holder = OTHERS[Math.floor(Math.random() * OTHERS.length)];
    grid.setCells([[id, isFreed ? { state: 'free' } : { state: 'other', holder }]]);
  }, 700);
}

setTimes();
setUpSnippets();
setUpBanners();
setUpGrid();
setUpSwitches();
