// Connections that come and go; no event is missed, none is told twice.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { now, useClock } from '../../elements/clock.js';
import { heardAt } from '../../pages/lib/shell.js';
import { ServerClock } from '../src/clock.js';
import { Refused } from '../src/errors.js';
import { Http } from '../src/http.js';
import { Stream } from '../src/stream.js';
import { pollWay, socketClosed, socketWay, sseWay } from '../src/transports.js';
import { Watch } from '../src/watch.js';
import { Tenure } from '../tenure.js';
import { settle, Time } from './helpers/world.js';

/** A stream over ways that the test plays. */
function make(names = ['socket', 'sse', 'poll']) {
  const time = new Time();
  const opened = [];
  const way = (name) => (cursor, ears) => {
    const connection = { name, cursor, ears, isClosed: false, probes: 0 };
    opened.push(connection);
    return { close: () => { connection.isClosed = true; }, probe: () => { connection.probes += 1; } };
  };
  const ways = Object.fromEntries(names.map((name) => [name, way(name)]));
  const stream = new Stream({ ways, own: time, timers: time, random: () => 1 });
  const told = [];
  stream.on('event', (event) => told.push(event.seq));
  stream.on('snapshot', (snapshot) => told.push(`snapshot ${snapshot.seq}`));
  const last = () => opened.at(-1);
  const event = (seq, epoch = 1) => last().ears.event({ seq, type: 'x' }, epoch);
  const snapshot = (seq, epoch = 1) => last().ears.snapshot({ epoch, seq, items: [], claims: [] });
  stream.start();
  return { time, stream, opened, last, told, event, snapshot };
}

test('r14_it_comes_back_with_its_number_and_misses_nothing', async () => {
  const { time, stream, opened, last, told, event, snapshot } = make();
  snapshot(5);
  event(6);
  event(7);
  assert.deepEqual(stream.status, { state: 'live', way: 'socket' });
  last().ears.closed({});
  assert.equal(stream.status.state, 'waiting');
  await time.pass(500);
  assert.equal(opened.length, 2);
  assert.deepEqual(last().cursor, { epoch: 1, seq: 7 });
  event(7);
  event(8);
  assert.deepEqual(told, ['snapshot 5', 6, 7, 8]);
});

test('r14_the_pauses_grow_and_are_forgotten_once_it_works', async () => {
  const { time, stream, last, snapshot } = make(['socket']);
  const pauses = [];
  for (let index = 0; index < 4; index += 1) {
    last().ears.closed({});
    pauses.push(stream.status.retryInMs);
    await time.pass(stream.status.retryInMs);
  }
  assert.deepEqual(pauses, [500, 1_000, 2_000, 4_000]);
  snapshot(1);
  last().ears.closed({});
  assert.equal(stream.status.retryInMs, 500);
});

test('a_hole_is_filled_by_asking_again_and_then_by_a_snapshot', async () => {
  const { time, opened, last, told, event, snapshot } = make();
  snapshot(5);
  event(8);
  await time.pass(0);
  assert.deepEqual(last().cursor, { epoch: 1, seq: 5 });
  assert.ok(opened[0].isClosed);
  event(8);
  await time.pass(0);
  assert.equal(last().cursor, undefined);
  snapshot(9);
  event(10);
  assert.deepEqual(told, ['snapshot 5', 'snapshot 9', 10]);
});

test('a_resync_drops_the_number', () => {
  const { last, told, event, snapshot } = make();
  snapshot(5);
  last().ears.resync();
  snapshot(3, 2);
  event(4, 2);
  assert.deepEqual(told, ['snapshot 5', 'snapshot 3', 4]);
});

test('an_event_of_another_epoch_is_a_hole', async () => {
  const { time, last, told, event, snapshot } = make();
  snapshot(5);
  event(6, 2);
  await time.pass(0);
  assert.deepEqual(last().cursor, { epoch: 1, seq: 5 });
  assert.deepEqual(told, ['snapshot 5']);
});

test('t23_where_sockets_are_blocked_it_goes_down_to_polling_and_back_up_later', async () => {
  const { time, stream, last, snapshot } = make();
  for (const way of ['socket', 'socket', 'sse', 'sse']) {
    assert.equal(last().name, way);
    last().ears.closed({});
    await time.pass(stream.status.retryInMs);
  }
  assert.equal(last().name, 'poll');
  snapshot(1);
  assert.deepEqual(stream.status, { state: 'polling', way: 'poll' });
  await time.pass(60_000);
  assert.equal(last().name, 'socket');
});

test('a_stream_that_a_proxy_holds_back_has_failed', async () => {
  const { time, last, stream } = make();
  await time.pass(10_000);
  assert.equal(stream.status.state, 'waiting');
  await time.pass(500);
  await time.pass(10_000);
  assert.equal(last().name, 'sse');
});

test('whoever_is_not_let_in_does_not_knock_again', async () => {
  const { time, stream, opened, last } = make();
  last().ears.closed({ refused: new Refused(401, { code: 'unauthenticated', detail: 'sign in first' }) });
  assert.deepEqual(stream.status, { state: 'refused', way: 'socket', code: 'unauthenticated', reason: 'sign in first' });
  await time.pass(600_000);
  assert.equal(opened.length, 1);
  stream.start();
  assert.equal(opened.length, 2);
});

test('whoever_waits_for_the_rows_is_told_that_they_will_not_come', async () => {
  const { time, stream, last, snapshot } = make();
  const watch = new Watch('task/t1', stream, time);
  const early = watch.loaded();
  const refused = new Refused(403, { code: 'forbidden', detail: 'your role may not do this' });
  last().ears.closed({ refused });
  await assert.rejects(early, refused);
  await assert.rejects(watch.loaded(), refused, 'who asks later, too');
  stream.start();
  const again = watch.loaded();
  snapshot(1);
  await again;
  last().ears.closed({ refused });
  await watch.loaded();
});

test('a_socket_that_is_closed_to_us_says_why', () => {
  const time = new Time();
  const http = new Http({ base: 'http://x', own: time, clock: new ServerClock(time), timers: time, fetch: () => {} });
  const why = (code, reason) => {
    let made;
    let told;
    class Socket { static CONNECTING = 0; constructor() { made = this; } close() {} }
    socketWay(http, 'lock/demo', Socket)(undefined, { closed: (closed) => { told = closed; } });
    made.onclose({ code, reason });
    return told;
  };
  for (const [code, reason, status, word] of [
    [4401, '{"reason":"no_hello"}', 401, 'unauthenticated'],
    [4401, '{"reason":"unauthenticated"}', 401, 'unauthenticated'],
    [4401, '{"reason":"revoked","cursor":7,"epoch":1}', 401, 'unauthenticated'],
    [4403, '{"reason":"forbidden"}', 403, 'forbidden'],
    [4403, '{"reason":"session_only"}', 403, 'session_only'],
    [4401, '', 401, 'unauthenticated'],
    [4403, 'a proxy’s words', 403, 'forbidden'],
  ]) {
    const { refused } = why(code, reason);
    assert.ok(refused instanceof Refused, reason);
    assert.deepEqual([refused.status, refused.code], [status, word], reason);
    assert.ok(refused.message.includes(' '), 'in words');
  }
  assert.equal(why(1006, '').refused, undefined);
  assert.deepEqual(why(1012, '{"reason":"stopping"}'), { refused: undefined, soon: true });
});

test('an_event_stream_that_is_refused_says_why', async () => {
  const time = new Time();
  const answers = [
    new Response('{"code":"unauthenticated","detail":"sign in first"}', { status: 401 }),
    new Response('<h1>Forbidden</h1>', { status: 403 }),
    new Response('', { status: 404 }),
  ];
  const http = new Http({ base: 'http://x', own: time, clock: new ServerClock(time), timers: time, fetch: async () => answers.shift() });
  const told = [];
  for (let index = 0; index < 3; index += 1) {
    sseWay(http, 'lock/demo')(undefined, { closed: (why) => told.push(why) });
    await settle();
    await settle();
  }
  assert.deepEqual(told.map(({ refused }) => refused && [refused.code, refused.message]),
    [['unauthenticated', 'sign in first'], ['http_403', 'the server answered 403'], undefined]);
  assert.ok(told[2].unsupported);
});

test('what_is_not_there_yet_is_no_fault_of_the_way_and_says_so_while_it_waits', async () => {
  const { time, stream, opened, last } = make();
  const because = new Refused(404, { code: 'not_found', detail: 'there is no collection lock/demo' });
  for (let index = 0; index < 5; index += 1) {
    last().ears.closed({ because });
    const { state, code, reason, retryInMs } = stream.status;
    assert.deepEqual([state, code, reason], ['waiting', 'not_found', 'there is no collection lock/demo']);
    await time.pass(retryInMs);
  }
  assert.deepEqual(opened.map(({ name }) => name), Array(6).fill('socket'));
  last().ears.closed({});
  assert.equal(stream.status.code, undefined, 'what was said once is not said for ever');
});

test('an_event_stream_of_what_is_not_there_is_supported_and_so_are_polls', async () => {
  const time = new Time();
  const answer = () => new Response('{"code":"not_found","detail":"there is no collection lock/demo"}', { status: 404 });
  const http = new Http({ base: 'http://x', own: time, clock: new ServerClock(time), timers: time, fetch: async () => answer() });
  for (const way of [sseWay(http, 'lock/demo'), pollWay(http, 'lock/demo', { everyMs: 5_000, isVisible: () => true })]) {
    let told;
    way(undefined, { closed: (why) => { told = why; } });
    await settle();
    await settle();
    assert.ok(!told.unsupported);
    assert.equal(told.refused, undefined, 'that may change');
    assert.deepEqual([told.because.code, told.because.message], ['not_found', 'there is no collection lock/demo']);
  }
});

test('a_socket_that_is_closed_for_another_reason_says_it_and_comes_back', () => {
  for (const [code, reason] of /** @type {[number, string][]} */ ([[4429, 'rate_limited'], [4503, 'away']])) {
    const { refused, because } = socketClosed(code, JSON.stringify({ reason }));
    assert.equal(refused, undefined);
    assert.deepEqual([because.status, because.code], [code - 4_000, reason]);
    assert.ok(because.message.includes(' '), 'in words');
  }
});

test('a_key_that_does_not_come_is_a_socket_that_failed', async () => {
  const time = new Time();
  const http = new Http({
    base: 'http://x', own: time, clock: new ServerClock(time), timers: time, fetch: () => {}, key: async () => { throw new TypeError('cut'); },
  });
  let made;
  let isClosed = false;
  class Socket { static CONNECTING = 0; constructor() { made = this; } close() { isClosed = true; } }
  const told = [];
  socketWay(http, 'lock/demo', Socket)(undefined, { closed: (why) => told.push(why) });
  await made.onopen();
  assert.deepEqual([told, isClosed], [[{}], true]);
  assert.equal(time.timers.size, 0);
});

test('a_claim_that_is_granted_wakes_the_stream_that_waits_for_its_collection', async () => {
  let isThere = false;
  let asked = 0;
  const row = { id: 'c', items: ['a1'], expires_at: '2030-01-01T00:00:00Z', expires_in_ms: 60_000, token: 1 };
  const fetch = async (_, { method, signal }) => {
    if (method === 'POST') {
      isThere = true;
      return new Response(JSON.stringify(row));
    }
    asked += 1;
    if (!isThere) return new Response('{"code":"not_found"}', { status: 404 });
    return new Promise((_, reject) => { signal.addEventListener('abort', () => reject(signal.reason)); });
  };
  const tenure = new Tenure({ base: 'http://x', fetch, ways: ['sse'] });
  const { watch } = tenure.watch('lock/new');
  while (watch.status.state !== 'waiting') await settle();
  const claim = await tenure.claim('lock/new', 'a1');
  try {
    assert.equal(watch.status.state, 'opening');
    await settle();
    assert.equal(asked, 2);
  } finally {
    claim.close();
    tenure.close();
  }
});

test('a_server_that_restarts_is_back_within_a_second', () => {
  const { stream, last, snapshot } = make();
  snapshot(1);
  last().ears.closed({ soon: true });
  assert.ok(stream.status.retryInMs <= 1_000);
});

test('a_network_that_returns_ends_the_waiting', async () => {
  const { stream, opened, last } = make();
  last().ears.closed({});
  stream.nudge();
  assert.equal(opened.length, 2);
  last().ears.alive();
  stream.nudge();
  assert.equal(last().probes, 1);
});

test('a_connection_that_was_given_up_is_not_heard', async () => {
  const { opened, told, stream } = make();
  stream.stop();
  opened[0].ears.snapshot({ epoch: 1, seq: 9, items: [], claims: [] });
  opened[0].ears.closed({});
  assert.deepEqual(told, []);
  assert.equal(stream.status.state, 'stopped');
});

test('t23_each_poll_makes_what_is_shown_young_again_whatever_the_pages_clock_says', async () => {
  const { time, stream, last, snapshot, event } = make(['poll']);
  const watch = new Watch('task/t1', stream, time);
  // The server is ten minutes ahead of this machine.
  useClock({ now: () => Date.now() + 600_000 + time.now() });
  let drawn;
  watch.on('status', () => { drawn = watch.ageMs === undefined ? undefined : heardAt(watch.ageMs); });
  const shown = () => Math.floor((now() - Date.parse(drawn)) / 1_000);
  snapshot(1);
  await time.pass(5_000);
  assert.equal(shown(), 5);
  last().ears.alive();
  await time.pass(5_000);
  snapshot(2);
  await time.pass(2_000);
  assert.equal(shown(), 2);
  assert.equal(stream.status.state, 'polling');
  let count = 0;
  watch.on('status', () => { count += 1; });
  event(3);
  event(4);
  last().ears.alive();
  assert.equal(count, 1, 'once for an answer, not for each event in it');
});

test('a_live_stream_says_so_once', () => {
  const { stream, snapshot, event, last } = make();
  let count = 0;
  stream.on('status', () => { count += 1; });
  snapshot(1);
  event(2);
  last().ears.alive();
  assert.equal(count, 1);
});
