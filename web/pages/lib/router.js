// Which page a path is.

import { PARTS } from './parts.js';

/**
 * @typedef {object} Page
 * @property {(place: import('./place.js').Place) => Promise<HTMLElement> | HTMLElement} default
 * @property {'work' | 'buyer' | 'plain'} [layout] `work` has the rail; buyers never see it.
 * @property {boolean} [isPublic] It is shown to people who are not signed in.
 *
 * @typedef {object} Found
 * @property {() => Promise<Page>} load
 * @property {Record<string, string>} params
 */

/** @type {[string, () => Promise<any>][]} */
const ROUTES = [
  ['/app/', () => import('../home.js')],
  ['/app/sign-in', () => import('../sign-in.js')],
  ...PARTS.flatMap(({ pages }) => Object.entries(pages)),
];

/** @param {string} path @returns {Found | undefined} */
export function find(path) {
  const parts = path.split('/');
  for (const [pattern, load] of ROUTES) {
    const wanted = pattern.split('/');
    if (wanted.length !== parts.length) continue;
    /** @type {Record<string, string>} */
    const params = {};
    const fits = wanted.every((want, index) => {
      const part = parts[index] ?? '';
      if (!want.startsWith(':')) return want === part;
      if (part === '') return false;
      try {
        params[want.slice(1)] = decodeURIComponent(part);
        return true;
      } catch {
        return false;
      }
    });
    if (fits) return { load, params };
  }
  return undefined;
}
