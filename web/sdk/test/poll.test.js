// Asking every few seconds: one loop, whatever wakes it, and none after it was closed.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { RaffleLive } from '../../pages/raffle/live.js';
import { ServerClock } from '../src/clock.js';
import { Http } from '../src/http.js';
import { Page } from '../src/page.js';
import { pollWay } from '../src/transports.js';
import { settle, Time } from './helpers/world.js';

/** A server that answers when the test lets it, over a fetch that keeps to its signal as a browser's does. */
function makeServer(answer) {
  const time = new Time();
  const server = { asked: 0, isHeld: false, waiting: [] };
  const fetch = async (url, { signal }) => {
    signal.throwIfAborted();
    server.asked += 1;
    if (server.isHeld) await new Promise((resolve) => server.waiting.push(resolve));
    return new Response(JSON.stringify(answer(url)));
  };
  server.answer = async () => {
    server.isHeld = false;
    for (const go of server.waiting.splice(0)) go();
    await settle();
  };
  const http = new Http({ base: 'http://x', own: time, clock: new ServerClock(time), timers: time, fetch });
  return { time, server, http };
}

const ears = { snapshot() {}, event() {}, resync() {}, alive() {}, closed() {} };

/** Woken four times while it waits for an answer; then a minute goes by, and one more after it was closed. */
async function wake({ time, server, probe, close, everyMs }) {
  server.isHeld = true;
  await time.pass(everyMs);
  for (let index = 0; index < 4; index += 1) probe();
  await settle();
  await server.answer();
  const before = server.asked;
  await time.pass(12 * everyMs);
  assert.equal(server.asked - before, 12, 'one loop');
  probe();
  await settle();
  assert.equal(server.asked - before, 13, 'between two rounds it asks at once');
  server.isHeld = true;
  await time.pass(everyMs);
  probe();
  close();
  await server.answer();
  assert.equal(time.timers.size, 0, 'no timer is left behind');
  const atEnd = server.asked;
  await time.pass(12 * everyMs);
  assert.equal(server.asked, atEnd, 'closed');
}

test('waking_up_does_not_double_the_polls_and_closing_ends_them', async () => {
  const { time, server, http } = makeServer(() => ({ epoch: 1, events: [], last: 5, newest: 5 }));
  const way = pollWay(http, 'task/t1', { everyMs: 5_000, isVisible: () => true });
  await wake({ time, server, everyMs: 5_000, ...way({ epoch: 1, seq: 5 }, ears) });
});

test('waking_up_does_not_double_the_polls_of_a_raffle', async (t) => {
  const { time, server, http } = makeServer(() => ({ numbers: '---' }));
  const page = new Page();
  const names = ['document', 'location', 'WebSocket'];
  const before = names.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  t.after(() => names.forEach((name, index) => {
    if (before[index]) Object.defineProperty(globalThis, name, before[index]);
    else delete globalThis[name];
  }));
  // Sockets do not get through here.
  class Socket { constructor() { setImmediate(() => this.onclose?.({ code: 1006 })); } close() {} }
  const fakes = { document: { hidden: false }, location: { href: 'http://x/' }, WebSocket: Socket };
  for (const name of names) Object.defineProperty(globalThis, name, { value: fakes[name], configurable: true, writable: true });
  const ends = [];
  const place = {
    tenure: { own: time, timers: time, http, page }, session: {}, isLeft: false,
    shell: { follow: () => () => {} }, onLeave: (end) => ends.push(end),
  };
  const live = new RaffleLive(place, 'r1');
  live.start();
  for (let index = 0; index < 50 && live.status.state !== 'polling'; index += 1) await time.pass(100);
  assert.equal(live.status.state, 'polling');
  // A minute of polling would end with another try of the socket.
  const probe = () => page.emit('back', {});
  server.isHeld = true;
  await time.pass(5_000);
  for (let index = 0; index < 4; index += 1) probe();
  await settle();
  await server.answer();
  const asked = server.asked;
  await time.pass(30_000);
  assert.equal(server.asked - asked, 6, 'one loop');
  ends.forEach((end) => end());
  await time.pass(60_000);
  assert.equal(server.asked - asked, 6, 'closed');
  assert.equal(time.timers.size, 0, 'no timer is left behind');
});

test('what_was_given_up_before_it_began_is_not_sent', async () => {
  const { server, http } = makeServer(() => ({}));
  const stop = new AbortController();
  stop.abort();
  await assert.rejects(http.ask('GET', '/v1/x', { signal: stop.signal, tries: 3 }));
  assert.equal(server.asked, 0);
});
