// The outlines as a list: which class, which version, whose; the chosen one can be given another class or deleted.

import { formatTime } from '../../i18n/format.js';
import { language, t } from '../../i18n/index.js';
import { now } from '../../elements/clock.js';
import { h, keyed, set, write } from '../lib/dom.js';
import { paint } from './colours.js';

/** @typedef {import('./saving.js').Annotation} Annotation */

export const CLASSES = 'label-classes';

/** A field for a class: free, with what is known as suggestions. @param {(name: string) => void} onName @param {() => void} onNonsense */
export function classInput(onName, onNonsense) {
  const field = h('input', {
    list: CLASSES, pattern: '[A-Za-z0-9._\\-]{1,64}', maxlength: 64, required: true, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off',
    onchange: () => (field.validity.valid ? onName(field.value) : onNonsense()),
  });
  return field;
}

/**
 * @param {object} given
 * @param {(id: string) => void} given.onChoose
 * @param {(id: string, name: string) => void} given.onClass
 * @param {(id: string) => void} given.onDelete
 * @param {(one: Annotation) => string} given.notMine What to say of one that is not ours to change.
 */
export function annotationsPanel({ onChoose, onClass, onDelete, notMine }) {
  const heading = h('h2');
  const none = h('p', { class: 'soft small-text' });
  const list = h('ul', { class: 'annotations' });
  const keys = h('p', { class: 'soft small-text', id: 'stage-keys' });
  const element = h('aside', { class: 'panel' }, heading, none, list, keys);

  /** @param {Annotation} one */
  function make({ id }) {
    const field = classInput((name) => onClass(id, name), () => { field.value = field.defaultValue; });
    return h('li', {},
      h('button', { class: 'annotation', type: 'button', onclick: () => onChoose(id) }, h('span', { class: 'swatch', 'aria-hidden': 'true' }), h('b'), h('span', { class: 'soft small-text figures' })),
      h('div', { class: 'edit' }, field, h('button', { class: 'button danger', type: 'button', onclick: () => onDelete(id) })),
      h('p', { class: 'soft small-text not-mine' }));
  }

  /** @param {HTMLElement} row @param {Annotation} one @param {{isChosen: boolean, canWrite: boolean, canEdit: boolean}} how */
  function drawRow(row, one, { isChosen, canWrite, canEdit }) {
    const [button, edit, why] = /** @type {HTMLElement[]} */ ([...row.children]);
    if (!button || !edit || !why) return;
    set(button, 'aria-pressed', String(isChosen));
    paint(/** @type {HTMLElement} */ (button.firstElementChild), one.class_id);
    write(/** @type {Element} */ (button.querySelector('b')), one.class_id);
    const about = /** @type {Element} */ (button.lastElementChild);
    write(about, one.isUnsaved ? t('labels.unsaved.one') : t('labels.version', { n: one.version, name: one.updated_by.name }));
    set(about, 'title', formatTime(one.updated_at, now(), language()));
    edit.hidden = !isChosen || !canEdit;
    const field = /** @type {HTMLInputElement} */ (edit.firstElementChild);
    set(field, 'aria-label', t('labels.class'));
    field.defaultValue = one.class_id;
    if (document.activeElement !== field) field.value = one.class_id;
    write(/** @type {Element} */ (edit.lastElementChild), t('labels.delete'));
    why.hidden = !isChosen || canEdit || !canWrite || Boolean(one.isUnsaved);
    write(why, notMine(one));
  }

  return {
    element,
    /** @param {Annotation[]} annotations @param {{chosen: string | undefined, canWrite: boolean, canEdit: (one: Annotation) => boolean}} how */
    draw(annotations, { chosen, canWrite, canEdit }) {
      write(heading, t('labels.annotations', { n: annotations.length }));
      write(none, canWrite ? t('labels.annotations.none') : t('labels.annotations.none.look'));
      none.hidden = annotations.length > 0;
      write(keys, canWrite ? t('labels.keys') : t('labels.keys.look'));
      keys.hidden = !canWrite && annotations.length === 0;
      keys.classList.toggle('keys', canWrite);
      keyed(list, annotations, ({ id }) => id, make, (row, one) => drawRow(row, one, { isChosen: one.id === chosen, canWrite, canEdit: canEdit(one) }));
    },
  };
}
