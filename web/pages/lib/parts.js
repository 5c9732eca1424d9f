// The parts of the place: what stands in the rail and on the first page, and which pages belong to each. Pages
// are modules, fetched when they are first needed.

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 *
 * @typedef {object} Part
 * @property {string} path
 * @property {Key} title
 * @property {Key} text What one does there.
 * @property {string[]} [roles] Who sees it; everyone, if not said.
 * @property {Record<string, () => Promise<any>>} pages
 */

/** @type {Part[]} */
export const PARTS = [
];

/** The parts that this role sees. @param {string | null} role */
export const partsFor = (role) => PARTS.filter(({ roles }) => !roles || roles.includes(role ?? ''));
