// A real server for the tests: the binary that TENURE_BIN names, on a port and a folder of its own.

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A port that nobody uses just now. */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts it; can be stopped and started again on the same port and data. */
export async function runServer() {
  const binary = process.env.TENURE_BIN;
  if (!binary) throw new Error('TENURE_BIN names no server: build it, and set TENURE_BIN to target/release/tenure');
  const data = await mkdtemp(join(tmpdir(), 'tenure-sdk-'));
  const base = `http://127.0.0.1:${await freePort()}`;
  const adminKey = `tnr_${'sdk-tests'.repeat(5)}`;
  let child;
  const start = async () => {
    child = spawn(binary, ['serve', '--demo', '--listen', base.slice('http://'.length), '--data', data], {
      stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, TENURE_ADMIN_KEY: adminKey },
    });
    let said = '';
    child.stdout.on('data', (text) => { said += text; });
    child.stderr.on('data', (text) => { said += text; });
    for (let tries = 0; tries < 200; tries += 1) {
      if (child.exitCode !== null) throw new Error(`the server did not start: ${said}`);
      if (await fetch(`${base}/readyz`).then((answer) => answer.ok, () => false)) return;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error(`the server was not ready in time: ${said}`);
  };
  const stop = async (signal = 'SIGTERM') => {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await gone;
  };
  await start();
  return { base, adminKey, start, stop, close: async () => { await stop('SIGKILL'); await rm(data, { recursive: true, force: true }); } };
}
