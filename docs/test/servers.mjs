// Owns the PostgreSQL and the Redis that a document needs: those of the Rust tests, on loopback. They end when the
// pipe to them does, however this process went.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

/** The longest that they may take to end. */
const END_MS = 30_000;

export class Servers {
  /** @param {string} program  which `tenure`; cargo builds them beside it */
  constructor(program) {
    const file = join(dirname(program), 'examples', 'servers');
    if (!existsSync(file)) throw new Error(`${file} is missing: cargo build -p tenure-store --example servers`);
    // In a group of its own, so that what stops the test at a keyboard leaves it to clean up.
    this.child = spawn(file, { detached: true, stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdin.on('error', () => {});
    this.closed = new Promise((resolve) => this.child.on('close', resolve));
    this.lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
    this.address = null;
  }

  /** The address of the Redis. */
  async redis() {
    this.address ??= await this.said();
    return this.address;
  }

  /** The address of a new, empty database; the Redis' comes first. */
  async database() {
    await this.redis();
    this.child.stdin.write('\n');
    return this.said();
  }

  async said() {
    const { value, done } = await this.lines.next();
    if (done) throw new Error('PostgreSQL and Redis did not start, or ended');
    return value;
  }

  async end() {
    this.child.stdin.end();
    // One that never came up does not read its input, either. PostgreSQL ends with its own pipe.
    const timer = setTimeout(() => this.child.kill('SIGKILL'), END_MS);
    await this.closed;
    clearTimeout(timer);
  }
}
