// What becomes of the page: seen, hidden, left, back. Browsers say it in seven ways; here it is four.

import { Emitter } from './emitter.js';

/**
 * `back`: something may have happened in between (it is visible again, thawed, out of the back-forward cache,
 * or the network is there again). `leave`: it may never come back.
 * @extends {Emitter<{back: {why: string}, hidden: {}, leave: {}, offline: {}}>}
 */
export class Page extends Emitter {
  constructor() {
    super();
    this.isVisible = true;
  }
}

/** The page of a browser. Without one, as in Node: always visible, never left. */
export function browserPage() {
  const page = new Page();
  if (typeof document === 'undefined') return page;
  const see = () => { page.isVisible = document.visibilityState !== 'hidden'; };
  const back = (/** @type {string} */ why) => () => { see(); if (page.isVisible) page.emit('back', { why }); };
  see();
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'hidden') {
      page.isVisible = false;
      page.emit('hidden', {});
    } else back('visible')();
  });
  document.addEventListener('resume', back('resume'));
  addEventListener('pageshow', (event) => { if (event.persisted) back('pageshow')(); });
  addEventListener('online', back('online'));
  addEventListener('offline', () => page.emit('offline', {}));
  addEventListener('pagehide', () => page.emit('leave', {}));
  return page;
}
