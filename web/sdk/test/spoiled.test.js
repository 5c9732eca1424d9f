// Whatever a server says, or something in its place: it is told as what it is, or the connection ends and is made anew.
// Nothing is thrown at the page, nothing is asked without end.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ServerClock } from '../src/clock.js';
import { Http } from '../src/http.js';
import { Rows } from '../src/rows.js';
import { Stream } from '../src/stream.js';
import { pollWay, socketWay, sseWay } from '../src/transports.js';
import { INPUTS, spoil } from './helpers/spoil.js';
import { settle, Time } from './helpers/world.js';

const actor = { id: 'ana', name: 'Ana' };
const at = '2026-01-02T03:04:05Z';
const item = { id: 'a1', status: 'open', version: 1, data: { n: 1 }, fence: 0, updated_at: at, updated_by: 'ana' };
const claim = {
  id: 'lock~a~5', collection: 'lock/a', items: ['a1'], holder: actor, session: null, state: 'active', phase: 'held', token: 5,
  since: at, heartbeat_at: at, expires_at: at, data: null,
};
const snapshot = { collection: 'lock/a', epoch: 1, seq: 5, server_time: at, items: [item], claims: [claim] };
const event = (seq, type, more) => ({ seq, at, type, actor, collection: 'lock/a', items: ['a1'], ...more });
const after = { version: 2, status: 'done', data: null };
const EVENTS = [
  event(6, 'claim_granted', { claim: 'lock~a~6', holder: actor, token: 6, phase: 'held', expires_at: at, changes: [{ item: 'a1', after }] }),
  event(6, 'claim_completed', { claim: 'lock~a~5', changes: [{ item: 'a1', after }] }),
  event(6, 'item_put', { after, expires_at: at }),
  event(6, 'item_added', { claim: 'lock~a~5', items: ['a2'], token: 6 }),
  event(6, 'resumed', { shift_ms: 5_000, items: undefined }),
];

/** A stream over one way, added up as a page does; what its listeners throw is kept. */
function follow(way) {
  const time = new Time();
  const rows = new Rows();
  const told = { snapshots: 0, events: 0, thrown: undefined };
  const http = new Http({ base: 'http://x', own: time, clock: new ServerClock(time), timers: time, fetch: (...call) => told.fetch(...call) });
  const stream = new Stream({ ways: { [way]: undefined }, own: time, timers: time, random: () => 1 });
  const add = (name, act) => stream.on(name, (detail) => {
    try {
      act(detail);
    } catch (error) {
      told.thrown ??= error;
    }
  });
  add('snapshot', (one) => { told.snapshots += 1; rows.reset(one); });
  add('event', (one) => { told.events += 1; rows.apply(one); });
  return { time, http, stream, told, rows };
}

/** An answer without a network's streams, which are not ours and take longest. It comes in two pieces. */
function answered(text) {
  const pieces = [text.slice(0, text.length / 2), text.slice(text.length / 2)];
  const read = async () => ({ done: pieces.length === 0, value: pieces.shift() });
  const reader = { read, cancel: async () => {} };
  const body = { pipeThrough: () => ({ getReader: () => reader }) };
  return { ok: true, status: 200, headers: new Map(), body, text: async () => text };
}

/** It is as it may be, whatever came. */
function judge({ stream, told, rows }, input) {
  const { cursor } = stream;
  assert.equal(told.thrown, undefined, input);
  assert.ok(cursor === undefined || (Number.isSafeInteger(cursor.epoch) && Number.isSafeInteger(cursor.seq)), input);
  assert.ok([...rows.held].every(([id, held]) => typeof id === 'string' && typeof held.id === 'string'), input);
  return stream.status.state === 'live' || stream.status.state === 'polling';
}

/** Both ends of the judgement are reached. */
const reachesBoth = ([taken, refused]) => assert.ok(Math.min(taken, refused) > INPUTS / 100, `${taken} taken, ${refused} refused`);

/** The next turn, for everybody who waits for one. @type {Promise<void> | undefined} */
let coming;
const turn = () => (coming ??= settle().then(() => { coming = undefined; }));

/** Every number, some at once: what is asked of the network waits for turns. */
async function each(act) {
  for (let number = 1; number <= INPUTS; number += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, more) => act(number + more)));
  }
}

test('e9_a_spoiled_message_of_a_socket_is_told_or_ends_the_socket', () => {
  const corpus = [
    JSON.stringify({ type: 'snapshot', ...snapshot }),
    ...EVENTS.map((one) => JSON.stringify({ type: 'event', epoch: 1, seq: one.seq, event: one })),
    '{"type":"resync","reason":"other_epoch"}',
    '{"type":"pong"}',
    '{"type":"reply","id":1,"status":201,"body":null}',
  ];
  const counts = [0, 0];
  const give = (input) => {
    const world = follow('socket');
    let made;
    class Socket {
      static CONNECTING = 0;
      static OPEN = 1;
      readyState = 1;
      isClosed = false;
      constructor() { made = this; }
      send() {}
      close() { this.isClosed = true; }
    }
    world.stream.ways.socket = socketWay(world.http, 'lock/a', Socket);
    world.stream.start();
    const hear = made.onmessage;
    hear({ data: JSON.stringify({ type: 'snapshot', ...snapshot }) });
    const socket = made;
    assert.doesNotThrow(() => hear({ data: input }), input);
    const isLive = judge(world, input);
    // A connection that is not believed any more is let go of.
    assert.equal(socket.isClosed, !isLive, input);
    world.stream.stop();
    return isLive;
  };
  for (const whole of corpus) assert.ok(give(whole), whole);
  for (let number = 1; number <= INPUTS; number += 1) counts[give(spoil(corpus, number)) ? 0 : 1] += 1;
  reachesBoth(counts);
});

test('e9_a_spoiled_event_stream_is_told_or_ends', async (t) => {
  // Not ours either, and not asked for anything: the answers are texts.
  const decoder = globalThis.TextDecoderStream;
  globalThis.TextDecoderStream = class {};
  t.after(() => { globalThis.TextDecoderStream = decoder; });
  const block = (name, id, data) => `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
  const corpus = [
    `: hello\n\n${block('snapshot', '1-5', snapshot)}${block(EVENTS[0].type, '1-6', EVENTS[0])}`,
    `${block('snapshot', '1-5', snapshot)}: still here\n\n${block(EVENTS[1].type, '1-6', EVENTS[1])}`,
    `${block('resync', '2-9', { epoch: 2, last: 9 })}${block('snapshot', '2-9', { ...snapshot, epoch: 2, seq: 9 })}`,
  ];
  const counts = [0, 0];
  const give = async (input) => {
    const world = follow('sse');
    let asked = 0;
    world.told.fetch = async () => { asked += 1; return answered(input); };
    world.stream.ways.sse = sseWay(world.http, 'lock/a');
    world.stream.start();
    for (let left = 50; world.stream.status.state !== 'waiting' && left > 0; left -= 1) await turn();
    judge(world, input);
    assert.equal(world.stream.status.state, 'waiting', `it ends: ${input}`);
    assert.equal(asked, 1, input);
    world.stream.stop();
    return world.told.snapshots + world.told.events > 0;
  };
  for (const whole of corpus) assert.ok(await give(whole), whole);
  await each(async (number) => { counts[(await give(spoil(corpus, number))) ? 0 : 1] += 1; });
  reachesBoth(counts);
});

test('e9_spoiled_answers_to_polls_are_told_or_end_it_and_nothing_is_asked_without_end', async () => {
  const { claims: _, items: __, ...head } = snapshot;
  const heads = [JSON.stringify(head)];
  const pages = [JSON.stringify({ items: [{ ...item, claim, server_time: at }], next: null }), JSON.stringify({ items: [], next: 'a1' })];
  const events = EVENTS.map((one) => JSON.stringify({ epoch: 1, last: 6, newest: 6, events: [one] }));
  const counts = [0, 0];
  /** Asks for a snapshot and then for events; each answer may be spoiled. */
  const give = async (head, page, more) => {
    const world = follow('poll');
    let asked = 0;
    world.told.fetch = async (url) => {
      asked += 1;
      if (asked > 20) throw new TypeError('cut');
      const path = new URL(url).pathname;
      return answered(path.endsWith('/events') ? more : path.endsWith('/items') ? page : head);
    };
    world.stream.ways.poll = pollWay(world.http, 'lock/a', { everyMs: 5_000, isVisible: () => true });
    world.stream.start();
    for (let left = 50; world.stream.status.state === 'opening' && left > 0; left -= 1) await turn();
    // One more round: the events.
    const [round] = world.stream.status.state === 'polling' ? [...world.time.timers.values()] : [];
    round?.run();
    for (let left = 5; left > 0; left -= 1) await turn();
    const input = `${head} ${page} ${more}`;
    const isLive = judge(world, input);
    assert.ok(asked <= 10, `${asked} requests: ${input}`);
    world.stream.stop();
    return isLive && world.told.events > 0;
  };
  for (const more of events) assert.ok(await give(heads[0], pages[0], more), more);
  await each(async (number) => {
    const of = (texts, which) => (number % 3 === which ? spoil(texts, number) : texts[0]);
    counts[(await give(of(heads, 0), of(pages, 1), of(events, 2))) ? 0 : 1] += 1;
  });
  reachesBoth(counts);
});
