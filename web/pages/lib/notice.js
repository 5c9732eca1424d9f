// Toasts and questions. A toast says what happened and goes; a question waits.

import { t } from '../../i18n/index.js';
import { h } from './dom.js';
import { say } from './say.js';

const SHOWN_MS = 6_000;
const SHOWN_MAX = 4;

const list = h('div', { class: 'toasts', role: 'status', 'aria-live': 'polite' });
document.body.append(list);

/**
 * @param {string} text
 * @param {{kind?: 'good' | 'bad' | 'plain', action?: {label: string, run: () => void}}} [options]
 */
export function toast(text, { kind = 'plain', action } = {}) {
  const gone = () => box.remove();
  const box = h('div', { class: `toast ${kind}` }, h('p', {}, text),
    action && h('button', { class: 'button', type: 'button', onclick: () => { gone(); action.run(); } }, action.label));
  list.append(box);
  while (list.children.length > SHOWN_MAX) list.firstElementChild?.remove();
  const timer = setTimeout(gone, SHOWN_MS);
  // Whoever reads it may take the time.
  box.addEventListener('pointerenter', () => clearTimeout(timer), { once: true });
}

/** @param {unknown} error */
export const complain = (error) => toast(say(error), { kind: 'bad' });

/**
 * Does something; says what went wrong, if anything. The button cannot be pressed twice meanwhile.
 * @template T
 * @param {HTMLButtonElement | undefined | null} button
 * @param {() => Promise<T>} act
 * @returns {Promise<T | undefined>}
 */
export async function trying(button, act) {
  if (button?.getAttribute('aria-busy') === 'true') return undefined;
  button?.setAttribute('aria-busy', 'true');
  try {
    return await act();
  } catch (error) {
    complain(error);
    return undefined;
  } finally {
    button?.removeAttribute('aria-busy');
  }
}

/**
 * Asks, over the page. Gives the value of the button, or `undefined` when it is put away; a firm question is put away
 * only with the page.
 * @param {object} question
 * @param {string} question.title
 * @param {(Node | string)[]} question.body
 * @param {{label: string, value: string, kind?: 'primary' | 'danger'}[]} question.answers
 * @param {boolean} [question.isFirm]
 * @returns {Promise<string | undefined>}
 */
export function ask({ title, body, answers, isFirm = false }) {
  return new Promise((resolve) => {
    const name = `question-${crypto.randomUUID()}`;
    const form = h('form', { method: 'dialog', class: 'stack' },
      h('h2', { id: name, tabindex: isFirm && -1 }, title),
      ...body.map((part) => (part instanceof Node ? part : h('p', {}, part))),
      h('div', { class: 'row end' },
        // No submit button: Enter in a field presses the first of those.
        !isFirm && h('button', { class: 'button', type: 'button', onclick: () => dialog.close('') }, t('dialog.cancel')),
        answers.map(({ label, value, kind }) => h('button', { class: `button ${kind ?? ''}`, type: 'submit', value }, label))));
    /** @type {HTMLDialogElement} */
    const dialog = h('dialog', { 'aria-labelledby': name }, form);
    dialog.addEventListener('keydown', (event) => { if (isFirm && event.key === 'Escape') event.preventDefault(); });
    dialog.addEventListener('cancel', (event) => { if (isFirm) event.preventDefault(); });
    dialog.addEventListener('close', () => {
      // Browsers let nothing stand in the way of a phone's second way back.
      if (isFirm && !dialog.returnValue && dialog.dataset.left === undefined) return dialog.showModal();
      dialog.remove();
      return resolve(dialog.returnValue || undefined);
    });
    document.body.append(dialog);
    dialog.showModal();
    // The first field, where there is one; otherwise the way out; without one the question itself, so that no key
    // answers it in passing. It is read from its beginning.
    const first = /** @type {HTMLElement | null} */ (form.querySelector('input, textarea, select') ?? form.querySelector(isFirm ? 'h2' : 'button'));
    first?.focus({ preventScroll: true });
    dialog.scrollTop = 0;
  });
}

/**
 * Asks for a few words, which must be given.
 * @param {{title: string, label: string, submit: string, kind?: 'primary' | 'danger', required?: boolean}} wish
 * @returns {Promise<string | undefined>}
 */
export async function askWords({ title, label, submit, kind = 'primary', required = true }) {
  const field = h('textarea', { rows: 3, maxlength: 500, required });
  const answer = await ask({ title, body: [h('label', { class: 'field' }, label, field)], answers: [{ label: submit, value: 'yes', kind }] });
  return answer === undefined ? undefined : field.value.trim();
}
