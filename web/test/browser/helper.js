// A server with the demonstration's people, a browser, and journeys: tests that several people take part in. A
// journey that fails leaves a screenshot and a trace of each of them in test/browser/failed; one in which a page
// writes an error to the console fails.
//
//   journey('two people', async ({ person }) => {
//     const ana = await person('ana');
//     const page = await ana.open('/app/tasks');
//     await axe(page);
//   });

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

export const LANGUAGES = ['en', 'es', 'ja', 'ko'];
/** Where pages in a language are looked at on a phone, if they are looked at once. */
const ON_PHONE = ['es', 'ko'];
/** Where barriers are looked for in pages that are seen in every language: of the others, Spanish is the longest. */
const AXE_IN = ['en', 'es'];
export const PHONE = { width: 390, height: 844 };
export const DESK = { width: 1440, height: 900 };

const TENURE = process.env.TENURE_BIN ?? fileURLToPath(new URL('../../../target/debug/tenure', import.meta.url));
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell';
const FAILED = fileURLToPath(new URL('failed/', import.meta.url));
/** Longer than anything should take on a busy machine. */
const PATIENCE_MS = 20_000;
const axeCore = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** @type {import('playwright-core').Browser} */
let browser;
/** @type {{base: string, stop: () => Promise<void>}} */
let server;

before(async () => {
  assert.ok(existsSync(TENURE), `there is no ${TENURE}: build it, or say where it is in TENURE_BIN`);
  server = await startServer();
  // A graphics card that is played by the processor takes it from everything else.
  const args = ['--disable-gpu', ...(process.getuid?.() === 0 ? ['--no-sandbox'] : [])];
  browser = await chromium.launch({ executablePath: CHROMIUM, args });
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** The server's address. */
export const base = () => server.base;

/**
 * A test with people in it.
 * @param {string} name
 * @param {(world: {person: (who: string | null, options?: object) => Promise<Person>, base: string, admin: Api}) => Promise<void>} act
 */
export function journey(name, act) {
  test(name, async () => {
    /** @type {Person[]} */
    const people = [];
    const person = async (/** @type {string | null} */ who, options = {}) => {
      const one = await Person.of(who, options);
      people.push(one);
      return one;
    };
    const admin = new Api('carmen');
    try {
      await act({ person, base: server.base, admin });
      for (const one of people) one.checkConsole();
    } catch (error) {
      await Promise.all(people.map((one, index) => one.keep(join(FAILED, slug(name)), index)));
      throw error;
    } finally {
      await admin.restore();
      await Promise.all(people.map((one) => one.context.close()));
    }
  });
}

/** Somebody at a browser of their own. */
export class Person {
  /** What a page wrote to the console. @type {string[]} */
  errors = [];
  /** @type {RegExp[]} */
  #expected = [];

  /** @param {string | null} who @param {import('playwright-core').BrowserContext} context */
  constructor(who, context) {
    this.who = who;
    this.context = context;
    this.api = new Api(who);
  }

  /**
   * @param {string | null} who One of the demonstration's people; nobody is signed in with `null`.
   * @param {{language?: string, viewport?: {width: number, height: number}, theme?: 'light' | 'dark'}} [options]
   */
  static async of(who, { language = 'en', viewport = DESK, theme = 'light' } = {}) {
    const isPhone = viewport.width < 600;
    const context = await browser.newContext({
      baseURL: server.base, viewport, locale: language, colorScheme: theme, hasTouch: isPhone, isMobile: isPhone,
    });
    context.setDefaultTimeout(PATIENCE_MS);
    // Without a film: drawing it costs more than the journey. A failure leaves its last picture.
    await context.tracing.start({ snapshots: true });
    const one = new Person(who, context);
    context.on('page', (page) => one.#listen(page));
    if (who !== null) {
      const answer = await context.request.post('/v1/session', { headers: { 'x-tenure-csrf': '1' }, data: { demo: who } });
      assert.ok(answer.ok(), `${who} cannot sign in: ${answer.status()}`);
    }
    return one;
  }

  /** A new tab at this address. @param {string} path */
  async open(path) {
    const page = await this.context.newPage();
    await page.goto(path);
    return page;
  }

  /** Pages that are opened from here on have a clock that is off. @param {number} minutes */
  async clockOff(minutes) {
    await this.context.addInitScript((ms) => {
      const real = Date.now.bind(Date);
      const Real = Date;
      globalThis.Date = class extends Real {
        constructor(...given) { if (given.length === 0) super(real() + ms); else super(...given); }
        static now() { return real() + ms; }
      };
    }, minutes * 60_000);
  }

  /** From here on an error like this is part of the journey: a refusal, a cut. @param {RegExp} pattern */
  expect(pattern) {
    this.#expected.push(pattern);
  }

  checkConsole() {
    const surprises = this.errors.filter((text) => !this.#expected.some((pattern) => pattern.test(text)));
    assert.deepEqual(surprises, [], `${this.who}'s console`);
  }

  /** Something to look at afterwards. @param {string} folder @param {number} index */
  async keep(folder, index) {
    await mkdir(folder, { recursive: true });
    const name = `${index}-${this.who}`;
    const pages = this.context.pages().map((page, tab) => page.screenshot({ path: join(folder, `${name}-${tab}.png`) }));
    // A page that cannot be drawn any more has a trace all the same.
    await Promise.allSettled(pages);
    await this.context.tracing.stop({ path: join(folder, `${name}.zip`) }).catch(() => {});
  }

  /** @param {import('playwright-core').Page} page */
  #listen(page) {
    page.on('console', (message) => { if (message.type() === 'error') this.errors.push(`${message.text()} ${message.location().url}`); });
    page.on('pageerror', (error) => this.errors.push(String(error.stack ?? error)));
  }
}

/** The server without a page, as one of the people: to arrange things, and to look at what became of them. */
export class Api {
  #cookie = '';
  /** @type {Map<string, object>} */
  #policies = new Map();

  /** @param {string | null} who */
  constructor(who) {
    this.who = who;
  }

  /** @param {string} method @param {string} path @param {unknown} [body] @returns {Promise<any>} */
  async ask(method, path, body) {
    if (!this.#cookie && this.who) {
      const answer = await this.#send('POST', '/v1/session', { demo: this.who });
      this.#cookie = answer.headers.getSetCookie().map((cookie) => cookie.split(';')[0]).join('; ');
    }
    const answer = await this.#send(method, path, body);
    const text = await answer.text();
    assert.ok(answer.ok, `${this.who}: ${method} ${path} → ${answer.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** Changes a kind's policy until the journey ends: short times, so that nobody need wait. @param {string} kind @param {Record<string, any>} change */
  async policy(kind, change) {
    const { policy } = await this.ask('GET', `/v1/policies/${kind}`);
    if (!this.#policies.has(kind)) this.#policies.set(kind, policy);
    const { ttl_ms, ...rest } = change;
    const phases = ttl_ms === undefined ? policy.phases : policy.phases.map((/** @type {any} */ phase) => ({ ...phase, ttl_ms }));
    const suited = ttl_ms === undefined ? {} : {
      ttl_ms_min: Math.min(ttl_ms, policy.ttl_ms_min), ttl_ms_max: Math.max(ttl_ms, policy.ttl_ms_max),
      heartbeat_ms: Math.min(policy.heartbeat_ms, Math.round(ttl_ms / 3)),
    };
    await this.ask('PUT', `/v1/policies/${kind}`, { ...policy, ...suited, phases, ...rest });
  }

  async restore() {
    for (const [kind, policy] of this.#policies) await this.ask('PUT', `/v1/policies/${kind}`, policy);
    this.#policies.clear();
  }

  /** @param {string} method @param {string} path @param {unknown} [body] */
  #send(method, path, body) {
    return fetch(server.base + path, {
      method,
      headers: { 'content-type': 'application/json', 'x-tenure-csrf': '1', cookie: this.#cookie },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  }
}

/** No barriers that axe can find. @param {import('playwright-core').Page} page */
export async function axe(page) {
  // By the debugger: the page's own policy lets no script in, and that is to stay so.
  const tool = await page.context().newCDPSession(page);
  // In the middle of fading in, nothing has the contrast that it will have.
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await tool.send('Runtime.evaluate', { expression: await axeCore });
  const { result, exceptionDetails } = await tool.send('Runtime.evaluate', {
    expression: 'axe.run().then(({violations}) => violations.map(({id, nodes}) => `${id}: ${nodes.map((node) => `${node.target.flat().join(" ")} (${node.failureSummary})`).join("; ")}`))',
    awaitPromise: true, returnByValue: true,
  });
  await tool.detach();
  await page.emulateMedia({ reducedMotion: null });
  assert.equal(exceptionDetails, undefined, 'axe ran');
  assert.deepEqual(result.value, [], `axe at ${page.url()}`);
}

/**
 * The same for a page that is seen in every language on a phone and on a desk: once on each, in two languages, since
 * what axe finds is not in the words, and looking takes a second.
 * @param {import('playwright-core').Page} page
 * @param {string} language
 */
export async function axeIn(page, language) {
  assert.equal(await page.evaluate(() => document.documentElement.lang), language);
  if (!AXE_IN.includes(language)) return;
  const isPhone = (page.viewportSize()?.width ?? 0) < 600;
  if (isPhone === ON_PHONE.includes(language)) await axe(page);
}

/**
 * How a page is seen in a language: in English on a phone and on a desk, in every other on one of them, which is where
 * {@link axeIn} looks. Pages that take many steps would be gone through eight times otherwise.
 * @param {string} language
 * @returns {[viewport: {width: number, height: number}, theme: 'light' | 'dark'][]}
 */
export function sights(language) {
  const phone = /** @type {const} */ ([PHONE, 'light']);
  const desk = /** @type {const} */ ([DESK, 'dark']);
  if (language === 'en') return [[...phone], [...desk]];
  return ON_PHONE.includes(language) ? [[...phone]] : [[...desk]];
}

/** Nothing sticks out to the side. @param {import('playwright-core').Page} page */
export async function fits(page) {
  const { over, width } = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return { over: scrollWidth - clientWidth, width: clientWidth };
  });
  assert.ok(over <= 0, `${page.url()} is ${over} px wider than ${width}`);
}

/** Neither on a phone nor on a desk, for a page that is gone through once. @param {import('playwright-core').Page} page */
export async function fitsBoth(page) {
  const here = page.viewportSize() ?? DESK;
  const other = here.width < 600 ? DESK : PHONE;
  await fits(page);
  await page.setViewportSize(other);
  await fits(page);
  await page.setViewportSize(here);
}

/**
 * Waits for something that must come true.
 * @template T
 * @param {() => Promise<T> | T} look
 * @param {{within?: number, what?: string}} [options]
 * @returns {Promise<T>}
 */
export async function eventually(look, { within = PATIENCE_MS, what = 'it' } = {}) {
  const end = Date.now() + within;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    assert.ok(Date.now() < end, `${what} did not come true within ${within} ms`);
    await new Promise((resolve) => { setTimeout(resolve, 25); });
  }
}

async function startServer() {
  const data = await mkdtemp(join(tmpdir(), 'tenure-browser-'));
  const listen = `127.0.0.1:${await freePort()}`;
  const process_ = spawn(TENURE, ['serve', '--demo', '--data', data, '--listen', listen], { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [process_.stdout, process_.stderr]) stream.on('data', (text) => { said += text; });
  const stop = async () => {
    if (process_.exitCode === null) {
      const gone = new Promise((resolve) => { process_.once('exit', resolve); });
      process_.kill('SIGTERM');
      await Promise.race([gone, new Promise((resolve) => { setTimeout(resolve, 5_000).unref(); })]);
      process_.kill('SIGKILL');
    }
    await rm(data, { recursive: true, force: true });
  };
  const address = `http://${listen}`;
  try {
    await eventually(async () => {
      assert.equal(process_.exitCode, null, `the server ended:\n${said}`);
      return fetch(`${address}/readyz`).then(({ ok }) => ok, () => false);
    }, { within: 60_000, what: 'a ready server' });
  } catch (error) {
    await stop();
    throw error;
  }
  return { base: address, stop };
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (probe.address());
      probe.close(() => resolve(port));
    });
  });
}

/** @param {string} name */
const slug = (name) => name.toLowerCase().replace(/[^a-z0-9]+/g, '-');
