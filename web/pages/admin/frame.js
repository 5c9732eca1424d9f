// What stands around every page of the raffle office.

import { frame } from '../console/frame.js';
import { style } from '../lib/style.js';

/** @type {import('../console/frame.js').Around} */
const OFFICE = {
  title: 'admin.title',
  refusal: 'admin.admins',
  tabs: [
    ['/app/admin', 'admin.payments'],
    ['/app/admin/raffles', 'admin.raffles'],
    ['/app/admin/providers', 'admin.providers'],
  ],
};

/** Whoever looks may be here. @param {import('../lib/place.js').Place} place */
export const isOffice = (place) => place.session.role === 'admin';

/**
 * @param {import('../lib/place.js').Place} place
 * @param {() => string} title
 * @param {(body: HTMLElement) => Promise<void>} build
 */
export async function office(place, title, build) {
  // In this order: what is said here goes for the office.
  await style('/pages/console/console.css');
  await style('/pages/admin/admin.css');
  const page = await frame(place, title, build, OFFICE);
  page.classList.add('admin');
  return page;
}
