// A world for the SDK's logic: time that the test moves, a server that answers as told, a page that does as told.

import { Activity } from '../../src/activity.js';
import { Claim } from '../../src/claim.js';
import { ServerClock } from '../../src/clock.js';
import { Emitter } from '../../src/emitter.js';
import { Refused, Unreachable } from '../../src/errors.js';
import { Page } from '../../src/page.js';
import { Tabs } from '../../src/tabs.js';

/** Lets everything that is ready run. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));

/** Time that stands still until the test moves it. */
export class Time {
  constructor() {
    this.at = 1_000;
    this.timers = new Map();
    this.count = 0;
    this.onJump = new Set();
  }

  now = () => this.at;
  set = (run, ms) => {
    this.count += 1;
    this.timers.set(this.count, { at: this.at + ms, run });
    return this.count;
  };
  clear = (timer) => { this.timers.delete(timer); };

  /** Goes on, and rings what is due on the way, in order. */
  async pass(ms) {
    const end = this.at + ms;
    await settle();
    for (;;) {
      const due = [...this.timers].filter(([, timer]) => timer.at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      this.timers.delete(due[0]);
      this.at = Math.max(this.at, due[1].at);
      due[1].run();
      await settle();
    }
    this.at = end;
    await settle();
  }

  /** The machine sleeps: time goes on, nothing rings. */
  sleep(ms) {
    this.at += ms;
    for (const tell of [...this.onJump]) tell(ms);
  }
}

/** Messages between the tabs of one browser. */
export function channels() {
  const ears = [];
  return () => {
    const heard = [];
    ears.push(heard);
    return {
      post: (message) => { for (const other of ears) if (other !== heard) other.forEach((hear) => hear(message)); },
      on: (hear) => heard.push(hear),
    };
  };
}

export const iso = (ms) => new Date(ms).toISOString();
export const refused = (status, problem) => new Refused(status, problem);
export const unreachable = () => new Unreachable(new Error('cut'));

/** A claim of task a1, granted for 180 s just now, in a world of its own. */
export function makeWorld({ options = {}, row = {}, channel, time = new Time(), sentAt = time.now() } = {}) {
  const clock = new ServerClock(time);
  const page = new Page();
  const activity = new Activity({ own: time, channel });
  const tabs = new Tabs({ own: time, channel, tab: String(Math.random()) });
  const sent = [];
  const beacons = [];
  const server = {
    ttlMs: 180_000,
    /** What the next requests get instead of a renewal. */
    script: [],
    /** What every request gets. */
    always: undefined,
  };
  const http = {
    ask: async (method, path, call = {}) => {
      const at = time.now();
      sent.push({ at, method, path, body: call.body });
      const answer = server.script.shift() ?? server.always ?? {};
      if (answer instanceof Error) throw answer;
      if (answer.wait) await answer.wait;
      const left = answer.expires_in_ms ?? server.ttlMs;
      const body = { renewed: true, expires_at: iso(at + left), expires_in_ms: left, server_time: iso(at), ...answer };
      return { status: 200, body, sentAt: at, receivedAt: time.now(), headers: new Headers() };
    },
    beacon: (method, path) => beacons.push(`${method} ${path}`),
  };
  const watch = Object.assign(new Emitter(), { rows: { claims: new Map() } });
  const around = { http, own: time, clock, timers: time, page, tabs, activity, watch, random: () => 0.5 };
  const granted = {
    id: 'task~t1~3', collection: 'task/t1', items: ['a1'], holder: { id: 'ana', name: 'Ana' }, session: 'tab1',
    state: 'active', phase: 'editing', token: 3, since: iso(sentAt), heartbeat_at: iso(sentAt), data: null,
    expires_at: iso(sentAt + 180_000), expires_in_ms: 180_000, server_time: iso(sentAt), ...row,
  };
  const claim = new Claim(granted, sentAt, around, { heartbeatMs: 10_000, idleGuardMs: 120_000, ...options });
  const told = [];
  for (const name of ['held', 'renewed', 'idle', 'uncertain', 'lost', 'ended', 'nudged', 'advanced']) {
    claim.on(name, (detail) => told.push({ name, at: time.now(), ...detail }));
  }
  const names = () => told.filter(({ name }) => name !== 'renewed').map(({ name }) => name);
  const tell = (event) => watch.emit('event', {
    seq: 1, at: iso(time.now()), claim: granted.id, collection: 'task/t1', items: ['a1'],
    actor: { id: 'carmen', name: 'Carmen' }, ...event,
  });
  return { time, clock, page, activity, tabs, sent, beacons, server, watch, claim, told, names, tell, around };
}
