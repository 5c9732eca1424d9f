// A raffle's numbers, live: over its socket, else by asking every few seconds. One character each, as the server
// gives them, kept up to date; the SDK's stream decides when to connect and from where to go on.

import { Refused } from '../../sdk/tenure.js';
import { Emitter } from '../../sdk/src/emitter.js';
import { part } from '../../sdk/src/http.js';
import { Stream } from '../../sdk/src/stream.js';
import { socketClosed } from '../../sdk/src/transports.js';
import { messageOf, numbersOf } from './said.js';

/**
 * @typedef {import('../lib/place.js').Place} Place
 * @typedef {import('./model.js').Raffle} Raffle
 * @typedef {import('../../sdk/src/stream.js').Opener} Opener
 * @typedef {'-' | 'r' | 'm' | 's' | 'b'} Char Available, reserved, reserved by me, sold, bought by me.
 * @typedef {{numbers: number[]}} Change
 */

const PING_EVERY_MS = 25_000;
const PONG_MAX_MS = 8_000;
const POLL_MS = 5_000;
/** What somebody lets go of within this time is told of together: each number comes in a message of its own. */
const TOGETHER_MS = 1_000;

/** @extends {Emitter<{change: Change, freed: Change, raffle: {status: Raffle['status']}, status: import('../../sdk/tenure.js').Status}>} */
export class RaffleLive extends Emitter {
  /** @type {Char[]} */
  chars = [];
  /** Where the socket goes on. @type {{epoch: number, seq: number} | undefined} */
  #from;
  /** The stream counts by itself: several messages may be about one of the server's numbers. */
  #count = 0;
  /** @type {string | undefined} */
  #etag;
  #stream;
  /** Let go by others, and not told of yet. @type {Set<number>} */
  #freed = new Set();
  /** @type {unknown} */
  #telling;

  /** @param {Place} place @param {string} id */
  constructor(place, id) {
    super();
    this.place = place;
    this.path = `/raffles/${part(id)}`;
    this.me = place.session.person?.id;
    const { tenure } = place;
    this.#stream = new Stream({ ways: { socket: this.#socket(), poll: this.#poll() }, own: tenure.own, timers: tenure.timers });
    this.#stream.on('snapshot', (snapshot) => this.#reset(/** @type {any} */ (snapshot)));
    this.#stream.on('event', (event) => this.#take(/** @type {any} */ (event)));
    this.#stream.on('status', (status) => this.emit('status', status));
  }

  /** Begins, until the page is left. @param {{isShown?: boolean}} [options] The bar shows how this connection is. */
  start({ isShown = true } = {}) {
    const { place } = this;
    // Whoever has gone while it loaded is not followed by a socket.
    if (place.isLeft) return this;
    const { tenure } = place;
    const nudge = () => this.#stream.nudge();
    tenure.own.onJump.add(nudge);
    const ends = [
      // An open connection would keep the page out of the browser's cache.
      tenure.page.on('leave', () => this.#stream.stop()),
      tenure.page.on('back', () => { this.#stream.start(); nudge(); }),
      tenure.page.on('offline', nudge),
      () => { tenure.own.onJump.delete(nudge); },
      () => this.#stream.stop(),
      () => this.#forget(),
    ];
    if (isShown) ends.push(place.shell.follow(/** @type {any} */ (this)));
    place.onLeave(() => ends.forEach((end) => end()));
    this.#stream.start();
    return this;
  }

  get status() {
    return this.#stream.status;
  }

  get ageMs() {
    if (this.status.state === 'live') return 0;
    const { heardAt } = this.#stream;
    return heardAt === undefined ? undefined : this.place.tenure.own.now() - heardAt;
  }

  /** What was read otherwise: the first sight of a page, or what we did ourselves. @param {string} numbers */
  show(numbers) {
    this.#set(/** @type {Char[]} */ ([...numbers]));
  }

  /** Ours now, or not any more: we need not wait for the stream. @param {number[]} numbers @param {Char} char */
  mark(numbers, char) {
    const changed = numbers.filter((number) => this.chars[number - 1] !== char);
    for (const number of changed) {
      this.#notice(number, this.chars[number - 1], char);
      this.chars[number - 1] = char;
    }
    if (changed.length > 0) this.emit('change', { numbers: changed });
  }

  /** @param {Char[]} chars */
  #set(chars) {
    const before = this.chars;
    this.chars = chars;
    const numbers = [];
    for (let index = 0; index < chars.length; index += 1) {
      if (chars[index] === before[index]) continue;
      this.#notice(index + 1, before[index], chars[index]);
      numbers.push(index + 1);
    }
    if (numbers.length > 0) this.emit('change', { numbers });
  }

  /** One's own are no news, and what is gone again is none any more. @param {number} number @param {Char | undefined} before @param {Char | undefined} after */
  #notice(number, before, after) {
    if (after !== '-') return void this.#freed.delete(number);
    if (before !== 'r') return;
    this.#freed.add(number);
    if (this.#telling !== undefined) return;
    this.#telling = this.place.tenure.timers.set(() => {
      const numbers = [...this.#freed];
      this.#forget();
      if (numbers.length > 0) this.emit('freed', { numbers });
    }, TOGETHER_MS);
  }

  #forget() {
    this.place.tenure.timers.clear(this.#telling);
    this.#telling = undefined;
    this.#freed.clear();
  }

  /** @param {import('./said.js').Numbers} snapshot */
  #reset({ numbers, status }) {
    if (numbers !== undefined) this.show(numbers);
    if (status) this.emit('raffle', { status });
  }

  /** @param {any} message */
  #take(message) {
    if (message.type === 'number_update') {
      const isMine = message.user_id === this.me;
      const char = message.status === 'available' ? '-' : message.status === 'sold' ? (isMine ? 'b' : 's') : isMine ? 'm' : 'r';
      this.mark([message.number_id], char);
    // That a reservation ran out is in its numbers' own messages, which come first.
    } else if (message.type === 'raffle_update') this.emit('raffle', { status: message.status });
  }

  /** @returns {Opener} */
  #socket() {
    return (cursor, ears) => {
      const { http } = this.place.tenure;
      const from = cursor && this.#from;
      const url = new URL(`${this.path}/ws${from ? `?since=${from.seq}&epoch=${from.epoch}` : ''}`, location.href);
      url.protocol = url.protocol.replace('http', 'ws');
      const askedAt = http.own.now();
      const socket = new WebSocket(url.href);
      /** @type {unknown} */
      let timer;
      const listen = (/** @type {number} */ ms, /** @type {() => void} */ then) => {
        http.timers.clear(timer);
        timer = http.timers.set(then, ms);
      };
      const close = () => {
        http.timers.clear(timer);
        socket.onmessage = socket.onclose = socket.onerror = socket.onopen = null;
        if (socket.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
        else socket.close();
      };
      const probe = () => {
        if (socket.readyState !== WebSocket.OPEN) return;
        socket.send('{"type":"ping"}');
        listen(PONG_MAX_MS, () => { close(); ears.closed({}); });
      };
      socket.onopen = () => {
        if (from) socket.send('{"type":"ping"}');
        listen(PING_EVERY_MS, probe);
      };
      socket.onmessage = ({ data }) => {
        listen(PING_EVERY_MS, probe);
        /** @type {any} */
        let message;
        try {
          message = messageOf(data, this.chars.length);
        } catch {
          // A proxy's page or a cut message ends the connection, and not the page.
          close();
          ears.closed({});
          return;
        }
        if (message.type === 'snapshot') {
          http.clock.note(askedAt, http.own.now(), message.server_time);
          this.#from = { epoch: message.epoch, seq: message.seq };
          this.#snapshot(ears, message);
        } else if (message.type === 'resync') {
          this.#from = undefined;
          ears.resync();
        } else if (message.seq !== undefined) {
          if (this.#from) this.#from.seq = Math.max(this.#from.seq, message.seq);
          this.#count += 1;
          ears.event(/** @type {any} */ ({ ...message, seq: this.#count }), 1);
        } else ears.alive();
      };
      socket.onclose = ({ code, reason }) => {
        http.timers.clear(timer);
        ears.closed(socketClosed(code, reason));
      };
      socket.onerror = () => { close(); ears.closed({}); };
      return { close, probe };
    };
  }

  /** @returns {Opener} */
  #poll() {
    return (_, ears) => {
      const { http } = this.place.tenure;
      const stop = new AbortController();
      /** @type {unknown} */
      let timer;
      // One round at a time: each sets the timer for the next.
      let isAsking = false;
      // What is read here has no place in the socket's order: that begins with a snapshot.
      this.#from = undefined;
      this.#etag = undefined;
      const later = () => { isAsking = false; timer = http.timers.set(round, POLL_MS); };
      const round = async () => {
        if (document.hidden) return later();
        isAsking = true;
        try {
          const headers = this.#etag ? { 'if-none-match': this.#etag } : undefined;
          const { body, headers: answered } = await http.ask('GET', `${this.path}/numbers`, { headers, signal: stop.signal });
          if (stop.signal.aborted) return;
          this.#etag = answered.get('etag') ?? undefined;
          this.#snapshot(ears, numbersOf(body));
        } catch (error) {
          if (stop.signal.aborted) return;
          if (!(error instanceof Refused && error.status === 304)) {
            return ears.closed({ refused: error instanceof Refused && (error.status === 401 || error.status === 403) ? error : undefined });
          }
          ears.alive();
        }
        if (!stop.signal.aborted) later();
      };
      void round();
      const probe = () => {
        if (isAsking) return;
        http.timers.clear(timer);
        void round();
      };
      return { close: () => { http.timers.clear(timer); stop.abort(); }, probe };
    };
  }

  /** @param {import('../../sdk/src/stream.js').Ears} ears @param {object} snapshot */
  #snapshot(ears, snapshot) {
    ears.snapshot(/** @type {any} */ ({ ...snapshot, epoch: 1, seq: this.#count }));
  }
}
