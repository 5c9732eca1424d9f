// A reader who does what a document says: a folder, a shell that stays open, a server in a second terminal.
//
// The folder has a clone of the repository as `tenure/`; programs that a document calls are on the PATH. What stands
// in a block is run, but for this:
//
//   127.0.0.1:8080, https://rifa.example/    the server, on a port that is free
//   tnr_…                                    the key that it printed
//   postgres://tenure:…@db.example/tenure    a PostgreSQL of the test's own; in each block a new, empty database
//   redis://:password@redis.example:6379     a Redis of the test's own
//   /etc/tenure, /var/lib/tenure, …          folders of the test's own
//   cargo run --release --                   Tenure as it was built for the tests; with -p tenure-sim the simulator
//   tenure bench store                       a fraction of its measurements
//
// Each `curl` is curl, and notes the statuses of 400 and above that it is answered with: by itself it would call them
// a success, and a document would go on.

import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { Servers } from './servers.mjs';

const ADDRESS = '127.0.0.1:8080';
/** The same where the port is a word of its own. */
const SEPARATE = /(--bind 127\.0\.0\.1 )8080\b/g;
const SITE = 'https://rifa.example/';
const DATABASE = 'postgres://tenure:…@db.example/tenure';
const REDIS = 'redis://:password@redis.example:6379';
const MACHINE = /\/(etc|var\/lib|var\/backups)\/tenure\b/g;
const SIMULATOR = 'cargo run --release -p tenure-sim --';
const BUILT = 'cargo run --release --';
const BENCH = /tenure bench store\b/g;
/** Seconds instead of minutes: the least that it takes. */
const BRIEFLY = '--collections 1 --items 5120 --millis 20 --rounds 1 --events 10';
/** A server's word that it can be asked; the second is Python's. */
const READY = ['Listening on http://', '(http://'];
/** Curl, whose answers' heads go into a file. The last is the answer, behind those of an upgrade or a redirection. */
const CURL = `#!/bin/sh
heads=$(mktemp)
curl=$(PATH=\${PATH#*:}; command -v curl)
"$curl" --dump-header "$heads" "$@"
code=$?
sed -n 's/^HTTP[^ ]* \\([0-9]*\\).*/\\1/p' "$heads" | tail -n 1 | grep '^[45]' >> "$DOCS_REFUSED"
rm "$heads"
exit $code
`;
/** A block that takes longer hangs. */
const BLOCK_MS = 60_000;
/** A debug build fills its demonstration meanwhile. */
const START_MS = 60_000;
/** After this a server that was told to stop is killed. */
const STOP_MS = 15_000;
const END = '@@block-ended@@';

/** What runs, should the test itself be ended. */
const open = new Set();
process.on('exit', () => open.forEach((child) => signal(child, 'SIGKILL')));
for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => process.exit(1));

/** A process of its own group, with all that it starts. */
function begin(given, options) {
  const child = spawn('bash', given, { ...options, detached: true });
  open.add(child);
  child.on('close', () => open.delete(child));
  return child;
}

export class Reader {
  /** @param {{ repository: string, program: string, from: string }} where  `from` is the document's own folder */
  static async begin({ repository, program, from }) {
    const folder = await mkdtemp(join(tmpdir(), 'tenure-docs-'));
    await symlink(repository, join(folder, 'tenure'));
    // On the PATH as `tenure`, whatever the file is called.
    const programs = await mkdtemp(join(tmpdir(), 'tenure-docs-bin-'));
    await symlink(program, join(programs, 'tenure'));
    // Where a document links what lies elsewhere on a machine.
    await mkdir(join(programs, 'var', 'lib'), { recursive: true });
    await writeFile(join(programs, 'curl'), CURL, { mode: 0o755 });
    await writeFile(join(programs, 'refused'), '');
    // What is said of `web/` is done there.
    const home = from === 'web' ? join(folder, 'tenure', 'web') : folder;
    return new Reader(folder, home, programs, `127.0.0.1:${await freePort()}`, program);
  }

  constructor(folder, home, programs, address, program) {
    this.program = program;
    this.folder = folder;
    this.home = home;
    this.programs = programs;
    this.address = address;
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('TENURE_'));
    this.environment = {
      ...Object.fromEntries(inherited),
      PATH: `${programs}:${dirname(process.execPath)}:${process.env.PATH}`,
      // Whatever a document starts listens where the test looks, and keeps to the document's folder.
      TENURE_LISTEN: address,
      TENURE_URL: `http://${address}`,
      DOCS_REFUSED: join(programs, 'refused'),
      HOME: folder,
      NO_COLOR: '1',
      PYTHONUNBUFFERED: '1',
    };
    this.server = null;
    this.servers = null;
    this.key = null;
    this.shell = null;
    this.count = 0;
  }

  /** Puts a block into a file, as a reader would who was told to save it. */
  async save(name, text) {
    if (!/^[\w.-]+$/.test(name)) throw new Error(`${name} is no plain file name`);
    await writeFile(join(this.folder, name), await this.readdressed(text));
  }

  async forget(name) {
    await rm(join(this.folder, name), { force: true });
  }

  /**
   * Runs a block in the shell that stays open, and gives what it showed. A command that fails is an error; where the
   * block is to fail, that it does not is one.
   */
  async run(text, { fails = false } = {}) {
    this.shell ??= this.openShell();
    this.count += 1;
    const file = join(this.programs, `block-${this.count}.sh`);
    await writeFile(file, await this.readdressed(text));
    const { shell } = this;
    shell.shown = '';
    const doing = fails ? `(. '${file}') </dev/null && exit 1` : `. '${file}' </dev/null`;
    shell.process.stdin.write(`${doing}; printf '\\n%s\\n' '${END}'\n`);
    await within(BLOCK_MS, 'the block did not end', (resolve, reject) => {
      shell.heard = () => shell.shown.includes(END) && resolve();
      shell.ended = () => reject(new Error(fails ? 'nothing failed' : 'a command failed'));
      if (shell.process.exitCode !== null) shell.ended();
    }).catch((error) => {
      throw new Error(`${error.message}; it showed:\n${shell.shown.slice(-2_000)}`);
    });
    return shell.shown.slice(0, shell.shown.indexOf(END));
  }

  /** The statuses of 400 and above that curl was answered with since this was last asked. */
  async refused() {
    const file = join(this.programs, 'refused');
    const statuses = (await readFile(file, 'utf8')).split('\n').filter(Boolean);
    await writeFile(file, '');
    return statuses;
  }

  openShell() {
    const bash = ['--noprofile', '--norc', '-eo', 'pipefail'];
    const options = { cwd: this.home, env: this.environment, stdio: ['pipe', 'pipe', 'pipe'] };
    const shell = { process: begin(bash, options), shown: '', heard: () => {}, ended: () => {} };
    shell.process.stdin.on('error', () => {});
    for (const stream of [shell.process.stdout, shell.process.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        shell.shown += text;
        shell.heard();
      });
    }
    shell.process.on('close', () => shell.ended());
    return shell;
  }

  /** Starts a server in the second terminal; the one that ran there is stopped first. */
  async serve(text) {
    await this.stopServer();
    const options = { cwd: this.home, env: this.environment, stdio: ['ignore', 'pipe', 'pipe'] };
    const started = begin(['-eo', 'pipefail', '-c', await this.readdressed(text)], options);
    this.server = started;
    let shown = '';
    await within(START_MS, 'the server did not start', (resolve, reject) => {
      for (const stream of [started.stdout, started.stderr]) {
        stream.setEncoding('utf8').on('data', (more) => {
          shown += more;
          if (READY.some((words) => shown.includes(words + this.address))) resolve();
        });
      }
      started.on('close', () => reject(new Error('the server ended')));
    }).catch((error) => {
      throw new Error(`${error.message}; it showed:\n${shown.slice(-2_000)}`);
    });
    // The demonstration's Ana where she is, else the administrator.
    const keys = [/^Ana's key.*: (tnr_\w+)$/m, /^The administrator's key.*: (tnr_\w+)$/m];
    this.key = keys.map((key) => key.exec(shown)?.[1]).find(Boolean) ?? this.key;
    return shown;
  }

  /** As by Ctrl-C. */
  async stopServer() {
    const { server } = this;
    this.server = null;
    if (server === null || server.exitCode !== null) return;
    const ended = new Promise((resolve) => server.on('close', resolve));
    signal(server, 'SIGINT');
    const timer = setTimeout(() => signal(server, 'SIGKILL'), STOP_MS);
    await ended;
    clearTimeout(timer);
  }

  async end() {
    await this.stopServer();
    if (this.shell !== null) signal(this.shell.process, 'SIGKILL');
    await this.servers?.end();
    await rm(this.folder, { recursive: true, force: true });
    await rm(this.programs, { recursive: true, force: true });
  }

  async readdressed(text) {
    let changed = text
      .replaceAll(ADDRESS, this.address)
      .replaceAll(SITE, `http://${this.address}/`)
      .replaceAll(MACHINE, `${this.programs}/$1/tenure`)
      .replaceAll(SIMULATOR, join(dirname(this.program), 'tenure-sim'))
      .replaceAll(BUILT, 'tenure')
      .replaceAll(SEPARATE, `$1${this.address.split(':')[1]}`)
      .replaceAll(BENCH, `$& ${BRIEFLY}`);
    if (this.key !== null) changed = changed.replaceAll('tnr_…', this.key);
    if (![DATABASE, REDIS].some((address) => changed.includes(address))) return changed;
    this.servers ??= new Servers(this.program);
    const database = await within(START_MS, 'PostgreSQL and Redis did not start', (resolve, reject) => {
      this.servers.database().then(resolve, reject);
    });
    return changed.replaceAll(REDIS, await this.servers.redis()).replaceAll(DATABASE, database);
  }
}

/** To the process and all that it started. */
function signal(child, name) {
  try {
    process.kill(-child.pid, name);
  } catch {
    // It is gone.
  }
}

function within(ms, words, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${words} within ${ms / 1000} s`)), ms);
  });
  return Promise.race([new Promise(work), late]).finally(() => clearTimeout(timer));
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
