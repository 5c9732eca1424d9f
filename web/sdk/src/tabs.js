// Tabs of one browser: which session this one is, and who else works under the same claim, so that closing one
// tab does not take the claim away from another.

/** @typedef {import('./activity.js').Channel} Channel */

const SESSION_KEY = 'tenure.session';

/** @param {string} name @returns {Channel | undefined} */
export function broadcast(name) {
  // Node has one too, but there it would keep the process alive, and there are no tabs.
  if (typeof document === 'undefined' || typeof BroadcastChannel === 'undefined') return undefined;
  const channel = new BroadcastChannel(name);
  return {
    post: (message) => channel.postMessage(message),
    on: (heard) => channel.addEventListener('message', (event) => heard(event.data)),
  };
}

/**
 * This tab's session: the same after a reload, another in a duplicated tab. It lies in the storage only while
 * no page has it: a duplicate copies the storage of a living page, where it is not.
 * @param {{storage?: Storage, page: import('./page.js').Page, make: () => string}} options
 */
export function tabSession({ storage, page, make }) {
  const session = storage?.getItem(SESSION_KEY) ?? make();
  storage?.removeItem(SESSION_KEY);
  page.on('leave', () => storage?.setItem(SESSION_KEY, session));
  page.on('back', () => storage?.removeItem(SESSION_KEY));
  return session;
}

/** Who uses which claim. Without a channel: only this tab does. */
export class Tabs {
  /**
   * @param {object} options
   * @param {Channel} [options.channel]
   * @param {string} options.tab
   * @param {{now: () => number}} options.own
   */
  constructor({ channel, tab, own }) {
    this.channel = channel;
    this.tab = tab;
    this.own = own;
    /** @type {Set<string>} */
    this.mine = new Set();
    /** claim → tab → until when that is believed. @type {Map<string, Map<string, number>>} */
    this.others = new Map();
    channel?.on((message) => this.#hear(message));
  }

  /**
   * This tab works under the claim. Said again with every renewal: a tab that died says nothing, and is
   * forgotten.
   * @param {string} claim
   * @param {number} forMs
   */
  use(claim, forMs) {
    const isNew = !this.mine.has(claim);
    this.mine.add(claim);
    this.#say('using', claim, forMs);
    if (isNew) this.#say('who', claim, forMs);
  }

  /** @param {string} claim */
  leave(claim) {
    this.mine.delete(claim);
    this.#say('left', claim, 0);
  }

  /** @param {string} claim */
  isUsedElsewhere(claim) {
    const now = this.own.now();
    return [...(this.others.get(claim)?.values() ?? [])].some((until) => until > now);
  }

  /**
   * @param {'using' | 'who' | 'left'} type
   * @param {string} claim
   * @param {number} forMs
   */
  #say(type, claim, forMs) {
    this.channel?.post({ type, claim, tab: this.tab, forMs });
  }

  /** @param {{type: string, claim: string, tab: string, forMs: number}} message */
  #hear({ type, claim, tab, forMs }) {
    if (tab === this.tab) return;
    if (type === 'using') {
      const tabs = this.others.get(claim) ?? new Map();
      this.others.set(claim, tabs.set(tab, this.own.now() + forMs));
    } else if (type === 'left') this.others.get(claim)?.delete(tab);
    else if (type === 'who' && this.mine.has(claim)) this.#say('using', claim, forMs);
  }
}
