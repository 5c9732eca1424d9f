// What is outlined, saved one after the other, beside answers that come late.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Saving } from '../pages/labels/saving.js';
import { Refused, Unreachable } from '../sdk/tenure.js';

const content = (/** @type {number} */ x) => ({ geometry: { type: 'rectangle', x, y: 0, width: 10, height: 10 }, class_id: 'car' });

/** One annotation, on a server that answers a list when it is told to. */
function world() {
  let row = { id: 'a', version: 1, ...content(1) };
  /** @type {(() => void)[]} */
  const held = [];
  const place = {
    isHeld: false,
    get() {
      const answer = { annotations: [row], next: null };
      return place.isHeld ? new Promise((resolve) => { held.push(() => resolve(answer)); }) : Promise.resolve(answer);
    },
    async send(/** @type {string} */ _method, /** @type {string} */ _path, /** @type {any} */ { version, ...wanted }) {
      if (version !== row.version) throw new Refused(409, { code: 'conflict' });
      row = { ...row, ...wanted, version: version + 1 };
      return row;
    },
    answer: () => held.splice(0).forEach((give) => give()),
  };
  const asked = /** @type {any[]} */ ([]);
  const ask = async (/** @type {any[]} */ ...about) => { asked.push(about); return 'theirs'; };
  const saving = new Saving(/** @type {any} */ ({ place, path: '/images/i', token: () => 7, ask, annotations: [row] }));
  return { saving, place, asked, version: () => row.version };
}

test('l01_a_list_that_was_read_before_a_save_and_comes_after_it_is_not_taken', async () => {
  const { saving, place, asked, version } = world();
  saving.change('a', content(2), { version: 1, at: 1 });
  await saving.settled();
  place.isHeld = true;
  const reading = saving.reload(() => false);
  saving.change('a', content(3), { version: 2, at: performance.now() });
  await saving.settled();
  place.answer();
  await reading;
  assert.equal(saving.find('a')?.version, 3, 'and not the list’s');
  saving.undo();
  saving.undo();
  await saving.settled();
  assert.deepEqual(asked, [], 'nobody else was faster');
  assert.equal(version(), 5);
});

test('l01_what_others_did_is_taken', async () => {
  const { saving, place } = world();
  await place.send('PUT', '', { ...content(9), version: 1 });
  await saving.reload(() => false);
  assert.equal(saving.find('a')?.version, 2);
});

/** A server that can be cut off: before it hears a request, or before it is heard. */
function cutWorld() {
  /** @type {any[]} */
  let rows = [{ id: 'a', version: 1, ...content(1), author: { id: 'ana' }, updated_by: { id: 'ana' } }];
  /** @type {Map<string, any>} */
  const answered = new Map();
  const net = { cut: /** @type {'' | 'before' | 'after'} */ (''), token: 7 };
  const change = (/** @type {string} */ method, /** @type {string} */ path, /** @type {any} */ body = {}) => {
    const id = path.split('/').at(-1)?.split('?')[0];
    const token = method === 'DELETE' ? Number(/token=(\d+)/.exec(path)?.[1]) : body.token;
    if (token !== net.token) throw new Refused(409, { code: 'stale_token' });
    const { token: _, version, ...wanted } = body;
    if (method === 'POST') {
      const made = { id: `s${rows.length}`, version: 1, ...wanted };
      rows = [...rows, made];
      return made;
    }
    const there = rows.find((one) => one.id === id);
    if (!there) throw new Refused(404, { code: 'not_found' });
    if (method === 'DELETE') {
      rows = rows.filter((one) => one !== there);
      return undefined;
    }
    if (there.version !== version) throw new Refused(409, { code: 'conflict' });
    const changed = { ...there, ...wanted, version: version + 1 };
    rows = rows.map((one) => (one === there ? changed : one));
    return changed;
  };
  const place = {
    async get() {
      if (net.cut) throw new Unreachable('cut');
      return { annotations: rows, next: null };
    },
    async send(/** @type {string} */ method, /** @type {string} */ path, /** @type {any} */ body, /** @type {string} */ key) {
      if (net.cut === 'before') throw new Unreachable('cut');
      const known = method === 'POST' ? answered.get(key) : undefined;
      if (known) assert.deepEqual(body, known.body, 'a key goes with one request');
      const answer = known ? known.answer : change(method, path, body);
      if (method === 'POST') answered.set(key, { body, answer });
      if (net.cut === 'after') throw new Unreachable('cut');
      return answer;
    },
  };
  const asked = /** @type {any[]} */ ([]);
  const ask = async (/** @type {any[]} */ ...about) => { asked.push(about); return 'theirs'; };
  const mine = { token: 7 };
  const saving = new Saving(/** @type {any} */ ({ place, path: '/images/i', token: () => mine.token, ask, annotations: rows, me: { id: 'ana', name: 'Ana' } }));
  const failed = /** @type {any[]} */ ([]);
  saving.on('failed', ({ error }) => failed.push(error.code));
  const stalled = () => new Promise((resolve) => { const stop = saving.on('stalled', () => { stop(); resolve(undefined); }); });
  return { saving, net, mine, asked, failed, stalled, rows: () => rows, others: (/** @type {any[]} */ now) => { rows = now; } };
}

test('l07_what_is_drawn_is_shown_before_it_is_saved', async () => {
  const { saving } = cutWorld();
  const adding = saving.add(content(5));
  assert.deepEqual(saving.annotations.map(({ isUnsaved }) => Boolean(isUnsaved)), [false, true]);
  assert.equal(await adding, 's1');
  assert.deepEqual(saving.annotations.map(({ id, isUnsaved }) => [id, Boolean(isUnsaved)]), [['a', false], ['s1', false]]);
});

for (const cut of /** @type {const} */ (['before', 'after'])) {
  test(`l07_what_is_drawn_while_the_network_is_cut_is_kept_and_saved_once_${cut}_it_is_heard`, async () => {
    const { saving, net, failed, stalled, rows } = cutWorld();
    net.cut = cut;
    const waiting = stalled();
    void saving.add(content(5));
    await waiting;
    assert.equal(saving.unsaved, 1);
    assert.equal(saving.annotations.at(-1)?.isUnsaved, true, 'it is still there');
    assert.equal(saving.isStalled, true);
    await assert.rejects(saving.settled(), Unreachable);
    net.cut = '';
    saving.retry();
    await saving.settled();
    assert.equal(saving.unsaved, 0);
    assert.equal(rows().length, 2, 'once');
    assert.deepEqual(saving.annotations.map(({ id }) => id), ['a', 's1']);
    assert.deepEqual(failed, []);
  });

  test(`l07_a_change_while_the_network_is_cut_is_saved_once_${cut}_it_is_heard_and_nobody_is_asked`, async () => {
    const { saving, net, asked, failed, stalled, rows } = cutWorld();
    net.cut = cut;
    const waiting = stalled();
    saving.change('a', content(5), { version: 1, at: 1 });
    await waiting;
    assert.equal(saving.find('a')?.geometry.x, 5);
    net.cut = '';
    saving.retry();
    await saving.settled();
    assert.deepEqual([rows()[0].geometry.x, rows()[0].version], [5, 2]);
    assert.deepEqual(asked, []);
    assert.deepEqual(failed, []);
    saving.undo();
    await saving.settled();
    assert.equal(rows()[0].geometry.x, 1, 'and can be taken back');
  });

  test(`l07_a_deletion_while_the_network_is_cut_is_done_once_${cut}_it_is_heard`, async () => {
    const { saving, net, failed, stalled, rows } = cutWorld();
    net.cut = cut;
    const waiting = stalled();
    const removing = saving.remove('a');
    await waiting;
    assert.equal(saving.find('a')?.isUnsaved, true);
    net.cut = '';
    saving.retry();
    assert.equal(await removing, true);
    assert.deepEqual(rows(), []);
    assert.deepEqual(failed, []);
  });
}

test('l07_what_was_not_saved_before_the_lock_was_lost_is_seen_and_saved_with_the_next_lock', async () => {
  const { saving, net, mine, failed, stalled, rows } = cutWorld();
  net.cut = 'before';
  let waiting = stalled();
  void saving.add(content(5));
  void saving.add(content(6));
  await waiting;
  net.cut = '';
  net.token = 8;
  waiting = stalled();
  saving.retry();
  await waiting;
  assert.equal(saving.unsaved, 2, 'refused for the lock, and kept');
  assert.deepEqual(failed, []);
  mine.token = 8;
  saving.retry();
  await saving.settled();
  assert.deepEqual(rows().map(({ geometry }) => geometry.x), [1, 5, 6]);
});

test('l07_what_was_saved_unheard_before_the_lock_was_lost_is_not_saved_again', async () => {
  const { saving, net, mine, stalled, rows } = cutWorld();
  net.cut = 'after';
  const waiting = stalled();
  void saving.add(content(5));
  await waiting;
  net.cut = '';
  net.token = 9;
  mine.token = 9;
  saving.retry();
  await saving.settled();
  assert.equal(rows().length, 2);
});

test('l08_what_others_did_while_it_was_kept_is_asked_about', async () => {
  const { saving, net, asked, stalled, rows, others } = cutWorld();
  net.cut = 'before';
  const waiting = stalled();
  saving.change('a', content(5), { version: 1, at: performance.now() });
  await waiting;
  net.cut = '';
  others([{ ...rows()[0], ...content(9), version: 2 }]);
  await saving.reload(() => false);
  assert.equal(saving.find('a')?.geometry.x, 5, 'mine is what is seen');
  saving.retry();
  await saving.settled();
  assert.equal(asked.length, 1);
  assert.equal(rows()[0].geometry.x, 9);
});

test('a_refusal_is_told_and_not_kept', async () => {
  const { saving, net, failed } = cutWorld();
  net.token = 8;
  await saving.add(content(5));
  assert.deepEqual(failed, ['stale_token']);
  assert.equal(saving.annotations.length, 1);
  assert.equal(saving.isStalled, false);
});
