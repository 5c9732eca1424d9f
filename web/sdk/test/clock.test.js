import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Backoff } from '../src/backoff.js';
import { OwnClock, safeDeadline, ServerClock } from '../src/clock.js';

const made = () => {
  const source = { steady: 0, wall: 1_000_000 };
  const own = new OwnClock({ steady: () => source.steady, wall: () => source.wall });
  const pass = (ms) => { source.steady += ms; source.wall += ms; };
  return { source, own, pass };
};

test('e07_a_wrong_date_changes_nothing', () => {
  const { own, pass, source } = made();
  const server = new ServerClock(own);
  source.wall -= 600_000;
  own.now();
  server.note(0, 100, 50_000_050);
  pass(1_000);
  assert.equal(server.now(), 50_000_000 + 1_000);
});

test('sleep_that_the_steady_clock_missed_is_counted_and_told', () => {
  const { own, source } = made();
  const jumps = [];
  own.onJump.add((ms) => jumps.push(ms));
  const before = own.now();
  source.steady += 500;
  source.wall += 60_500;
  assert.equal(own.now() - before, 60_500);
  assert.deepEqual(jumps, [60_000]);
});

test('own_time_never_runs_backwards', () => {
  const { own, source } = made();
  const before = own.now();
  source.wall -= 10_000_000;
  source.steady += 5;
  assert.equal(own.now() - before, 5);
});

test('the_quickest_answer_is_believed', () => {
  const { own } = made();
  const server = new ServerClock(own);
  server.note(0, 20, 1_000_010);
  server.note(0, 4_000, 1_000_100);
  assert.equal(server.now(), 1_000_000);
});

test('after_a_jump_the_next_answer_is_believed_however_slow', () => {
  const { own, source } = made();
  const server = new ServerClock(own);
  server.note(0, 0, 1_000_000);
  source.wall += 600_000; // Somebody set the date.
  own.now();
  server.note(own.now(), own.now() + 3_000, 1_001_500);
  assert.equal(server.now(), 1_000_000);
});

test('the_safe_deadline_lies_before_the_servers', () => {
  assert.equal(safeDeadline(1_000, 180_000), 1_000 + 180_000 - 1_800);
  assert.equal(safeDeadline(0, 10_000), 9_750);
  assert.equal(safeDeadline(0, 3_600_000), 3_598_000);
  assert.equal(safeDeadline(5, 100), 5);
});

test('r14_pauses_grow_to_a_limit_and_differ', () => {
  const pauses = (random) => {
    const backoff = new Backoff({ random });
    return Array.from({ length: 9 }, () => backoff.next());
  };
  assert.deepEqual(pauses(() => 1), [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  assert.deepEqual(pauses(() => 0).slice(0, 3), [250, 500, 1_000]);
});
