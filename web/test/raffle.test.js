// The buyer's pages without a page: what is told of numbers that come free, and what may be done when nobody knows.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { INPUTS, spoil } from '../sdk/test/helpers/spoil.js';
import { Time } from '../sdk/test/helpers/world.js';
import { RaffleLive } from '../pages/raffle/live.js';
import { RAFFLE_STATUSES, describe } from '../pages/raffle/model.js';
import { trayState } from '../pages/raffle/tray-model.js';

/** A raffle that is followed over a socket, which the test speaks for. */
function following(numbers) {
  const time = new Time();
  /** @type {any} */ let socket;
  Object.assign(globalThis, {
    location: { href: 'http://server/' },
    WebSocket: class {
      static OPEN = 1;
      constructor() { socket = this; }
      close() {}
    },
  });
  const tenure = {
    own: time, timers: time, page: { on: () => () => {} },
    http: { own: time, timers: time, clock: { note() {} } },
  };
  const leaving = /** @type {(() => void)[]} */ ([]);
  const place = { tenure, session: { person: { id: 'ana' } }, isLeft: false, onLeave: (end) => leaving.push(end), shell: { follow: () => () => {} } };
  const live = new RaffleLive(/** @type {any} */ (place), 'r');
  const freed = /** @type {number[][]} */ ([]);
  live.on('freed', (told) => freed.push(told.numbers));
  live.show(numbers);
  live.start();
  let seq = 1;
  const hear = (data) => socket.onmessage({ data });
  const tell = (message) => hear(JSON.stringify({ seq: seq += 1, ...message }));
  const update = (number, status, user) => tell({ type: 'number_update', number_id: number, status, ...(user && { user_id: user }) });
  tell({ type: 'snapshot', epoch: 1, seq: 1, status: 'active', numbers, server_time: new Date().toISOString() });
  return { live, time, freed, hear, tell, update, leave: () => leaving.forEach((end) => end()) };
}

test('r15_numbers_that_somebody_lets_go_are_told_of_together', async () => {
  const { time, freed, update } = following('rrrm-s');
  update(1, 'available');
  await time.pass(600);
  update(2, 'available');
  assert.deepEqual(freed, [], 'not one by one');
  await time.pass(600);
  assert.deepEqual(freed, [[1, 2]]);
  update(3, 'available');
  await time.pass(2_000);
  assert.deepEqual(freed, [[1, 2], [3]]);
});

test('r15_ones_own_numbers_and_those_that_are_gone_again_are_no_news', async () => {
  const { live, time, freed, update } = following('rrmm-s');
  update(3, 'available');
  live.mark([4], '-');
  update(1, 'available');
  update(2, 'available');
  update(1, 'reserved');
  await time.pass(2_000);
  assert.deepEqual(freed, [[2]]);
  update(2, 'reserved', 'ana');
  update(2, 'available');
  await time.pass(2_000);
  assert.deepEqual(freed, [[2]], 'taken and let go by oneself');
});

test('r09_a_reservation_that_ran_out_is_told_of_once', async () => {
  const { time, freed, update, tell } = following('rr-');
  update(1, 'available');
  update(2, 'available');
  tell({ type: 'reservation_expired', number_ids: [1, 2] });
  await time.pass(2_000);
  assert.deepEqual(freed, [[1, 2]]);
});

test('what_is_read_anew_is_told_of_too_and_nothing_after_leaving', async () => {
  const { live, time, freed, update, leave } = following('rrm');
  live.show('-r-');
  await time.pass(2_000);
  assert.deepEqual(freed, [[1]]);
  update(2, 'available');
  leave();
  await time.pass(2_000);
  assert.deepEqual(freed, [[1]]);
});

/** What it says then: it is told as what it is, or the socket ends and is made anew. @param {string} said */
function heard(said) {
  const { live, hear, leave } = following('-rms');
  const statuses = /** @type {string[]} */ ([]);
  live.on('raffle', ({ status }) => statuses.push(status));
  assert.doesNotThrow(() => hear(said), said);
  const { state } = live.status;
  assert.ok(['live', 'waiting'].includes(state), said);
  assert.match([...live.chars].join(''), /^[-rmsb]*$/, said);
  assert.ok(statuses.every((status) => Object.hasOwn(RAFFLE_STATUSES, status)), said);
  leave();
  return state === 'live';
}

test('e9_what_is_no_message_of_a_raffle_ends_the_socket_and_not_the_page', () => {
  const others = [
    'null', '7', '"snapshot"', '[]', '{}', '<html>', '{"type":"number_up',
    ...[0, 5, -1, 1.5, '2', null].map((number_id) => JSON.stringify({ seq: 2, type: 'number_update', number_id, status: 'sold' })),
    ...['gone', null, undefined].map((status) => JSON.stringify({ seq: 2, type: 'number_update', number_id: 2, status })),
    ...['constructor', 'on_sale', null].map((status) => JSON.stringify({ seq: 2, type: 'raffle_update', status })),
    ...[7, null, '-x-', ['-']].map((numbers) => JSON.stringify({ seq: 2, epoch: 1, type: 'snapshot', numbers })),
    '{"type":"snapshot","numbers":"-rms"}', '{"type":"raffle_update","seq":"2","status":"paused"}',
  ];
  for (const other of others) assert.equal(heard(other), false, other);
  // What a newer server may say beside.
  for (const newer of ['{"type":"pong"}', '{"type":"number_praised","seq":2,"number_id":null}']) assert.equal(heard(newer), true, newer);
});

test('e9_a_spoiled_message_of_a_raffle_is_told_or_ends_the_socket', () => {
  const corpus = [
    '{"type":"snapshot","raffle_id":"r","epoch":1,"seq":5,"status":"active","numbers":"-rms","counts":{"sold":1},"server_time":"2026-01-02T03:04:05Z"}',
    '{"type":"number_update","seq":2,"number_id":2,"status":"available"}',
    '{"type":"number_update","seq":2,"number_id":1,"status":"reserved","user_id":"ana"}',
    '{"type":"reservation_expired","seq":2,"number_ids":[1,2]}',
    '{"type":"raffle_update","seq":2,"status":"paused"}',
    '{"type":"resync","reason":"other_epoch"}',
  ];
  for (const whole of corpus) assert.ok(heard(whole), whole);
  let taken = 0;
  for (let number = 1; number <= INPUTS; number += 1) taken += Number(heard(spoil(corpus, number)));
  assert.ok(taken > INPUTS / 100 && taken < INPUTS * 0.99, `${taken} of ${INPUTS} taken`);
});

const open = { canBuy: true, isCertain: true, isOpen: true, picks: 0, phase: undefined };
/** What can be pressed. @param {Partial<typeof open> & {phase?: string}} shown */
const pressed = (shown) => {
  const { reserve, clear, pay, cancel, go } = trayState(/** @type {any} */ ({ ...open, ...shown }));
  return Object.entries({ reserve, clear, pay, cancel, go }).filter(([, look]) => look === 'on').map(([name]) => name);
};

test('r15_what_can_be_done_in_each_phase', () => {
  assert.deepEqual(pressed({}), []);
  assert.deepEqual(pressed({ picks: 2 }), ['reserve', 'clear']);
  assert.deepEqual(pressed({ phase: 'selection' }), ['pay', 'cancel']);
  assert.deepEqual(pressed({ phase: 'checkout' }), ['cancel', 'go']);
  assert.deepEqual(pressed({ phase: 'paying' }), ['go']);
  assert.deepEqual(pressed({ canBuy: false }), []);
  assert.deepEqual(pressed({ isOpen: false, picks: 2 }), []);
  assert.equal(trayState(open).reserve, 'off', 'seen from the start, so that nothing jumps');
});

test('r15_without_a_connection_nothing_is_claimed_and_nothing_can_be_done', () => {
  for (const phase of ['selection', 'checkout', 'paying', 'verification']) {
    const state = trayState({ ...open, isCertain: false, phase });
    assert.deepEqual(pressed({ isCertain: false, phase }), [], phase);
    assert.notEqual(state.heading, 'buy.tray.reserved', phase);
    assert.equal(state.canChange, false, phase);
  }
  // What was there is still there: it does not jump, either.
  assert.equal(trayState({ ...open, isCertain: false, phase: 'selection' }).pay, 'off');
  assert.equal(trayState({ ...open, isCertain: false, phase: 'selection' }).cancel, 'off');
  // Nobody else knows of picks: they can be put away.
  assert.deepEqual(pressed({ isCertain: false, picks: 2 }), ['clear']);
});

test('r16_what_the_server_says_of_its_own_providers_is_said_in_the_pages_language', async () => {
  const source = await readFile(new URL('../../crates/apps/src/payments/catalog.rs', import.meta.url), 'utf8');
  const words = [...source.matchAll(/let words = "([^"]+)";/g)].map(([, text]) => text);
  assert.equal(words.length, 2);
  assert.deepEqual(words.map(describe), ['Credit or debit card', 'Transfer from your phone']);
  assert.equal(describe('Only on Mondays'), 'Only on Mondays', 'an administrator’s own words stay');
});
