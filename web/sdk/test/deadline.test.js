// I5: what this side takes for its deadline is never later than the server's, whatever becomes of answers.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { OwnClock, safeDeadline, ServerClock } from '../src/clock.js';
import { Http } from '../src/http.js';
import { makeWorld, refused, settle, Time, unreachable } from './helpers/world.js';

const ROW = { id: 'task~t1~3', items: ['a1'], token: 3, phase: 'checkout' };
const DAY_MS = 86_400_000;

/** A server that keeps its answers by their keys, over a network that loses the first so many of them. */
function makeServer({ lost = 0, tookMs = 0, key } = {}) {
  const time = new Time();
  const clock = new ServerClock(time);
  const aheadMs = 1_000_000;
  const kept = new Map();
  let answered = 0;
  const fetch = async (_, { headers }) => {
    const key = headers['idempotency-key'];
    const again = kept.get(key);
    const body = again ?? JSON.stringify({ server_time: time.now() + aheadMs, expires_in_ms: 10_000, decidedAt: time.now() });
    kept.set(key, body);
    time.at += tookMs;
    answered += 1;
    if (answered <= lost) throw new TypeError('cut');
    return new Response(body, { headers: again ? { 'idempotency-replayed': 'true' } : {} });
  };
  const http = new Http({ base: 'http://x', own: time, clock, timers: time, fetch, key: key?.(time), random: () => 1 });
  return { time, clock, http, aheadMs };
}

/** Asks for a claim, and gives back what came of it, however long that took. */
async function ask({ http, time }) {
  const asked = http.ask('POST', '/v1/claims', { body: {}, tries: 3, idempotencyKey: 'k' });
  await time.pass(30_000);
  return asked;
}

test('i05_after_a_lost_answer_time_counts_from_before_the_first_try', async () => {
  for (const lost of [0, 1, 2]) {
    const server = makeServer({ lost, tookMs: 9_000 });
    const { body, sentAt } = await ask(server);
    const serversEnd = body.decidedAt + body.expires_in_ms;
    assert.ok(safeDeadline(sentAt, body.expires_in_ms) < serversEnd, `${lost} lost: ${sentAt} for ${body.decidedAt}`);
  }
});

test('i05_a_repeated_answer_says_nothing_of_what_time_it_is', async () => {
  const server = makeServer({ lost: 1, tookMs: 9_000 });
  await ask(server);
  assert.ok(!server.clock.isKnown);
  await server.http.ask('GET', '/v1/x');
  assert.equal(server.clock.now(), server.time.now() + server.aheadMs - 4_500, 'half of the way there and back');
});

test('the_servers_time_is_measured_by_the_try_that_was_answered', async () => {
  const time = new Time();
  const clock = new ServerClock(time);
  const answers = [() => { throw new TypeError('cut'); }, () => new Response(`{"server_time":${time.now() + 500}}`)];
  const http = new Http({ base: 'http://x', own: time, clock, timers: time, fetch: async () => answers.shift()(), random: () => 1 });
  const asked = http.ask('GET', '/v1/x', { tries: 2 });
  await time.pass(300);
  await asked;
  assert.equal(clock.now(), time.now() + 500);
});

test('i05_the_time_that_a_key_takes_to_come_and_a_body_to_arrive_is_lost_not_won', async () => {
  const server = makeServer({ key: (time) => async () => { time.at += 4_000; return 'k'; } });
  const startedAt = server.time.now();
  const slow = server.http.fetch;
  server.http.fetch = async (...given) => {
    const response = await slow(...given);
    const text = response.text.bind(response);
    response.text = async () => { server.time.at += 5_000; return text(); };
    return response;
  };
  const { sentAt, receivedAt } = await server.http.ask('POST', '/v1/claims', { body: {}, idempotencyKey: 'k' });
  assert.deepEqual([sentAt, receivedAt], [startedAt, startedAt + 9_000]);
});

/** An answer that comes when the test says so. */
function later(answer) {
  const later = { ...answer, come: () => {} };
  later.wait = new Promise((resolve) => { later.come = resolve; });
  return later;
}

/** Who may act in the next ten minutes without another word from the server, and until when. */
async function actsUntil({ time, claim, server }) {
  server.always = unreachable();
  let until = claim.canAct ? time.now() : -1;
  for (let second = 0; second < 600; second += 1) {
    await time.pass(1_000);
    if (claim.canAct) until = time.now();
  }
  return until;
}

const PHASE = { options: { idleGuardMs: undefined } };

test('i05_a_heartbeat_answered_late_does_not_bring_back_the_time_of_the_phase_before', async () => {
  const world = makeWorld(PHASE);
  const { time, server, claim } = world;
  const beat = later({ expires_in_ms: 500_000 });
  server.script = [beat, { ...ROW, expires_in_ms: 60_000 }];
  claim.check();
  await settle();
  await claim.advance();
  const serversEnd = time.now() + 60_000;
  server.always = unreachable();
  beat.come();
  await settle();
  assert.ok(await actsUntil(world) < serversEnd);
});

test('i05_nobody_acts_on_the_old_time_while_the_answer_to_an_advance_is_out', async () => {
  const { time, server, claim } = makeWorld(PHASE);
  const advance = later({ ...ROW, expires_in_ms: 60_000 });
  const beat = later({ expires_in_ms: 500_000 });
  server.script = [advance, beat];
  const advanced = claim.advance();
  await settle();
  assert.ok(!claim.canAct);
  claim.check();
  await settle();
  beat.come();
  await settle();
  assert.ok(!claim.canAct, 'a heartbeat may have been answered before the phase changed');
  advance.come();
  await advanced;
  assert.ok(claim.canAct);
  assert.equal(claim.state, 'held');
  await time.pass(0);
  assert.equal(claim.expiresAt, new Date(1_000 + 60_000).toISOString());
});

test('i05_an_advance_without_an_answer_may_have_happened', async () => {
  const world = makeWorld(PHASE);
  world.server.always = unreachable();
  await assert.rejects(world.claim.advance(), { code: 'unreachable' });
  assert.ok(!world.claim.canAct);
  assert.equal(await actsUntil(world), -1);
  world.server.always = undefined;
  await world.claim.ensure();
  assert.ok(world.claim.canAct, 'the server has said how long');
});

test('i05_of_two_advances_the_second_is_waited_for_too', async () => {
  const { server, claim } = makeWorld(PHASE);
  const second = later({ ...ROW, expires_in_ms: 60_000 });
  server.script = [{ ...ROW, expires_in_ms: 500_000 }, second];
  const first = claim.advance();
  const both = claim.advance();
  await first;
  assert.ok(!claim.canAct);
  second.come();
  await both;
  assert.ok(claim.canAct);
});

test('an_advance_that_is_refused_leaves_the_claim_as_it_was', async () => {
  const { server, claim, names, time } = makeWorld(PHASE);
  await time.pass(0);
  server.script = [refused(409, { code: 'wrong_phase' })];
  await assert.rejects(claim.advance(), { code: 'wrong_phase' });
  await settle();
  assert.ok(claim.canAct);
  assert.ok(!names().includes('uncertain'));
});

test('i05_a_phase_that_another_tab_began_is_not_counted_on_before_the_server_has_said_how_long', async () => {
  const world = makeWorld(PHASE);
  world.server.always = unreachable();
  world.tell({ type: 'claim_advanced', from: 'editing', phase: 'checkout', expires_at: new Date(31_000).toISOString() });
  assert.ok(!world.claim.canAct);
  assert.equal(await actsUntil(world), -1);
});

test('amendments_go_one_after_the_other', async () => {
  const { server, claim, sent } = makeWorld(PHASE);
  const first = later({ ...ROW, items: ['a1', 'a2'] });
  server.script = [first, { ...ROW, items: ['a1', 'a2', 'a3'] }];
  const both = [claim.addItem('a2'), claim.addItem('a3')];
  await settle();
  assert.equal(sent.length, 1);
  first.come();
  await Promise.all(both);
  assert.deepEqual(claim.items, ['a1', 'a2', 'a3']);
  server.script = [refused(409, { code: 'held' }), { ...ROW, items: ['a1'] }];
  await assert.rejects(claim.addItem('a4'), { code: 'held' });
  await claim.removeItem('a2');
  assert.deepEqual(claim.items, ['a1'], 'one that was refused is in nobody’s way');
});

test('an_answer_to_what_was_asked_before_the_page_was_frozen_is_not_enough_to_act', async () => {
  const { time, page, server, claim, sent } = makeWorld(PHASE);
  const before = later({});
  const after = later({});
  server.script = [before, after];
  claim.check();
  await settle();
  time.at += 60_000;
  page.emit('back', { why: 'resume' });
  // The old answer lay in the browser all the while.
  before.come();
  await settle();
  assert.ok(!claim.canAct);
  assert.equal(sent.length, 2, 'asked anew');
  const ensured = claim.ensure();
  after.come();
  await ensured;
  assert.ok(claim.canAct);
});

test('a_machine_that_slept_is_noticed_by_whoever_asks_first_whether_to_act', () => {
  const time = new Time();
  const { claim } = makeWorld({ time });
  let isAsleep = true;
  time.now = () => {
    if (isAsleep) {
      isAsleep = false;
      time.sleep(30_000);
    }
    return time.at;
  };
  assert.ok(!claim.canAct);
});

test('i05_clocks_of_different_speeds_do_not_outrun_the_margin_of_a_long_time', () => {
  // As fast as a clock is corrected while it runs: half a second in a thousand.
  const fastest = 1 + 500e-6;
  for (const leftMs of [10_000, 180_000, 3_600_000, DAY_MS, 7 * DAY_MS]) {
    assert.ok(safeDeadline(0, leftMs) * fastest <= leftMs, String(leftMs));
  }
});

test('i05_many_short_sleeps_add_up', () => {
  const source = { steady: 0, wall: 1_000_000 };
  const own = new OwnClock({ steady: () => source.steady, wall: () => source.wall });
  let jumps = 0;
  own.onJump.add(() => { jumps += 1; });
  const before = own.now();
  for (let index = 0; index < 20; index += 1) {
    source.steady += 100;
    source.wall += 1_600;
    own.now();
  }
  assert.ok(own.now() - before >= 20 * 1_600 - 2_000, `${own.now() - before} of 32,000 ms`);
  assert.ok(jumps > 0);
});

test('i05_a_date_that_falls_behind_hides_no_sleep', () => {
  const source = { steady: 0, wall: 1_000_000 };
  const own = new OwnClock({ steady: () => source.steady, wall: () => source.wall });
  for (let index = 0; index < 18; index += 1) {
    source.steady += 1_000;
    source.wall += 900;
    own.now();
  }
  const before = own.now();
  source.wall += 2_500;
  assert.equal(own.now() - before, 2_500);
});
