// The claim's states, each way in and out, on a clock that the test moves.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { NotHeld } from '../src/errors.js';
import { Tenure } from '../tenure.js';
import { channels, iso, makeWorld, refused, settle, Time, unreachable } from './helpers/world.js';

const lost = (more) => refused(410, { code: 'lost', reason: 'expired', holder: null, ...more });

test('t08_a_visible_active_page_beats_about_every_ten_seconds_and_is_renewed', async () => {
  const { time, activity, sent, told, claim } = makeWorld();
  for (let second = 0; second < 60; second += 1) {
    activity.note();
    await time.pass(1_000);
  }
  assert.equal(sent.length, 6);
  assert.deepEqual(sent[0].body, { token: 3, idle_ms: 1_000 });
  assert.equal(told.filter(({ name }) => name === 'renewed').length, 6);
  assert.equal(claim.state, 'held');
  assert.ok(claim.canAct);
});

test('held_is_told_once_the_caller_can_listen', async () => {
  const { time, names } = makeWorld();
  await time.pass(0);
  assert.deepEqual(names(), ['held']);
});

test('t09_an_idle_page_sends_nothing_and_says_so', async () => {
  const { time, sent, told, claim } = makeWorld();
  await time.pass(120_000);
  assert.equal(claim.state, 'idle');
  assert.equal(told.find(({ name }) => name === 'idle').why, 'inactive');
  const before = sent.length;
  await time.pass(50_000);
  assert.equal(sent.length, before);
  assert.ok(claim.canAct, 'it is still held until its deadline');
});

test('t09_somebody_who_comes_back_in_time_is_renewed_at_once', async () => {
  const { time, activity, sent, names, claim } = makeWorld();
  await time.pass(150_000);
  const before = sent.length;
  activity.note();
  await settle();
  assert.equal(sent.length, before + 1);
  assert.equal(sent.at(-1).body.idle_ms, 0);
  assert.equal(claim.state, 'held');
  assert.deepEqual(names(), ['held', 'idle', 'held']);
});

test('t09_without_a_known_guard_the_server_judges_and_is_left_in_peace_then', async () => {
  const { time, server, sent, claim } = makeWorld({ options: { idleGuardMs: undefined } });
  server.always = { renewed: false, reason: 'idle', expires_in_ms: 100_000 };
  await time.pass(11_000);
  assert.equal(claim.state, 'idle');
  assert.equal(sent.length, 1);
  await time.pass(60_000);
  assert.equal(sent.length, 1);
});

test('t10_at_the_rolling_limit_it_is_idle_for_another_reason_and_goes_on_asking', async () => {
  const { time, server, activity, sent, told, claim } = makeWorld();
  server.always = { renewed: false, reason: 'max_hold', expires_in_ms: 100_000 };
  await time.pass(11_000);
  assert.equal(claim.state, 'idle');
  assert.equal(told.find(({ name }) => name === 'idle').why, 'max_hold');
  const before = sent.length;
  activity.note();
  await settle();
  assert.equal(sent.length, before, 'a pointer that moves is no action');
  server.always = undefined;
  await time.pass(11_000);
  assert.equal(claim.state, 'held');
});

test('t12_a_refused_heartbeat_is_a_loss_with_its_reason_and_the_new_holder', async () => {
  const { time, server, told, claim } = makeWorld();
  const holder = { id: 'luis', name: 'Luis' };
  server.script = [lost({ reason: 'taken_over', holder })];
  await time.pass(11_000);
  assert.equal(claim.state, 'lost');
  assert.ok(!claim.canAct);
  assert.equal(claim.leftMs, 0);
  const { reason, holder: now } = told.find(({ name }) => name === 'lost');
  assert.deepEqual([reason, now], ['taken_over', holder]);
});

test('t17_the_stream_tells_of_a_takeover_at_once_with_who_and_why', async () => {
  const { tell, told, claim, sent, time } = makeWorld();
  tell({ type: 'claim_taken_over', reason: 'taken_over', note: 'urgent order', ended_at: 'then' });
  assert.equal(claim.state, 'lost');
  const { reason, holder, by, note } = told.find(({ name }) => name === 'lost');
  assert.deepEqual([reason, holder.name, by.name, note], ['taken_over', 'Carmen', 'Carmen', 'urgent order']);
  await time.pass(60_000);
  assert.equal(sent.length, 0, 'what is lost is not renewed');
});

test('t16_a_forced_release_is_typed_as_such_and_its_words_are_a_note', () => {
  const { tell, claim } = makeWorld();
  tell({ type: 'LOCK_FORCE_RELEASE', reason: 'went home', ended_at: 'then' });
  assert.deepEqual([claim.lost.reason, claim.lost.note, claim.lost.holder], ['force_released', 'went home', null]);
});

test('events_of_other_claims_change_nothing', () => {
  const { tell, claim } = makeWorld();
  tell({ type: 'claim_expired', claim: 'task~t1~9', reason: 'expired' });
  assert.equal(claim.state, 'held');
});

test('t18_a_request_to_answerItgo_is_told_and_changes_nothing', () => {
  const { tell, told, claim } = makeWorld();
  tell({ type: 'release_requested', message: 'please' });
  const nudged = told.find(({ name }) => name === 'nudged');
  assert.deepEqual([nudged.from.name, nudged.message, claim.state], ['Carmen', 'please', 'held']);
});

test('without_answers_it_is_held_until_the_safe_deadline_and_uncertain_from_then_on', async () => {
  const { time, server, told, claim } = makeWorld({ options: { idleGuardMs: undefined } });
  server.always = unreachable();
  await time.pass(178_100 - 1_000);
  assert.equal(claim.state, 'held');
  assert.ok(claim.canAct);
  // 180 s less the margin, counted from before the request: at 1,000 + 178,200.
  await time.pass(2_200);
  assert.ok(!claim.canAct);
  assert.equal(claim.state, 'uncertain');
  const { at, why } = told.find(({ name }) => name === 'uncertain');
  assert.deepEqual([at, why], [1_000 + 178_200, 'deadline']);
});

test('the_safe_deadline_counts_from_before_the_request_not_from_the_answer', async () => {
  const time = new Time();
  const { claim } = makeWorld({ time, sentAt: time.now() - 30_000, options: { idleGuardMs: undefined } });
  time.at += 148_000;
  assert.ok(claim.canAct);
  time.at += 300;
  assert.ok(!claim.canAct, 'the answer took 30 s: that much less can be counted on');
});

test('uncertain_ends_with_the_first_answer_whatever_it_is', async () => {
  const { time, server, claim, names } = makeWorld({ options: { idleGuardMs: undefined } });
  server.always = unreachable();
  await time.pass(181_000);
  server.always = undefined;
  await time.pass(6_000);
  assert.equal(claim.state, 'held');
  server.always = unreachable();
  await time.pass(181_000);
  server.always = lost({ reason: 'expired' });
  await time.pass(6_000);
  assert.equal(claim.state, 'lost');
  assert.deepEqual(names(), ['held', 'uncertain', 'held', 'uncertain', 'lost']);
});

test('a_hidden_page_sends_nothing_and_asks_when_it_is_seen_again', async () => {
  const { time, page, sent, claim, server } = makeWorld();
  page.isVisible = false;
  page.emit('hidden', {});
  await time.pass(200_000);
  assert.equal(sent.length, 0);
  assert.equal(claim.state, 'uncertain');
  server.script = [lost({ reason: 'idle' })];
  page.isVisible = true;
  page.emit('back', { why: 'visible' });
  assert.ok(!claim.canAct);
  await settle();
  assert.equal(sent.length, 1);
  assert.equal(sent[0].body.idle_ms, 200_000);
  assert.equal(claim.lost.reason, 'idle');
});

test('whoever_comes_back_may_not_act_before_the_server_has_answered', async () => {
  for (const why of ['visible', 'resume', 'pageshow', 'online']) {
    const { page, claim, server, names, time } = makeWorld();
    await time.pass(0);
    let answer = () => {};
    server.script = [{ wait: new Promise((resolve) => { answer = resolve; }) }];
    page.emit('back', { why });
    await settle();
    assert.equal(claim.state, 'checking', why);
    assert.ok(!claim.canAct, why);
    const ensured = claim.ensure();
    answer();
    await ensured;
    assert.ok(claim.canAct, why);
    assert.ok(!names().includes('uncertain'), 'a quick check is not shown');
  }
});

test('a_check_that_takes_longer_than_a_second_is_shown', async () => {
  const { time, page, claim, server, names } = makeWorld();
  await time.pass(0);
  let answer = () => {};
  server.script = [{ wait: new Promise((resolve) => { answer = resolve; }) }];
  page.emit('back', { why: 'visible' });
  await time.pass(1_000);
  assert.equal(claim.state, 'uncertain');
  answer();
  await settle();
  assert.equal(claim.state, 'held');
  assert.deepEqual(names(), ['held', 'uncertain', 'held']);
});

test('a_machine_that_slept_asks_before_anyone_acts', async () => {
  const { time, claim, server } = makeWorld();
  server.script = [lost({ reason: 'expired', holder: { id: 'luis', name: 'Luis' } })];
  time.sleep(600_000);
  assert.ok(!claim.canAct);
  await assert.rejects(claim.ensure(), NotHeld);
  assert.equal(claim.lost.holder.name, 'Luis');
});

test('ensure_refuses_while_nothing_is_known', async () => {
  const { time, claim, server } = makeWorld({ options: { idleGuardMs: undefined } });
  server.always = unreachable();
  await time.pass(181_000);
  await assert.rejects(claim.ensure(), { code: 'not_held', state: 'uncertain' });
});

test('t14_a_page_that_is_left_lets_go_by_beacon_and_must_ask_when_it_returns', () => {
  const { page, claim, beacons } = makeWorld();
  page.emit('leave', {});
  assert.deepEqual(beacons, ['DELETE /v1/claims/task~t1~3']);
  assert.ok(!claim.canAct);
});

test('a_claim_that_outlives_its_page_is_kept', () => {
  const { page, claim, beacons } = makeWorld({ options: { releaseOnLeave: false } });
  page.emit('leave', {});
  assert.deepEqual(beacons, []);
  assert.ok(claim.canAct);
});

test('t04_the_last_of_two_tabs_under_one_claim_lets_go', () => {
  const open = channels();
  const time = new Time();
  const first = makeWorld({ time, channel: open() });
  const second = makeWorld({ time, channel: open() });
  second.page.emit('leave', {});
  assert.deepEqual(second.beacons, []);
  first.page.emit('leave', {});
  assert.deepEqual(first.beacons, ['DELETE /v1/claims/task~t1~3']);
});

test('letting_go_is_no_loss_even_if_the_stream_is_quicker', async () => {
  const { claim, names, tell, server, time } = makeWorld();
  await time.pass(0);
  let answer = () => {};
  server.script = [{ wait: new Promise((resolve) => { answer = resolve; }) }];
  const released = claim.release();
  tell({ type: 'claim_released', reason: 'released' });
  answer();
  await released;
  assert.equal(claim.state, 'ended');
  assert.deepEqual(names(), ['held', 'ended']);
});

test('a_release_that_could_not_be_sent_leaves_the_claim_as_it_is', async () => {
  const { claim, server } = makeWorld();
  server.always = unreachable();
  await assert.rejects(claim.release(), { code: 'unreachable' });
  assert.equal(claim.state, 'held');
});

test('r08_a_fixed_phase_is_not_beaten_and_the_next_one_is_followed', async () => {
  const { time, server, sent, told, tell, claim } = makeWorld({
    row: { phase: 'selection', expires_in_ms: 600_000 }, options: { idleGuardMs: undefined, heartbeatMs: undefined },
  });
  const left = () => 600_000 + 1_000 - time.now();
  Object.defineProperty(server, 'always', {
    get: () => (left() > 0
      ? { renewed: false, reason: 'fixed_phase', expires_in_ms: left() }
      : { renewed: false, reason: 'fixed_phase', expires_in_ms: 300_000 + left() }),
  });
  await time.pass(590_000);
  assert.equal(sent.length, 1, 'one question, which taught that questions move nothing');
  await time.pass(10_000);
  tell({ type: 'claim_advanced', from: 'selection', phase: 'checkout', expires_at: new Date(901_000).toISOString() });
  await time.pass(1_000);
  assert.equal(claim.phase, 'checkout');
  assert.equal(claim.state, 'held');
  assert.ok(claim.canAct);
  assert.equal(told.filter(({ name }) => name === 'advanced').length, 1);
  assert.ok(!told.some(({ name }) => name === 'uncertain'), 'nothing flickers at the turn of the phase');
  assert.ok(sent.length < 10, `${sent.length} questions`);
});

test('a_snapshot_without_the_claim_is_a_reason_to_ask', async () => {
  const { watch, server, claim } = makeWorld();
  server.script = [lost({ reason: 'force_released' })];
  watch.emit('snapshot', {});
  await settle();
  assert.equal(claim.lost.reason, 'force_released');
});

test('an_answer_that_is_not_about_the_claim_is_not_a_loss', async () => {
  const { time, server, claim } = makeWorld({ options: { idleGuardMs: undefined } });
  server.script = [refused(404, {}), refused(503, { code: 'overloaded', retry_after: 1 }), refused(401, { code: 'unauthenticated' })];
  await time.pass(15_000);
  assert.equal(claim.state, 'held');
});

test('e07_the_time_left_is_the_servers_whatever_this_machine_shows', async () => {
  const { time, clock, claim } = makeWorld();
  // The server's clock is an hour ahead of what this one would guess.
  const ahead = 3_600_000;
  clock.note(time.now(), time.now(), time.now() + ahead);
  claim.row = { ...claim.row, expires_at: new Date(time.now() + ahead + 60_000).toISOString() };
  assert.equal(claim.leftMs, 60_000);
});

/** Closes it while a beat is under way, then lets that be answered. */
async function closeDuringBeat(answer) {
  const open = channels();
  const time = new Time();
  const said = [];
  open().on((message) => said.push(message.type));
  const world = makeWorld({ time, channel: open() });
  world.claim.on('closed', () => said.push('closed'));
  let answerIt = () => {};
  world.server.script = [{ wait: new Promise((resolve, reject) => { answerIt = () => (answer instanceof Error ? reject(answer) : resolve()); }), ...answer }];
  await time.pass(11_000);
  assert.equal(world.sent.length, 1, 'the beat is under way');
  world.claim.close();
  answerIt();
  for (let second = 0; second < 240; second += 1) {
    world.activity.note();
    await time.pass(1_000);
  }
  return { ...world, said };
}

test('a_closed_claim_stays_closed_when_a_beat_is_answered_late', async () => {
  for (const answer of [{}, { renewed: false, reason: 'idle' }, unreachable(), lost()]) {
    const { sent, said, names, time, claim } = await closeDuringBeat(answer);
    assert.equal(sent.length, 1, 'nothing more is asked');
    const about = said.filter((type) => ['using', 'left', 'closed'].includes(type));
    assert.deepEqual(about, ['using', 'left', 'closed'], 'nobody is told that it is used here');
    assert.deepEqual(names(), ['held']);
    assert.equal(time.timers.size, 0);
    claim.close();
    assert.equal(said.filter((type) => type === 'left').length, 1);
  }
});

test('what_is_closed_can_still_be_answerItgo', async () => {
  const { claim, sent, names } = makeWorld();
  claim.close();
  await claim.release();
  assert.deepEqual(sent.map(({ method }) => method), ['DELETE']);
  assert.deepEqual(names(), ['ended']);
});

test('a_closed_claim_gives_its_watch_back', async () => {
  const row = { id: 'c', items: ['a1'], expires_at: iso(Date.now() + 60_000), expires_in_ms: 60_000, token: 1 };
  const fetch = async (_, { method }) => {
    if (method === 'POST') return new Response(JSON.stringify(row));
    throw new TypeError('cut');
  };
  const tenure = new Tenure({ base: 'http://x', fetch, ways: ['poll'] });
  const claim = await tenure.claim('task/t1', 'a1');
  const watch = tenure.watches.get('task/t1');
  assert.equal(watch.watchers, 1);
  claim.close();
  try {
    assert.equal(watch.watchers, 0);
    assert.equal(watch.status.state, 'stopped');
  } finally {
    tenure.close();
  }
});
