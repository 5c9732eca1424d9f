// Who has the image, above the canvas: the badge, the banner when it is not ours, and the way to have it.

import { t } from '../../i18n/index.js';
import { el, h, set, write } from '../lib/dom.js';
import { askWords, toast, trying } from '../lib/notice.js';

/** @type {Record<string, string>} */
const BANNERS = { other: 'readonly', lost: 'lost', uncertain: 'uncertain' };

/**
 * @param {object} given
 * @param {import('../lib/place.js').Place} given.place
 * @param {import('./lock.js').ImageLock} given.lock
 * @param {() => Promise<void>} given.settled Before it is let go.
 * @param {() => void} given.onChange
 */
export function lockBar({ place, lock, settled, onChange }) {
  /** @type {{name: string, message: string} | undefined} */
  let nudge;
  /** The claim whose holder has been asked. @type {string | undefined} */
  let asked;
  const badge = el('tenure-lock');
  const banner = el('tenure-banner', { state: 'none' });
  const words = h('p');
  const work = h('button', { class: 'button primary', type: 'button', onclick: () => retry() });
  const free = h('div', { class: 'card row apart', hidden: true }, words, work);

  function retry() {
    void trying(work, () => lock.acquire());
  }

  async function request() {
    const { claim } = lock;
    if (!claim) return;
    const message = await askWords({ title: t('labels.request.title', { name: claim.holder.name }), label: t('labels.request.message'), submit: t('banner.request'), required: false });
    if (message === undefined) return;
    await trying(null, async () => {
      await place.tenure.nudge(claim.id, message || undefined);
      asked = claim.id;
      onChange();
    });
  }

  lock.on('change', () => {
    if (!lock.isKept) nudge = undefined;
    onChange();
  });
  lock.on('lost', () => toast(t('labels.lost'), { kind: 'bad' }));
  lock.on('nudged', (who) => {
    nudge = who;
    onChange();
  });
  banner.addEventListener('tenure-retry', retry);
  banner.addEventListener('tenure-release', () => { void trying(null, () => settled().then(() => lock.release())); });
  banner.addEventListener('tenure-dismiss', () => {
    nudge = undefined;
    onChange();
  });
  banner.addEventListener('tenure-request-release', () => { void request(); });

  return {
    badge,
    notices: [banner, free],
    /** @param {{mayWork: boolean, isArchived: boolean}} who */
    draw({ mayWork, isArchived }) {
      const { state, claim } = lock;
      const isOpen = mayWork && !isArchived;
      set(badge, 'state', !isOpen ? (claim ? 'other' : 'free') : state === 'asking' ? 'uncertain' : state);
      badge.hidden = isArchived;
      set(badge, 'holder', isOpen ? lock.holder : claim?.holder.name);
      set(badge, 'since', isOpen ? lock.since : claim?.since);
      set(badge, 'expires-at', isOpen && state === 'mine' ? lock.expiresAt : null);
      const isNudged = Boolean(nudge) && lock.canWrite;
      const look = isNudged ? 'nudged' : BANNERS[state] ?? 'none';
      set(banner, 'state', look);
      banner.hidden = look === 'none';
      set(banner, 'holder', isNudged ? nudge?.name : lock.holder);
      set(banner, 'message', isNudged ? nudge?.message : null);
      set(banner, 'since', lock.since);
      set(banner, 'reason', lock.loss?.reason);
      set(banner, 'by', lock.loss?.by);
      set(banner, 'note', lock.loss?.note);
      set(banner, 'requested', asked !== undefined && asked === claim?.id);
      free.hidden = isOpen && state !== 'free';
      write(words, isOpen ? t('labels.free_now') : mayWork ? t('labels.archived') : t('labels.look_only'));
      write(work, t('labels.work'));
      work.hidden = !isOpen;
    },
  };
}
