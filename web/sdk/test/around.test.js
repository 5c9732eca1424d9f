// Activity, tabs, requests: what a claim leans on.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Activity } from '../src/activity.js';
import { ServerClock } from '../src/clock.js';
import { collectionPath, Http } from '../src/http.js';
import { Page } from '../src/page.js';
import { Tabs, tabSession } from '../src/tabs.js';
import { channels, settle, Time } from './helpers/world.js';

test('t09_only_real_input_counts', () => {
  const time = new Time();
  const target = new EventTarget();
  const activity = new Activity({ own: time, target });
  time.at += 60_000;
  target.dispatchEvent(new Event('keydown'));
  assert.equal(activity.idleMs(), 60_000, 'a script made it up');
  activity.note();
  assert.equal(activity.idleMs(), 0);
});

test('who_is_active_in_one_tab_is_active_in_all', () => {
  const open = channels();
  const time = new Time();
  const [here, there] = [new Activity({ own: time, channel: open() }), new Activity({ own: time, channel: open() })];
  time.at += 90_000;
  here.note();
  assert.equal(there.idleMs(), 0);
  time.at += 1_000;
  here.note();
  assert.equal(there.idleMs(), 1_000, 'not every move is told');
});

test('a_tab_that_died_is_forgotten_after_a_while', () => {
  const open = channels();
  const time = new Time();
  const [first, second] = [1, 2].map((tab) => new Tabs({ own: time, channel: open(), tab: String(tab) }));
  first.use('c', 180_000);
  second.use('c', 180_000);
  assert.ok(first.isUsedElsewhere('c'), 'by the newcomer');
  assert.ok(second.isUsedElsewhere('c'), 'by the one who was there');
  time.at += 180_001;
  assert.ok(!second.isUsedElsewhere('c'));
});

test('r03_a_reload_keeps_the_session_and_a_duplicate_gets_its_own', () => {
  const map = new Map();
  const storage = { getItem: (k) => map.get(k) ?? null, setItem: (k, v) => map.set(k, v), removeItem: (k) => map.delete(k) };
  let count = 0;
  const open = () => {
    const page = new Page();
    return { page, session: tabSession({ storage, page, make: () => `s${(count += 1)}` }) };
  };
  const first = open();
  assert.equal(open().session, 's2', 'a duplicate, while the first lives');
  first.page.emit('leave', {});
  assert.equal(open().session, 's1', 'the reloaded page');
});

/** An http whose fetch the test answers. */
function makeHttp(answers, more = {}) {
  const time = new Time();
  const seen = [];
  const fetch = async (url, init) => {
    seen.push({ url, ...init });
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    time.at += answer.took ?? 0;
    return new Response(answer.body === undefined ? null : JSON.stringify(answer.body), { status: answer.status ?? 200 });
  };
  const clock = new ServerClock(time);
  return { time, seen, clock, http: new Http({ base: 'http://x', own: time, clock, timers: time, fetch, random: () => 0, ...more }) };
}

test('an_answer_tells_the_servers_time_and_when_it_was_asked', async () => {
  const { http, clock, time } = makeHttp([{ took: 100, body: { server_time: '2026-01-01T00:00:00.000Z' } }]);
  const { sentAt, receivedAt } = await http.ask('GET', '/v1/x');
  assert.deepEqual([sentAt, receivedAt], [1_000, 1_100]);
  assert.equal(clock.now(), Date.parse('2026-01-01T00:00:00.000Z') + 50);
  assert.equal(time.timers.size, 0, 'no timer is left behind');
});

test('a_refusal_is_typed_and_not_repeated', async () => {
  const problem = { code: 'held', detail: 'a1 is held by Ana', items: [{ item: 'a1' }], retry_after: 3 };
  const { http, seen } = makeHttp([{ status: 409, body: problem }]);
  await assert.rejects(http.ask('POST', '/v1/claims', { body: {}, tries: 3 }), (error) => {
    assert.deepEqual([error.code, error.status, error.retryAfterMs, error.problem.items.length], ['held', 409, 3_000, 1]);
    return true;
  });
  assert.equal(seen.length, 1);
});

test('e04_what_got_no_answer_is_repeated_with_the_same_key', async () => {
  const { http, seen, time } = makeHttp([new TypeError('cut'), { status: 503, body: { code: 'away' } }, { body: { ok: 1 } }]);
  const asked = http.ask('POST', '/v1/claims', { body: {}, tries: 3, idempotencyKey: 'k' });
  await time.pass(5_000);
  assert.deepEqual((await asked).body, { ok: 1 });
  assert.deepEqual(seen.map(({ headers }) => headers['idempotency-key']), ['k', 'k', 'k']);
});

test('a_beacon_outlives_its_page_and_says_who', () => {
  const { http, seen } = makeHttp([{}], { key: () => 'secret' });
  http.beacon('DELETE', '/v1/claims/a');
  assert.equal(seen[0].keepalive, true);
  assert.equal(seen[0].headers.authorization, 'Bearer secret');
  assert.equal(seen[0].headers['x-tenure-csrf'], '1');
});

test('t14_a_key_that_has_to_be_fetched_speaks_for_the_page_that_is_left_as_it_last_came', async () => {
  let asked = 0;
  const { http, seen } = makeHttp([{}, {}], { key: async () => `token-${(asked += 1)}` });
  await http.ask('POST', '/v1/claims/a/heartbeat');
  http.beacon('DELETE', '/v1/claims/a');
  assert.deepEqual(seen.map(({ method }) => method), ['POST', 'DELETE']);
  assert.equal(seen[1].headers.authorization, 'Bearer token-1');
  assert.equal(asked, 1, 'nothing is fetched that nobody would wait for');
});

test('a_key_at_hand_is_asked_for_anew_by_a_beacon', async () => {
  let key = 'first';
  const { http, seen } = makeHttp([{}, {}], { key: () => key });
  await http.ask('POST', '/v1/claims/a/heartbeat');
  key = 'second';
  http.beacon('DELETE', '/v1/claims/a');
  assert.equal(seen[1].headers.authorization, 'Bearer second');
});

test('a_beacon_whose_key_never_came_is_silent', async () => {
  const { http, seen } = makeHttp([], { key: async () => { throw new TypeError('cut'); } });
  http.beacon('DELETE', '/v1/claims/a');
  await settle();
  assert.deepEqual(seen, []);
});

test('names_are_escaped_in_paths', () => {
  assert.equal(collectionPath('task/a b'), '/v1/collections/task/a%20b');
});
