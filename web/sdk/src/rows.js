// A collection's items and claims, as its events add up to them. The server's `fold` is the original; this one
// shows, it never decides.

/**
 * @typedef {import('./errors.js').Person} Person
 *
 * @typedef {object} ClaimRow
 * @property {string} id
 * @property {string} collection
 * @property {string[]} items
 * @property {Person} holder
 * @property {string | null} session
 * @property {string} state
 * @property {string} phase
 * @property {number} token
 * @property {string} since
 * @property {string} heartbeat_at
 * @property {string} expires_at
 * @property {number} [expires_in_ms]
 * @property {string} [server_time]
 * @property {any} data
 * @property {string} [reason]
 * @property {string} [ended_at]
 *
 * @typedef {object} ItemRow
 * @property {string} id
 * @property {string} status
 * @property {number} version
 * @property {any} data
 * @property {number} fence
 * @property {string} updated_at
 * @property {string} updated_by
 *
 * @typedef {object} Snapshot
 * @property {number} epoch
 * @property {number} seq
 * @property {string} [server_time]
 * @property {ItemRow[]} items
 * @property {ClaimRow[]} claims
 *
 * @typedef {Record<string, any> & {
 *   seq: number, at: string, type: string, actor: Person, collection: string, claim?: string, items?: string[],
 * }} TenureEvent
 */

/** The types of events that end a claim. */
export const ENDS = new Set([
  'claim_released', 'claim_completed', 'claim_expired', 'claim_cancelled', 'claim_taken_over', 'LOCK_FORCE_RELEASE',
]);

/** Items and claims of one collection. */
export class Rows {
  constructor() {
    /** @type {Map<string, ItemRow>} */
    this.items = new Map();
    /** Active ones. @type {Map<string, ClaimRow>} */
    this.claims = new Map();
    /** Who holds an item: item → claim. @type {Map<string, ClaimRow>} */
    this.held = new Map();
  }

  /** @param {Snapshot} snapshot */
  reset(snapshot) {
    this.items = new Map(snapshot.items.map((item) => [item.id, item]));
    this.claims = new Map(snapshot.claims.map((claim) => [claim.id, claim]));
    this.held = new Map(snapshot.claims.flatMap((claim) => claim.items.map((item) => [item, claim])));
  }

  /**
   * Applies an event.
   * @param {TenureEvent} event
   * @returns {string[]} The items that look different now.
   */
  apply(event) {
    if (ENDS.has(event.type)) return this.#end(event);
    switch (event.type) {
      case 'claim_granted': return this.#grant(event);
      // Forced by its own holder it is a renewal, and names no items.
      case 'LOCK_FORCE_CLAIM': return event.holder ? this.#grant(event) : this.#change(event, {});
      case 'claim_renewed': return this.#change(event, { heartbeat_at: event.at });
      case 'claim_advanced': return this.#change(event, { phase: event.phase });
      case 'item_added': return this.#add(event);
      case 'item_removed': return this.#remove(event);
      case 'item_put': return this.#put(event);
      case 'item_deleted': return this.#delete(event);
      case 'resumed': return this.#resume(event);
      default: return [];
    }
  }

  /** @param {TenureEvent} event */
  #grant(event) {
    /** @type {ClaimRow} */
    const claim = {
      id: event.claim ?? '', collection: event.collection, items: event.items ?? [], holder: event.holder,
      session: event.session, state: 'active', phase: event.phase, token: event.token, since: event.at,
      heartbeat_at: event.at, expires_at: event.expires_at, data: event.data,
    };
    this.claims.set(claim.id, claim);
    this.#touch(event, claim);
    return claim.items;
  }

  /**
   * Points the event's items at a claim, with the status that it gave them.
   * @param {TenureEvent} event
   * @param {ClaimRow} claim
   */
  #touch(event, claim) {
    const changes = new Map((event.changes ?? []).map((/** @type {any} */ change) => [change.item, change]));
    for (const id of event.items ?? []) {
      this.held.set(id, claim);
      const before = this.items.get(id);
      const change = changes.get(id);
      if (!before && !change) continue;
      // A grant counts as a change of the item only where it gave it another status.
      const version = (before?.version ?? 0) + (change ? 1 : 0);
      const mark = change ? { updated_at: event.at, updated_by: event.actor.id } : {};
      const item = before ?? { id, status: '', version: 0, data: null, fence: 0, updated_at: event.at, updated_by: '' };
      this.items.set(id, { ...item, ...mark, version, fence: event.token, status: change?.after.status ?? item.status });
    }
  }

  /**
   * @param {TenureEvent} event
   * @param {Partial<ClaimRow>} more
   */
  #change(event, more) {
    const claim = this.claims.get(event.claim ?? '');
    if (!claim) return [];
    this.#replace({ ...claim, ...more, expires_at: event.expires_at ?? claim.expires_at });
    return claim.items;
  }

  /** @param {ClaimRow} claim */
  #replace(claim) {
    this.claims.set(claim.id, claim);
    for (const item of claim.items) this.held.set(item, claim);
  }

  /** @param {TenureEvent} event */
  #add(event) {
    const claim = this.claims.get(event.claim ?? '');
    if (!claim) return [];
    const changed = { ...claim, items: [...claim.items, ...(event.items ?? [])], token: event.token };
    this.#replace(changed);
    this.#touch(event, changed);
    return event.items ?? [];
  }

  /** @param {TenureEvent} event */
  #remove(event) {
    const gone = event.items ?? [];
    const claim = this.claims.get(event.claim ?? '');
    if (!claim) return [];
    this.#replace({ ...claim, items: claim.items.filter((item) => !gone.includes(item)) });
    for (const item of gone) this.#free(item, claim.id);
    return gone;
  }

  /** @param {TenureEvent} event */
  #end(event) {
    const id = event.claim ?? '';
    this.claims.delete(id);
    for (const item of event.items ?? []) this.#free(item, id);
    for (const { item, after } of event.changes ?? []) this.#write(item, after, event);
    return event.items ?? [];
  }

  /**
   * @param {string} item
   * @param {string} claim
   */
  #free(item, claim) {
    if (this.held.get(item)?.id === claim) this.held.delete(item);
  }

  /** @param {TenureEvent} event */
  #put(event) {
    const ids = event.items ?? [];
    for (const id of ids) this.#write(id, event.after, event);
    const claim = this.held.get(ids[0] ?? '');
    if (claim && event.expires_at) this.#replace({ ...claim, expires_at: event.expires_at, heartbeat_at: event.at });
    return ids;
  }

  /**
   * @param {string} id
   * @param {{version: number, status: string, data: any}} after
   * @param {TenureEvent} event
   */
  #write(id, after, event) {
    const fence = this.items.get(id)?.fence ?? 0;
    this.items.set(id, { id, ...after, fence, updated_at: event.at, updated_by: event.actor.id });
  }

  /** @param {TenureEvent} event */
  #delete(event) {
    for (const id of event.items ?? []) {
      this.items.delete(id);
      this.held.delete(id);
    }
    return event.items ?? [];
  }

  /** The server was away: every deadline that had not passed moved by as much. @param {TenureEvent} event */
  #resume(event) {
    /** @type {string[]} */
    const touched = [];
    for (const claim of [...this.claims.values()]) {
      const moved = new Date(Date.parse(claim.expires_at) + event.shift_ms);
      // A deadline that is no time stays what it was.
      if (Number.isNaN(moved.getTime())) continue;
      this.#replace({ ...claim, expires_at: moved.toISOString() });
      touched.push(...claim.items);
    }
    return touched;
  }
}
