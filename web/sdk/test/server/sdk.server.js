// The SDK and the server as they really are, over each way of hearing. `npm run test:server`.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Refused, Tenure } from '../../tenure.js';
import { runServer } from './run.js';

const WAYS = ['socket', 'sse', 'poll'];
let server;
let admin;
let keys;
const open = [];

before(async () => {
  server = await runServer();
  admin = tenure(server.adminKey);
  keys = {};
  for (const [id, name, role] of [['eva', 'Eva', 'editor'], ['leo', 'Leo', 'editor'], ['max', 'Max', 'admin']]) {
    const body = { name: id, subject: { id, name }, role };
    keys[id] = (await admin.http.ask('POST', '/v1/keys', { body })).body.key;
  }
});
after(async () => {
  for (const one of open) one.close();
  await server.close();
});

function tenure(key, more) {
  const made = new Tenure({ base: server.base, key, pollMs: 100, ...more });
  open.push(made);
  return made;
}

/** A collection of tasks, ready. */
async function tasks(name, items = ['a1', 'a2']) {
  await admin.http.ask('PUT', `/v1/collections/task/${name}`, { body: {} });
  for (const item of items) {
    await admin.http.ask('PUT', `/v1/collections/task/${name}/items/${item}`, { body: { status: 'ready' } });
  }
  return `task/${name}`;
}

/** The next event of that name, within three seconds. */
function next(emitter, name, wanted = () => true) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => { stop(); reject(new Error(`no ${name} came`)); }, 3_000);
    const stop = emitter.on(name, (detail) => {
      if (!wanted(detail)) return;
      clearTimeout(timer);
      stop();
      resolve(detail);
    });
  });
}

test('t06_of_two_the_second_learns_who_was_first', async () => {
  const collection = await tasks('first');
  const claim = await tenure(keys.eva).claim(collection, 'a1');
  assert.equal(claim.state, 'held');
  assert.ok(claim.leftMs > 170_000 && claim.leftMs <= 180_000, String(claim.leftMs));
  await assert.rejects(tenure(keys.leo).claim(collection, 'a1'), (error) => {
    assert.ok(error instanceof Refused);
    assert.deepEqual([error.code, error.problem.items[0].holder.name], ['held', 'Eva']);
    return true;
  });
  await claim.release();
  const taken = await tenure(keys.leo).claim(collection, 'a1');
  assert.ok(taken.token > claim.token);
  await taken.release();
});

test('j04_a_job_delivered_twice_to_one_process_is_claimed_once', async () => {
  const worker = tenure(keys.eva);
  const claim = await worker.claim('lock/twice', 'job');
  await assert.rejects(worker.claim('lock/twice', 'job'), (error) => error instanceof Refused && error.code === 'held');
  await claim.release();
});

test('t08_a_heartbeat_renews_and_an_idle_one_does_not', async () => {
  const collection = await tasks('beats');
  const claim = await tenure(keys.eva).claim(collection, 'a1');
  const [renewed] = await Promise.all([next(claim, 'renewed'), claim.check()]);
  assert.ok(renewed.leftMs > 179_000);
  claim.around.activity = { idleMs: () => 130_000 };
  const [idle] = await Promise.all([next(claim, 'idle'), claim.check()]);
  assert.equal(idle.why, 'inactive');
  await claim.release();
});

for (const way of WAYS) {
  test(`t17_a_takeover_turns_the_other_read_only_within_a_second_over_${way}`, async () => {
    const collection = await tasks(`taken-${way}`);
    const eva = tenure(keys.eva, { ways: [way] });
    const claim = await eva.claim(collection, 'a1');
    await eva.watches.get(collection).loaded();
    const lost = next(claim, 'lost');
    const max = tenure(keys.max);
    const startedAt = performance.now();
    await max.http.ask('POST', `/v1/collections/${collection}/items/a1/force-claim`, { body: { reason: 'urgent order' } });
    const { reason, holder, note } = await lost;
    assert.ok(performance.now() - startedAt < 1_000);
    assert.deepEqual([reason, holder.name, note], ['taken_over', 'Max', 'urgent order']);
    assert.ok(!claim.canAct);
  });

  test(`t18_a_request_to_let_go_reaches_the_holder_over_${way}`, async () => {
    const collection = await tasks(`nudge-${way}`);
    const eva = tenure(keys.eva, { ways: [way] });
    const claim = await eva.claim(collection, 'a1');
    await eva.watches.get(collection).loaded();
    const nudged = next(claim, 'nudged');
    await tenure(keys.leo).nudge(claim.id, 'may I?');
    const { from, message } = await nudged;
    assert.deepEqual([from.name, message], ['Leo', 'may I?']);
    await claim.release();
  });

  test(`e02_the_rows_add_up_to_what_the_server_has_over_${way}`, async () => {
    const collection = await tasks(`rows-${way}`);
    const { watch, close } = tenure(keys.leo, { ways: [way] }).watch(collection);
    await watch.loaded();
    const eva = tenure(keys.eva);
    const claim = await eva.claim(collection, 'a1');
    await eva.http.ask('PUT', `/v1/collections/${collection}/items/a1`, {
      body: { data: { n: 1 }, claim_id: claim.id, token: claim.token },
    });
    const done = next(watch, 'event', ({ type }) => type === 'claim_completed');
    await claim.complete({ status: 'completed', data: { n: 2 } });
    await done;
    for (const id of ['a1', 'a2']) {
      const { claim: holding, collection: _, server_time: __, ...item } = await eva.item(collection, id);
      const { collection: ___, ...row } = watch.rows.items.get(id);
      assert.deepEqual(row, item);
      assert.equal(watch.rows.held.has(id), holding !== null);
    }
    close();
  });
}

for (const way of WAYS) {
  test(`r14_a_restart_loses_no_event_over_${way}`, async () => {
    const collection = await tasks(`restart-${way}`);
    const { watch, close } = tenure(keys.leo, { ways: [way] }).watch(collection);
    await watch.loaded();
    const seqs = [];
    let snapshots = 0;
    watch.on('event', ({ seq }) => seqs.push(seq));
    watch.on('snapshot', () => { snapshots += 1; });
    const from = watch.stream.cursor.seq;
    const path = `/v1/collections/${collection}/items`;
    await admin.http.ask('PUT', `${path}/b1`, { body: { status: 'ready' } });
    await server.stop();
    await server.start();
    await admin.http.ask('PUT', `${path}/b2`, { body: { status: 'ready' } });
    while (!watch.rows.items.has('b2')) await next(watch, 'change');
    assert.equal(snapshots, 0, 'it went on from its number');
    assert.deepEqual(seqs, seqs.map((_, index) => from + 1 + index));
    close();
  });
}

test('where_sockets_are_blocked_it_falls_back_and_says_how_old_things_are', async () => {
  const collection = await tasks('blocked');
  class Blocked extends EventTarget {
    static OPEN = 1;
    static CONNECTING = 0;
    readyState = 3;
    constructor() {
      super();
      setTimeout(() => this.onclose?.({ code: 1006 }), 1);
    }

    close() {}
  }
  const leo = tenure(keys.leo, { WebSocket: Blocked, ways: ['socket', 'poll'] });
  const { watch, close } = leo.watch(collection);
  await watch.loaded();
  assert.deepEqual(watch.status, { state: 'polling', way: 'poll' });
  assert.ok(watch.ageMs >= 0 && watch.ageMs < 1_000);
  close();
});

for (const way of WAYS) {
  for (const key of ['tnr_wrong', undefined]) {
    test(`whoever_is_not_known_is_told_so_and_does_not_knock_for_ever_over_${way}_with_${key ?? 'no_key'}`, async () => {
      const { watch, close } = tenure(key, { ways: [way] }).watch('task/first');
      await assert.rejects(watch.loaded(), (error) => error instanceof Refused && error.status === 401 && error.code === 'unauthenticated');
      const { state, code, reason } = watch.status;
      assert.deepEqual([state, code], ['refused', 'unauthenticated']);
      assert.ok(reason.includes(' '), reason);
      close();
    });
  }
}

test('i05_a_grant_whose_answer_was_lost_is_counted_from_when_it_was_first_asked_for', async () => {
  const collection = 'lock/lossy';
  let passed = 0;
  const replayed = [];
  const lossy = async (url, init) => {
    const answer = await fetch(url, init);
    if (init.method !== 'POST' || !url.endsWith('/v1/claims')) return answer;
    replayed.push(answer.headers.get('idempotency-replayed'));
    if (replayed.length > 1) return answer;
    // So long it takes this side to see that nothing comes.
    passed += 9_000;
    throw new TypeError('cut');
  };
  const eva = tenure(keys.eva, { fetch: lossy });
  Object.assign(eva.own, { steady: () => performance.now() + passed, wall: () => Date.now() + passed });
  const claim = await eva.claim(collection, 'a1', { ttlMs: 10_000, follow: false });
  try {
    assert.deepEqual(replayed, [null, 'true']);
    assert.ok(!eva.clock.isKnown, 'what the time was is not what it is');
    passed += 1_000;
    assert.ok(!claim.canAct, 'ten seconds have passed since it was asked for');
  } finally {
    await claim.release();
  }
});

test('a_collection_that_is_not_there_yet_is_followed_from_its_first_claim_on', async () => {
  for (const way of WAYS) {
    const eva = tenure(keys.eva, { ways: [way] });
    const { watch, close } = eva.watch(`lock/later-${way}`);
    const claim = await eva.claim(`lock/later-${way}`, 'a1');
    while (!watch.rows.held.has('a1')) await next(watch, 'change');
    assert.equal(watch.rows.held.get('a1').session, claim.row.session, 'by which a tab knows its own');
    await claim.release();
    close();
  }
});

test('r07_a_raffle_claim_walks_through_its_phases', async () => {
  await admin.http.ask('PUT', '/v1/collections/raffle/sdk', { body: {} });
  for (const item of ['041', '042', '043']) {
    await admin.http.ask('PUT', `/v1/collections/raffle/sdk/items/${item}`, { body: { status: 'available' } });
  }
  const eva = tenure(keys.eva);
  const claim = await eva.claim('raffle/sdk', ['041', '042'], { releaseOnLeave: false });
  await claim.addItem('043');
  await claim.removeItem('041');
  assert.deepEqual([...claim.items].sort(), ['042', '043']);
  const [advanced] = await Promise.all([next(claim, 'advanced'), claim.advance()]);
  assert.equal(advanced.phase, 'checkout');
  await claim.check();
  assert.equal(claim.state, 'held');
  assert.ok(claim.leftMs > 290_000 && claim.leftMs <= 300_000);
  await claim.cancel();
  assert.equal(claim.state, 'ended');
});

test('e05_a_claim_that_was_waited_for_can_be_counted_on', async () => {
  const collection = await tasks('waits');
  const first = await tenure(keys.eva).claim(collection, 'a1');
  const waiting = tenure(keys.leo).claim(collection, 'a1', { waitMs: 3_000 });
  setTimeout(() => first.release(), 300);
  const second = await waiting;
  await second.ensure();
  assert.ok(second.canAct);
  await second.release();
});
