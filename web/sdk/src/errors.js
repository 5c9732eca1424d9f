// What can go wrong, as two types: the server said no, or nobody knows what it said. Nothing here retries.

/**
 * @typedef {{id: string, name: string}} Person
 * @typedef {Record<string, unknown> & {code?: string, detail?: string, title?: string, retry_after?: number}} Problem
 */

/** The server's refusal. `code` is stable; `problem` has what a program needs. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {Problem} problem
   */
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `the server answered ${status}`);
    this.name = 'Refused';
    this.status = status;
    this.problem = problem;
    /** @type {string} */
    this.code = problem.code ?? `http_${status}`;
  }

  /** How long to wait before trying again makes sense; `undefined` if the server did not say. */
  get retryAfterMs() {
    const seconds = this.problem.retry_after;
    return typeof seconds === 'number' ? seconds * 1000 : undefined;
  }

  /** The same request may well succeed later: the server is busy, away or stopping. */
  get isPassing() {
    return this.status === 429 || this.status >= 500 || this.code === 'in_progress' || this.status === 408;
  }
}

/** No answer: whether the request had an effect is unknown. */
export class Unreachable extends Error {
  /** @param {unknown} cause */
  constructor(cause) {
    super('the server could not be reached', { cause });
    this.name = 'Unreachable';
    this.code = 'unreachable';
  }
}

/** The claim must not be counted on: `detail` says why, as in the event `lost` or `uncertain`. */
export class NotHeld extends Error {
  /** @param {string} state */
  constructor(state) {
    super(`the claim is ${state}`);
    this.name = 'NotHeld';
    this.code = 'not_held';
    this.state = state;
  }
}
