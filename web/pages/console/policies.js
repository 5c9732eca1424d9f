// How the claims of each kind behave: to be read by people, and changed as JSON.

import { t } from '../../i18n/index.js';
import { fill, h, set, write } from '../lib/dom.js';
import { toast, trying } from '../lib/notice.js';
import { say } from '../lib/say.js';
import { Refused } from '../../sdk/tenure.js';
import { frame } from './frame.js';
import { locate } from './locate.js';
import { span } from './spans.js';

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 * @typedef {{kind: string, source: string, policy: any}} KindPolicy
 */

/** @param {import('../lib/place.js').Place} place */
export default function policiesPage(place) {
  return frame(place, () => t('policies.title'), async (body) => {
    /** @type {KindPolicy[]} */
    let policies = [];
    let open = place.query.get('kind') ?? '';
    const list = h('div', { class: 'policies' });
    const load = async () => { policies = (await place.get('/v1/policies')).policies; };

    /** @param {string} kind */
    function edit(kind) {
      open = kind;
      history.replaceState(history.state, '', `${place.path}${kind ? `?kind=${encodeURIComponent(kind)}` : ''}`);
      draw();
    }

    /** It is read from its beginning. */
    function begin() {
      const text = list.querySelector('textarea');
      text?.setSelectionRange(0, 0);
      text?.focus({ preventScroll: true });
      text?.closest('section')?.scrollIntoView({ block: 'nearest' });
    }

    /** @param {any} policy @returns {[string, string][]} */
    function facts(policy) {
      const yes = (/** @type {boolean} */ is) => (is ? t('policies.yes') : t('policies.no'));
      return /** @type {[string, string][]} */ ([
        ...policy.phases.map((/** @type {any} */ phase) => [phase.name, [span(phase.ttl_ms), phase.renew ? t('policies.renewed') : t('policies.fixed'),
          phase.at_end === 'advance' ? t('policies.then_next') : t('policies.then_free')].join(', ')]),
        [t('policies.heartbeat'), span(policy.heartbeat_ms)],
        policy.idle_guard_ms && [t('policies.idle'), span(policy.idle_guard_ms)],
        policy.rolling_ms && [t('policies.rolling'), span(policy.rolling_ms)],
        [t('policies.items'), String(policy.max_items)],
        policy.max_claims_per_holder && [t('policies.per_holder'), String(policy.max_claims_per_holder)],
        [t('policies.claimable'), policy.claimable.join(', ')],
        policy.finished.length > 0 && [t('policies.finished'), policy.finished.join(', ')],
        [t('policies.creates'), yes(policy.create_on_claim)],
        [t('policies.sessions'), yes(policy.session_exclusive)],
      ].filter(Boolean));
    }

    /** @param {KindPolicy} one */
    function editor({ kind, policy }) {
      const text = h('textarea', { spellcheck: 'false', autocapitalize: 'off', '.value': JSON.stringify(policy, null, 2), 'aria-describedby': `why-${kind}` });
      const why = h('p', { class: 'bad', role: 'alert', id: `why-${kind}` });
      const save = h('button', { class: 'button primary', type: 'submit' }, t('policies.save'));
      const mind = (/** @type {string} */ words, /** @type {[number, number] | undefined} */ at) => {
        write(why, words);
        set(text, 'aria-invalid', 'true');
        text.focus();
        if (!at) return;
        text.setSelectionRange(...at);
        const line = text.value.slice(0, at[0]).split('\n').length;
        text.scrollTop = (line - 4) * Number.parseFloat(getComputedStyle(text).lineHeight);
      };
      const send = () => trying(save, async () => {
        write(why, '');
        set(text, 'aria-invalid', null);
        /** @type {any} */
        let wanted;
        try {
          wanted = JSON.parse(text.value);
        } catch (error) {
          return mind(t('policies.no_json', { detail: /** @type {Error} */ (error).message }), undefined);
        }
        try {
          await place.send('PUT', `/v1/policies/${encodeURIComponent(kind)}`, wanted);
        } catch (error) {
          const field = error instanceof Refused ? String(error.problem.field ?? '') : '';
          return mind(say(error), field ? locate(text.value, field) : undefined);
        }
        toast(t('policies.saved', { kind }), { kind: 'good' });
        await load();
        edit('');
      });
      return h('form', { class: 'stack policy', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); void send(); } },
        h('label', { class: 'field' }, t('policies.json'), text), why, h('p', { class: 'soft small-text' }, t('policies.effect')),
        h('div', { class: 'row' }, save, h('button', { class: 'button', type: 'button', onclick: () => edit('') }, t('dialog.cancel'))));
    }

    function draw() {
      fill(list, policies.map((one) => {
        const { kind, source, policy } = one;
        const isOpen = open === kind;
        return h('section', { class: `card stack${isOpen ? ' editing' : ''}` },
          h('div', { class: 'row apart' }, h('h2', {}, kind), h('span', { class: `tag ${source === 'preset' ? '' : 'busy'}` }, source === 'preset' ? t('policies.preset') : t('policies.set'))),
          isOpen ? editor(one) : h('dl', { class: 'facts' }, facts(policy).map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', { class: 'figures' }, value)))),
          !isOpen && h('div', { class: 'row' }, h('button', { class: 'button', type: 'button', 'aria-label': t('policies.edit.kind', { kind }), onclick: () => { edit(kind); begin(); } }, t('policies.edit'))));
      }));
    }

    await load();
    const what = h('p', { class: 'soft' });
    place.onLanguage(() => {
      write(what, t('policies.what'));
      draw();
    });
    fill(body, what, list);
  });
}
