// A field that the server minds, in words, and where it stands.

import { t } from '../../i18n/index.js';
import { Refused } from '../../sdk/tenure.js';
import { set, write } from '../lib/dom.js';
import { say } from '../lib/say.js';

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field
 */

/**
 * What is wrong, with the field's own name and what it should be.
 * @param {unknown} error
 * @param {(field: string) => {label: Key, hint: Key} | undefined} known
 * @param {string} [id] What was asked to be the name of it.
 */
export function sayField(error, known, id = '') {
  const name = fieldOf(error);
  const field = name ? known(name) : undefined;
  if (!field || !(error instanceof Refused)) return say(error);
  if (/is taken$/.test(error.message)) return t('admin.taken', { id });
  if (/is missing/.test(error.message)) return t('admin.field.missing', { field: t(field.label) });
  return t('admin.field.wrong', { field: t(field.label), hint: t(field.hint) });
}

/** @param {unknown} error */
export const fieldOf = (error) => (error instanceof Refused ? String(error.problem.field ?? '').replace(/^config\./, '') : '');

/**
 * Shows it in a form, and goes to the field.
 * @param {HTMLFormElement} form
 * @param {HTMLElement} where
 * @param {string} words
 * @param {string} [name]
 */
export function mind(form, where, words, name = '') {
  write(where, words);
  const fields = /** @type {Field[]} */ ([...form.querySelectorAll('input, select, textarea')]);
  for (const field of fields) set(field, 'aria-invalid', name !== '' && field.name === name && 'true');
  fields.find((field) => name !== '' && field.name === name)?.focus();
}
