// Folding the events of one story gives the rows that the server has.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Rows } from '../src/rows.js';

const ana = { id: 'ana', name: 'Ana' };
const carmen = { id: 'carmen', name: 'Carmen' };
const at = '2026-01-02T03:04:05.000Z';
const until = '2026-01-02T03:07:05.000Z';
const claim = 'task~t1~3';
const base = { at, actor: ana, collection: 'task/t1' };

/** Rows after item a1 was written and Ana has claimed it. */
function claimed() {
  const rows = new Rows();
  rows.apply({ ...base, seq: 2, type: 'item_put', items: ['a1'], before: null, after: { version: 1, status: 'ready', data: { n: 1 } } });
  rows.apply({
    ...base, seq: 3, type: 'claim_granted', claim, items: ['a1'], holder: ana, session: 'tab1', phase: 'editing',
    token: 3, ttl_ms: 180_000, expires_at: until, data: null,
    changes: [{ item: 'a1', before: { status: 'ready' }, after: { status: 'processing' } }],
  });
  return rows;
}

test('a_grant_points_its_items_at_it_and_counts_as_a_change_of_their_status', () => {
  const rows = claimed();
  assert.equal(rows.held.get('a1').holder.name, 'Ana');
  assert.deepEqual(rows.items.get('a1'), {
    id: 'a1', status: 'processing', version: 2, data: { n: 1 }, fence: 3, updated_at: at, updated_by: 'ana',
  });
});

test('a_takeover_moves_the_item_to_the_new_claim', () => {
  const rows = claimed();
  rows.apply({ ...base, actor: carmen, seq: 6, type: 'claim_taken_over', claim, items: ['a1'], holder: ana, reason: 'taken_over' });
  assert.equal(rows.held.size, 0);
  rows.apply({
    ...base, actor: carmen, seq: 7, type: 'LOCK_FORCE_CLAIM', claim: 'task~t1~7', items: ['a1'], holder: carmen,
    session: null, phase: 'editing', token: 7, expires_at: until, data: null, reason: 'urgent',
  });
  assert.equal(rows.held.get('a1').holder.name, 'Carmen');
  assert.equal(rows.items.get('a1').fence, 7);
  assert.equal(rows.items.get('a1').version, 2);
  assert.deepEqual([...rows.claims.keys()], ['task~t1~7']);
});

test('the_end_of_an_older_claim_does_not_free_what_a_newer_one_holds', () => {
  const rows = claimed();
  const newer = { ...rows.held.get('a1'), id: 'task~t1~9' };
  rows.held.set('a1', newer);
  rows.apply({ ...base, seq: 10, type: 'claim_expired', claim, items: ['a1'], holder: ana, reason: 'expired' });
  assert.equal(rows.held.get('a1'), newer);
});

test('a_completion_writes_and_frees', () => {
  const rows = claimed();
  const touched = rows.apply({
    ...base, seq: 8, type: 'claim_completed', claim, items: ['a1'], holder: ana, reason: 'completed',
    changes: [{ item: 'a1', before: {}, after: { version: 3, status: 'completed', data: { n: 2 } } }],
  });
  assert.deepEqual(touched, ['a1']);
  assert.deepEqual([rows.held.size, rows.items.get('a1').status, rows.items.get('a1').version], [0, 'completed', 3]);
});

test('items_come_and_go_in_a_claim', () => {
  const rows = claimed();
  rows.apply({ ...base, seq: 4, type: 'item_added', claim, items: ['a2'], token: 4 });
  assert.deepEqual(rows.claims.get(claim).items, ['a1', 'a2']);
  assert.equal(rows.held.get('a2').token, 4);
  rows.apply({ ...base, seq: 5, type: 'item_removed', claim, items: ['a1'] });
  assert.deepEqual([...rows.held.keys()], ['a2']);
});

test('renewals_phases_and_pauses_move_the_deadline', () => {
  const rows = claimed();
  const later = '2026-01-02T03:09:05.000Z';
  rows.apply({ ...base, seq: 4, type: 'claim_renewed', claim, expires_at: later });
  assert.equal(rows.held.get('a1').expires_at, later);
  rows.apply({ ...base, seq: 5, type: 'claim_advanced', claim, phase: 'checkout', expires_at: until });
  assert.deepEqual([rows.held.get('a1').phase, rows.held.get('a1').expires_at], ['checkout', until]);
  rows.apply({ ...base, seq: 6, type: 'resumed', shift_ms: 60_000 });
  assert.equal(rows.held.get('a1').expires_at, '2026-01-02T03:08:05.000Z');
});

test('what_is_not_known_changes_nothing', () => {
  assert.deepEqual(claimed().apply({ ...base, seq: 9, type: 'something_new' }), []);
});
