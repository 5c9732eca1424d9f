// The beginning: who is there, which page, and what happens between pages.

import { preferredLanguage, setLanguage, t } from '../i18n/index.js';
import { useClock } from '../elements/clock.js';
import '../elements/index.js';
import { Refused, Tenure } from '../sdk/tenure.js';
import { fill, h } from './lib/dom.js';
import { complain } from './lib/notice.js';
import { Place } from './lib/place.js';
import { find } from './lib/router.js';
import { say } from './lib/say.js';
import { Shell } from './lib/shell.js';

/** @typedef {import('./lib/place.js').Session} Session */

const SKELETON_AFTER_MS = 300;
/** The browser answers `history.go` later, or never where another journey overtakes it. */
const CORRECTION_MAX_MS = 300;

setLanguage(preferredLanguage());
const tenure = new Tenure();
useClock(tenure.clock);
const shell = new Shell({ signOut: () => { signOut().catch(complain); } });

/** @type {Session | undefined} */
let session;
/** @type {Place | undefined} */
let place;
let turn = 0;
/** How far along the browser's history the address is. */
let at = Number(history.state?.at ?? 0);
history.replaceState({ at }, '');
/** Where the address has to be again: the person is being asked, or stays. @type {number | undefined} */
let returnTo;
/** A correction may still be on its way. @type {ReturnType<typeof setTimeout> | undefined} */
let correcting;
/** One question at a time. */
let isAsking = false;

async function whoIsThere() {
  const { subject, role, demo } = await tenure.me();
  session = { person: subject ?? null, role: role ?? null, demo: demo ?? [] };
  return session;
}

async function signOut() {
  if (!await mayLeave()) return;
  // Asked first: where it fails, the page is still the page.
  await tenure.signOut();
  place?.leave();
  place = undefined;
  session = undefined;
  go('/app/sign-in');
}

/** Another page. @param {string} path @param {{replace?: boolean}} [options] */
function go(path, { replace = false } = {}) {
  if (replace) history.replaceState({ at }, '', path);
  else history.pushState({ at: at += 1 }, '', path);
  if (isWithin()) return;
  scrollTo(0, 0);
  void show();
}

/** A page that has something to lose asks first. @returns {boolean | Promise<boolean>} */
function mayLeave() {
  if (isAsking) return false;
  const answer = place && !place.isLeft && place.losing ? place.losing() : true;
  if (typeof answer === 'boolean') return answer;
  isAsking = true;
  return answer.finally(() => { isAsking = false; });
}

/** The browser went back or forth. @param {PopStateEvent} event */
async function travelled({ state }) {
  const from = at;
  at = Number(state?.at ?? from + 1);
  // Somebody typed a fragment.
  if (!state) history.replaceState({ at }, '');
  if (returnTo !== undefined) return void settle();
  if (at === from || isWithin()) return;
  const page = place;
  const answer = mayLeave();
  if (answer === true) return void show();
  // The browser does not ask before it goes: the address is the page's again until the person has answered.
  const by = at - from;
  returnTo = from;
  correct();
  if (!await answer || place !== page || !page) return;
  page.losing = undefined;
  history.go(by);
}

/** Sends the address to where it has to be: one step at a time, for the next is counted from where that one ends. */
function correct() {
  const by = (returnTo ?? at) - at;
  // Going nowhere would load the page anew.
  if (by === 0) return;
  history.go(by);
  correcting = setTimeout(correct, CORRECTION_MAX_MS);
}

/** Somewhere else than where it was sent, the address is left alone until nothing moves it any more. */
function settle() {
  clearTimeout(correcting);
  if (at === returnTo) returnTo = undefined;
  else correcting = setTimeout(correct, CORRECTION_MAX_MS);
}

/** The page that is there shows this address too: a drawer of it, say. */
function isWithin() {
  return Boolean(place && !place.isLeft && place.stays?.(location.pathname, new URLSearchParams(location.search)));
}

/** Shows the page that the address names. */
async function show() {
  turn += 1;
  const mine = turn;
  place?.leave();
  // A question belongs to the page that asked it.
  for (const dialog of document.querySelectorAll('dialog')) {
    dialog.dataset.left = '';
    if (dialog.open) dialog.close('');
  }
  const { pathname: path, search } = location;
  const query = new URLSearchParams(search);
  const waiting = setTimeout(() => { if (mine === turn) fill(shell.main, skeleton()); }, SKELETON_AFTER_MS);
  try {
    const found = find(path);
    const known = path === '/app/sign-in' ? await whoIsThere() : session ?? await whoIsThere();
    const page = await found?.load();
    if (mine !== turn) return;
    if (!known.person && !page?.isPublic) return go(`/app/sign-in?next=${encodeURIComponent(path + search)}`, { replace: true });
    shell.show(known, path, page?.layout ?? 'work');
    const next = new Place({ path, params: found?.params ?? {}, query, session: known, tenure, shell, go });
    place = next;
    const content = page ? await page.default(next) : missing(next);
    if (mine !== turn) return;
    fill(shell.main, content);
    focusStart();
  } catch (error) {
    if (mine !== turn) return;
    // Signed out elsewhere, or the session is over: there is one thing to do next.
    if (error instanceof Refused && error.status === 401 && session?.person) {
      session = undefined;
      return go(`/app/sign-in?next=${encodeURIComponent(path + search)}`, { replace: true });
    }
    shell.show(session ?? { person: null, role: null, demo: [] }, path, 'plain');
    fill(shell.main, broken(error));
  } finally {
    clearTimeout(waiting);
  }
}

/** Whoever does not see the page is told that it is another one. */
function focusStart() {
  if (turn > 1) shell.main.focus({ preventScroll: true });
}

function skeleton() {
  return h('div', { class: 'stack', 'aria-busy': 'true' }, ...['short', '', '', ''].map((more) => h('div', { class: `bone ${more}` })));
}

/** @param {Place} at */
function missing(at) {
  at.title(t('page.missing'));
  return h('section', { class: 'empty stack' }, h('h1', {}, t('page.missing')), h('p', {}, t('page.missing.next')),
    h('p', {}, h('a', { class: 'button primary', href: '/app/' }, t('page.home'))));
}

/** The nearest list above a page. @param {string} path @returns {string} */
function above(path) {
  const up = path.slice(0, path.lastIndexOf('/'));
  return up.length <= '/app'.length ? '/app/' : find(up) ? up : above(up);
}

/** @param {unknown} error */
function broken(error) {
  console.warn(error);
  // Asking again would not help: what is not there is not there.
  if (error instanceof Refused && error.status === 404) {
    const list = above(location.pathname);
    return h('section', { class: 'empty stack' }, h('h1', {}, t('page.missing')), h('p', {}, t('page.missing.next')),
      h('p', {}, h('a', { class: 'button primary', href: list }, list === '/app/' ? t('page.home') : t('page.list'))));
  }
  return h('section', { class: 'empty stack' }, h('h1', {}, t('page.broken')), h('p', {}, say(error)),
    h('p', {}, h('button', { class: 'button primary', type: 'button', onclick: () => { void show(); } }, t('page.retry'))));
}

// Links stay in the page unless the person wants another tab.
document.addEventListener('click', async (event) => {
  const link = /** @type {Element} */ (event.target).closest?.('a[href]');
  if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.hasAttribute('download')) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !url.pathname.startsWith('/app/')) return;
  event.preventDefault();
  // A part of this page: no other address, for that would be another page.
  if (url.pathname === location.pathname && url.hash) return document.getElementById(url.hash.slice(1))?.focus();
  const answer = mayLeave();
  if (answer === true) go(url.pathname + url.search);
  else if (await answer) go(url.pathname + url.search);
});
addEventListener('popstate', (event) => { void travelled(event); });
void show();
