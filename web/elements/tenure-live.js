// <tenure-live>: is what is shown the present? A dot and words.
//
//   state       live | polling | waiting | opening | refused | stopped: as a stream's status says
//   updated-at  when the server was last heard, for all but live
//
// Parts: dot, text.

import { t } from '../i18n/index.js';
import { css, define, make, TenureElement, write } from './base.js';
import { onTick } from './clock.js';

const SHEET = css`
  :host { display: inline-flex; }
  span { display: inline-flex; align-items: center; gap: 0.5rem; }
  .box { font-size: var(--tenure-text-s); color: var(--tenure-ink-soft); white-space: nowrap; }
  [part=dot] {
    inline-size: 0.625rem; block-size: 0.625rem; border-radius: 50%; flex: none;
    border: 2px solid var(--tenure-unsure); background: transparent;
  }
  [data-look=live] [part=dot] { background: var(--tenure-green); border-color: var(--tenure-green); }
  [data-look=polling] [part=dot] { border-color: var(--tenure-green); }
  [data-look=off] [part=dot] { border-style: dotted; animation: breathe 1.6s ease-in-out infinite alternate; }
  [data-look=refused] [part=dot] { border-color: var(--tenure-red); }
  @keyframes breathe { to { opacity: 0.35; } }
  @media (prefers-reduced-motion: reduce) { [part=dot] { animation: none !important; } }
`;

export class TenureLive extends TenureElement {
  static sheets = [SHEET];
  static observedAttributes = ['state', 'updated-at'];
  #text = make('span', { part: 'text', class: 'figures' });
  #box = make('span', { class: 'box', role: 'status' }, make('span', { part: 'dot' }), this.#text);
  #stop = () => {};

  build() {
    this.root.append(this.#box);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#stop();
  }

  update() {
    this.#stop();
    const state = this.text('state', 'opening');
    const look = ['live', 'polling', 'refused'].includes(state) ? state : 'off';
    this.#box.dataset.look = look;
    const heardAt = Date.parse(this.text('updated-at'));
    // Seconds that count up are not for a screen reader to read out.
    this.#box.setAttribute('aria-live', look === 'polling' ? 'off' : 'polite');
    if (look === 'polling' && Number.isFinite(heardAt)) {
      this.#stop = onTick((at) => {
        write(this.#text, t('updated', { n: Math.max(0, Math.floor((at - heardAt) / 1000)) }));
        return 1000;
      });
      return;
    }
    write(this.#text, look === 'refused' ? t('live.refused') : look === 'off' ? t('live.off') : t('live.on'));
  }
}

define('tenure-live', TenureLive);
