// Three ways to hear of a collection's events: a WebSocket, server-sent events over `fetch` (which can send who
// we are, and which Node has), and asking every few seconds. Each tells a `Stream` what it hears and decides
// nothing.

import { Refused } from './errors.js';
import { collectionPath } from './http.js';
import { eventOf, nextOf, pageOf, snapshotOf } from './said.js';

/**
 * @typedef {import('./stream.js').Opener} Opener
 * @typedef {import('./stream.js').Cursor} Cursor
 * @typedef {import('./http.js').Http} Http
 */

/** A browser does not show the server's pings: we send our own, and expect an answer within this. */
const PING_EVERY_MS = 25_000;
const PONG_MAX_MS = 8_000;
/** The server says something on an event stream every 15 seconds. */
const SSE_SILENCE_MAX_MS = 40_000;
const PAGE_MAX = 1_000;

/**
 * @param {Http} http
 * @param {string} collection
 * @param {typeof WebSocket} Socket
 * @returns {Opener}
 */
export function socketWay(http, collection, Socket) {
  return (cursor, ears) => {
    const url = new URL(http.base + collectionPath(collection) + '/ws' + query(cursor), globalThis.location?.href);
    url.protocol = url.protocol.replace('http', 'ws');
    const askedAt = http.own.now();
    const socket = new Socket(url.href);
    /** @type {unknown} */
    let timer;
    const listen = (/** @type {number} */ ms, /** @type {() => void} */ then) => {
      http.timers.clear(timer);
      timer = http.timers.set(then, ms);
    };
    const probe = () => {
      if (socket.readyState !== Socket.OPEN) return;
      socket.send('{"type":"ping"}');
      listen(PONG_MAX_MS, fail);
    };
    const close = () => {
      http.timers.clear(timer);
      socket.onmessage = socket.onclose = socket.onerror = socket.onopen = null;
      // Closing before it is open is an error on some platforms, and not ours to show.
      if (socket.readyState === Socket.CONNECTING) socket.onopen = () => socket.close();
      else socket.close();
    };
    const fail = () => { close(); ears.closed({}); };
    socket.onopen = async () => {
      let key;
      try {
        key = await http.currentKey();
      } catch {
        return fail();
      }
      if (key) socket.send(JSON.stringify({ type: 'hello', key }));
      // With a cursor nothing need come for long; an answer to this shows that we are let in.
      if (cursor) socket.send('{"type":"ping"}');
      listen(PING_EVERY_MS, probe);
    };
    socket.onmessage = ({ data }) => {
      listen(PING_EVERY_MS, probe);
      let message;
      try {
        message = messageOf(data);
      } catch {
        // What cannot be read is not passed over: an event may be missing by it.
        return fail();
      }
      if (message.type === 'snapshot') {
        http.clock.note(askedAt, http.own.now(), message.server_time);
        ears.snapshot(message);
      } else if (message.type === 'event') ears.event(message.event, message.epoch);
      else if (message.type === 'resync') ears.resync();
      else ears.alive();
    };
    socket.onclose = ({ code, reason }) => {
      http.timers.clear(timer);
      ears.closed(socketClosed(code, reason));
    };
    // A close follows, but not everywhere: Node 20 leaves it at the error when nobody answers.
    socket.onerror = fail;
    return { close, probe };
  };
}

/**
 * @param {Http} http
 * @param {string} collection
 * @returns {Opener}
 */
export function sseWay(http, collection) {
  return (cursor, ears) => {
    const stop = new AbortController();
    /** @type {unknown} */
    let timer;
    const close = () => { http.timers.clear(timer); stop.abort(); };
    const silent = () => { close(); ears.closed({}); };
    const listen = () => { http.timers.clear(timer); timer = http.timers.set(silent, SSE_SILENCE_MAX_MS); };
    const run = async () => {
      const more = { accept: 'text/event-stream', ...(cursor && { 'last-event-id': `${cursor.epoch}-${cursor.seq}` }) };
      const askedAt = http.own.now();
      const response = await http.fetch(http.base + collectionPath(collection) + '/events', {
        headers: await http.headers(more), cache: 'no-store', credentials: 'same-origin', signal: stop.signal,
      });
      if (!response.ok || !response.body) {
        // A proxy's page is no problem's text: then the status is all there is.
        return closedBy(new Refused(response.status, await response.json().catch(() => ({}))));
      }
      for await (const block of blocks(response.body)) {
        listen();
        const { name, id, data } = block;
        if (name === 'snapshot') {
          const snapshot = snapshotOf(JSON.parse(data));
          http.clock.note(askedAt, http.own.now(), snapshot.server_time);
          ears.snapshot(snapshot);
        } else if (name === 'resync') ears.resync();
        else if (name === undefined) ears.alive();
        else {
          const epoch = Number(id?.split('-')[0]);
          ears.event(eventOf(JSON.parse(data), epoch), epoch);
        }
      }
      // The server ends a stream when it stops, to be resumed.
      return { soon: true };
    };
    listen();
    run().then(
      (why) => { http.timers.clear(timer); if (!stop.signal.aborted) ears.closed(why); },
      () => { http.timers.clear(timer); if (!stop.signal.aborted) ears.closed({}); },
    );
    return { close };
  };
}

/**
 * @param {Http} http
 * @param {string} collection
 * @param {{everyMs: number, isVisible: () => boolean}} options
 * @returns {Opener}
 */
export function pollWay(http, collection, { everyMs, isVisible }) {
  return (from, ears) => {
    const path = collectionPath(collection);
    const stop = new AbortController();
    let cursor = from;
    /** @type {unknown} */
    let timer;
    // One round at a time: each sets the timer for the next.
    let isAsking = false;
    const close = () => { http.timers.clear(timer); stop.abort(); };
    const later = () => { isAsking = false; timer = http.timers.set(round, everyMs); };
    const look = async () => {
      if (!cursor) {
        const snapshot = await readSnapshot(http, path, stop.signal);
        if (stop.signal.aborted) return;
        cursor = { epoch: snapshot.epoch, seq: snapshot.seq };
        return ears.snapshot(snapshot);
      }
      for (;;) {
        const url = `${path}/events${query(cursor)}&limit=${PAGE_MAX}`;
        const page = pageOf((await http.ask('GET', url, { signal: stop.signal })).body);
        if (stop.signal.aborted) return;
        for (const event of page.events) ears.event(eventOf(event, page.epoch), page.epoch);
        if (stop.signal.aborted) return;
        // Whoever says that there is more and does not say what is asked again later, and not at once.
        const isAll = page.last >= page.newest || page.last <= cursor.seq;
        cursor = { epoch: page.epoch, seq: page.last };
        if (isAll) return ears.alive();
      }
    };
    const round = async () => {
      // A page that nobody sees asks nothing.
      if (!isVisible()) return later();
      isAsking = true;
      try {
        await look();
        if (!stop.signal.aborted) later();
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof Refused && error.code === 'resync') {
          cursor = undefined;
          ears.resync();
          return round();
        }
        ears.closed(error instanceof Refused ? closedBy(error) : {});
      }
    };
    round();
    const probe = () => {
      if (isAsking) return;
      http.timers.clear(timer);
      round();
    };
    return { close, probe };
  };
}

/**
 * The rows as pages of items show them. The number is read first: what happens while the pages are read is
 * told again as events, and telling it twice ends at the same rows.
 * @param {Http} http
 * @param {string} path
 * @param {AbortSignal} signal
 * @returns {Promise<import('./rows.js').Snapshot>}
 */
async function readSnapshot(http, path, signal) {
  const { body: head } = await http.ask('GET', path, { signal });
  const items = [];
  const claims = new Map();
  /** @type {string | null} */
  let after = null;
  do {
    const from = after === null ? '' : `&after=${encodeURIComponent(after)}`;
    /** @type {any} */
    const page = (await http.ask('GET', `${path}/items?limit=${PAGE_MAX}${from}`, { signal })).body;
    const next = nextOf(page, after);
    for (const { claim, server_time: _, ...item } of page.items) {
      items.push(item);
      if (claim) claims.set(claim.id, claim);
    }
    after = next;
  } while (after !== null);
  return snapshotOf({ epoch: head.epoch, seq: head.seq, items, claims: [...claims.values()] });
}

/**
 * A message of a socket. Of a type that a newer server may have nothing is known but that.
 * @param {string} data
 * @returns {any}
 */
function messageOf(data) {
  const message = JSON.parse(data);
  if (message.type === 'snapshot') snapshotOf(message);
  if (message.type === 'event') eventOf(message.event, message.epoch);
  return message;
}

/** @param {Cursor | undefined} cursor */
const query = (cursor) => (cursor ? `?since=${cursor.seq}&epoch=${cursor.epoch}` : '');

/** @param {Refused} refused @returns {import('./stream.js').Why} */
const closedBy = (refused) => ({
  [isWho(refused.status) ? 'refused' : 'because']: refused,
  // Something in between that does not know this form of the route; the server's own word for what is not there
  // is another thing.
  unsupported: [404, 405, 406].includes(refused.status) && refused.code !== 'not_found',
});

/** Who we are is not enough; asking again changes nothing. @param {number} status */
const isWho = (status) => status === 401 || status === 403;

/** What the word of a closed socket means. The first three are one code elsewhere. @type {Record<string, string>} */
const CLOSED = {
  no_hello: 'nobody is signed in, and no key was given',
  unauthenticated: 'the key or token is not valid',
  revoked: 'the key, token or session is over',
  forbidden: 'this is not for you to see',
};

/**
 * Why a socket was closed: its code is a status, its reason has a word for it.
 * @param {number} code
 * @param {string} text
 * @returns {import('./stream.js').Why}
 */
export function socketClosed(code, text) {
  const status = code - 4_000;
  const soon = code === 1012 || code === 4008;
  if (status < 400 || status > 599) return { refused: undefined, soon };
  const otherwise = status === 401 ? 'unauthenticated' : status === 403 ? 'forbidden' : `http_${status}`;
  let word = otherwise;
  try {
    word = JSON.parse(text).reason ?? otherwise;
  } catch {
    // Not the server's words.
  }
  const detail = CLOSED[word] ?? `the server refused: ${word}`;
  const refused = new Refused(status, { code: status === 401 ? otherwise : word, detail, reason: word });
  return isWho(status) ? { refused, soon } : { because: refused, soon };
}

/**
 * The blocks of an event stream. A comment alone is a block without a name.
 * @param {ReadableStream<Uint8Array>} body
 */
async function* blocks(body) {
  const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let text = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      // A snapshot comes in many pieces: look for its end in the new piece only.
      const from = Math.max(0, text.length - 1);
      text += value;
      let end = text.indexOf('\n\n', from);
      while (end >= 0) {
        yield block(text.slice(0, end));
        text = text.slice(end + 2);
        end = text.indexOf('\n\n');
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** @param {string} text */
function block(text) {
  /** @type {Record<string, string>} */
  const fields = {};
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, '');
  }
  return { name: fields.event, id: fields.id, data: fields.data ?? '' };
}
