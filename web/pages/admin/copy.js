// A button that copies.

import { t } from '../../i18n/index.js';
import { copyText } from '../lib/copy.js';
import { h } from '../lib/dom.js';
import { toast } from '../lib/notice.js';

/**
 * A text that is needed elsewhere, with a button beside it.
 * @param {string} text
 * @param {string} what It is.
 * @param {string} [look] More classes.
 */
export function copyable(text, what, look = '') {
  const shown = h('code', {}, text);
  const copy = async () => {
    if (await copyText(text)) {
      toast(t('admin.copied'), { kind: 'good' });
    } else {
      // Not every browser lets a page do that: then it is at least selected.
      getSelection()?.selectAllChildren(shown);
      toast(t('admin.copy_yourself'));
    }
  };
  return h('span', { class: `copyable ${look}` }, shown,
    h('button', { class: 'button small', type: 'button', 'aria-label': t('admin.copy.what', { what }), onclick: copy }, t('admin.copy')));
}
