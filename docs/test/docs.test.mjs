// Does what the documentation says. For each document, in order:
//
//   sh run              run in one shell that stays open; a command that fails fails the document
//   sh run stopped      the server in the second terminal is stopped first
//   sh run fails        it is the document's point that this fails
//   sh serve            run in a second terminal; the server that ran there is stopped first
//   sh skip why         not run, for a stated reason; only its syntax is looked at, and the flags of `tenure`
//   text shows          the block before must have shown these lines, `…` for anything
//   … file=name         saved under this name first
//
// A shell block without one of these marks is refused. Every other language is at least parsed.
//
//   cargo test --workspace --no-run
//   TENURE_BIN=target/debug/tenure node --test docs/test/docs.test.mjs

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { anchorsOf, blocksOf, commandOf, linesOf, linksOf, missingFrom } from './blocks.mjs';
import { PARSERS, SKIPPED, configuration, shell, sql } from './parse.mjs';
import { Reader } from './reader.mjs';

const repository = resolve(dirname(fileURLToPath(import.meta.url)), '..', '..');
const program = process.env.TENURE_BIN && resolve(process.env.TENURE_BIN);
const read = (path) => readFileSync(join(repository, path), 'utf8');

const documents = [
  ...['README.md', 'CONTRIBUTING.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'web/README.md', 'web/sdk/README.md'],
  ...readdirSync(join(repository, 'docs')).filter((name) => name.endsWith('.md')).sort().map((name) => `docs/${name}`),
];
/** Marks that say what becomes of a shell block; it needs one. */
const FATES = ['run', 'serve', 'skip'];
/** What nothing here can parse: other tools' files, and words. */
const UNPARSED = ['', 'text', 'html', 'yaml', 'nginx', 'rust', 'blade', 'ini'];

test('TENURE_BIN names the program', () => {
  assert.ok(program && existsSync(program), 'set TENURE_BIN to a built tenure');
});

for (const path of documents) {
  const markdown = read(path);
  const blocks = blocksOf(markdown);

  test(`${path}: every block is marked and written in its language`, (t) => {
    for (const block of blocks) {
      const where = `${path}:${block.line}`;
      if (block.language === 'sh') {
        const fates = FATES.filter((fate) => block.marks.has(fate));
        assert.equal(fates.length, 1, `${where}: mark it with one of ${FATES.join(', ')}`);
        assert.notEqual(block.marks.get('skip'), '', `${where}: skip, and why`);
        assert.equal(shell(block.text), null, where);
      } else if (block.language in PARSERS) {
        const wrong = PARSERS[block.language](block.text, { repository });
        if (wrong === SKIPPED) t.diagnostic(`${where}: nothing here reads ${block.language}`);
        else assert.equal(wrong, null, where);
      } else {
        assert.ok([...UNPARSED, 'sql', 'toml'].includes(block.language), `${where}: ${block.language}?`);
      }
    }
    const statements = blocks.filter(({ language }) => language === 'sql').map(({ text }) => text);
    if (statements.length > 0) assert.equal(sql(statements), null, `${path}: its SQL`);
  });

  test(`${path}: its links lead somewhere`, () => {
    for (const link of linksOf(markdown)) {
      const [target, anchor] = link.split('#');
      const file = target === '' ? path : relative(repository, resolve(repository, dirname(path), target));
      assert.ok(existsSync(join(repository, file)), `${link}: there is no ${file}`);
      if (anchor && statSync(join(repository, file)).isFile()) {
        assert.ok(anchorsOf(read(file)).includes(anchor), `${link}: there is no such heading`);
      }
    }
  });

  const isDone = ({ language, marks }) => language === 'toml' || marks.has('run') || marks.has('serve');
  if (!blocks.some(isDone)) continue;
  test(`${path}: what it says can be done as it stands`, async () => {
    const reader = await Reader.begin({ repository, program });
    let shown = '';
    try {
      for (const block of blocks) {
        const where = `${path}:${block.line}`;
        const name = block.marks.get('file') ?? (block.language === 'toml' ? 'tenure.toml' : undefined);
        if (name !== undefined) await reader.save(name, block.text);
        if (block.language === 'toml') assert.equal(configuration(join(reader.folder, name), program), null, where);
        // What only this block says must not be the next server's configuration.
        if (block.language === 'toml' && !block.marks.has('file')) await reader.forget(name);
        if (block.marks.has('serve')) shown = await told(where, reader.serve(block.text));
        if (block.marks.has('stopped')) await reader.stopServer();
        const fails = block.marks.has('fails');
        if (block.marks.has('run')) shown = await told(where, reader.run(block.text, { fails }));
        if (block.marks.has('shows')) {
          const missing = missingFrom(shown, block.text);
          assert.equal(missing, null, `${where}: “${missing}” was not shown; this was:\n${shown.slice(-3_000)}`);
        }
      }
    } finally {
      await reader.end();
    }
  });
}

/** With the place in what went wrong. */
async function told(where, doing) {
  try {
    return await doing;
  } catch (error) {
    throw new Error(`${where}: ${error.message}`);
  }
}

test('every command of tenure that a document mentions is one, with its flags', () => {
  const known = new Map();
  for (const path of documents) {
    for (const code of linesOf(read(path))) {
      const words = commandOf(code);
      if (words === null) continue;
      const command = words.join(' ');
      // Help is given only where all that stands before it is understood.
      if (!known.has(command)) known.set(command, spawnSync(program, [...words, '--help'], { encoding: 'utf8' }));
      const { status, stderr } = known.get(command);
      assert.equal(status, 0, `${path}: tenure ${command} in “${code}”: ${stderr}`);
    }
  }
});

test('every test that a document names is one', () => {
  const sources = spawnSync('git', ['ls-files', '*.rs'], { cwd: repository, encoding: 'utf8' }).stdout.split('\n');
  const known = new Map();
  for (const path of sources.filter(Boolean)) {
    for (const [, name] of read(path).matchAll(/fn ([a-z0-9_]+)\s*\(/g)) {
      known.set(name, [...(known.get(name) ?? []), path]);
    }
  }
  for (const path of documents) {
    for (const code of linesOf(read(path))) {
      const [, crate] = /^cargo test -p tenure-([a-z]+)/.exec(code) ?? [];
      const [, file] = / --test ([a-z]+)/.exec(code) ?? [];
      const home = crate === 'fuzz' ? 'fuzz/' : `crates/${crate ? `${crate}/` : ''}`;
      if (crate && file) {
        const places = [`${home}tests/${file}.rs`, `${home}tests/${file}/main.rs`];
        assert.ok(places.some((place) => sources.includes(place)), `${path}: there is no test ${file} in ${crate}`);
      }
      // Long names with many words are tests'; `cargo test` may also name a whole file of them.
      const name = crate ? code.split(' ').at(-1) : code;
      if (!/^[a-z0-9]+(_[a-z0-9]+){5,}$/.test(name)) continue;
      const places = (known.get(name) ?? []).filter((place) => place.startsWith(home));
      assert.ok(places.length > 0, `${path}: there is no test ${name}${crate ? ` in ${crate}` : ''}`);
    }
  }
});

test('every figure that a rule, a dashboard or a document names is one', () => {
  const figures = new Map();
  for (const [, name, shape] of read('crates/server/src/metrics.rs').matchAll(/"(tenure_[a-z_]+)",\s*Shape::(\w+)/g)) {
    const ends = shape === 'Histogram' ? ['', '_bucket', '_sum', '_count'] : [''];
    for (const end of ends) figures.set(name + end, shape);
  }
  assert.ok(figures.size > 20, 'the figures were found');
  const sources = ['deploy/prometheus/tenure.rules.yml', 'deploy/grafana/tenure.json'];
  for (const path of [...sources, ...documents]) {
    // Rust's crates and Python's modules are spelled in the same way.
    const names = [...read(path).matchAll(/(?<![\w.-])tenure_[a-z_]+(?!\w|::)/g)].map(([name]) => name);
    for (const name of names) {
      if (/^tenure_(core|engine|store|server|client|apps|sim|cli)$/.test(name)) continue;
      assert.ok(figures.has(name), `${path}: there is no figure ${name}`);
    }
  }
});
