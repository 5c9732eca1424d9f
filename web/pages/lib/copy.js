// Copying, where the browser lets a page do it.

import { h } from './dom.js';

/** Whether it is copied. @param {string} text @returns {Promise<boolean>} */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not on a page without TLS: as it was done before.
  }
  const field = h('textarea', { class: 'unseen', '.value': text, 'aria-hidden': 'true' });
  const before = document.activeElement;
  document.body.append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return isDone;
}
