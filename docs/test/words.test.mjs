// Looks up what the documents name: commands with their flags, tests, figures. What is run is docs.test.mjs' to tell.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

import { blocksOf, commandOf, linesOf } from './blocks.mjs';
import { documents, figures, program, read, repository } from './place.mjs';
import { commandsOf, wrongWith } from './words.mjs';

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

const asked = spawnSync('cargo', ['metadata', '--no-deps', '--format-version', '1'], { cwd: repository, encoding: 'utf8' });
const workspace = JSON.parse(asked.stdout);
const filesOf = (markdown) => blocksOf(markdown).map(({ marks }) => marks.get('file')).filter(Boolean);

test('every other command that a document mentions is one, with its flags and files', () => {
  let count = 0;
  for (const path of documents) {
    const markdown = read(path);
    const place = { repository, program, workspace, files: filesOf(markdown) };
    for (const code of linesOf(markdown)) {
      for (const words of commandsOf(code)) {
        // One word is a name: `cargo`, `node`.
        const wrong = words.length > 1 ? wrongWith(words, place) : undefined;
        if (wrong !== undefined) count += 1;
        assert.equal(wrong ?? null, null, `${path}: ${words.join(' ')} in “${code}”`);
      }
    }
  }
  assert.ok(count > 100, `${count} commands were looked at`);
});

test('of a block that is not run every command is at least looked at', () => {
  for (const path of documents) {
    const place = { repository, program, workspace, files: filesOf(read(path)) };
    for (const block of blocksOf(read(path)).filter(({ marks }) => marks.has('skip'))) {
      for (const line of block.text.replaceAll('\\\n', ' ').split('\n')) {
        for (const words of commandsOf(line)) {
          assert.equal(wrongWith(words, place), null, `${path}:${block.line}: ${words.join(' ')}`);
        }
      }
    }
  }
});

test('what a document leaves to the test command is done there', () => {
  const [web, plan] = [read('xtask/src/web.rs'), read('xtask/src/plan.rs')];
  const skipped = blocksOf(read('web/README.md')).filter(({ marks }) => marks.has('skip')).map(({ text }) => text).join('');
  for (const words of skipped.split('\n').flatMap(commandsOf).filter(([name]) => name === 'npm')) {
    const given = words.slice(1).map((word) => `"${word}"`).join(', ');
    assert.ok(web.includes(`[${given}`), `xtask/src/web.rs does not run ${words.join(' ')}`);
  }
  assert.match(plan, /cargo\("tests", .*"test", "--workspace"/, 'the step tests runs the tests of every crate');
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
      const name = crate ? code.split(' ').at(-1) : code;
      const places = [...known].filter(([test]) => (crate ? test.includes(name) : test === name)).flatMap(([, all]) => all);
      if (crate) {
        // As cargo does it: a part of a test's name, or of the module's that it is in.
        const isAll = [file, `tenure-${crate}`].includes(name);
        const isPart = [...places, ...sources.filter((source) => source.endsWith(`/${name}.rs`))].some((source) => source.startsWith(home));
        assert.ok(isAll || isPart, `${path}: cargo would find no test ${name} in ${crate}`);
      } else if (/^[a-z0-9]+(_[a-z0-9]+){5,}$/.test(name) && !figures.has(name)) {
        // Long names with many words are tests', wherever they stand, unless they are figures'.
        assert.ok(places.some((place) => place.startsWith(home)), `${path}: there is no test ${name}`);
      }
    }
  }
});

test('every figure that a document names is one', () => {
  for (const path of documents) {
    // Rust's crates and Python's modules are spelled in the same way.
    const names = [...read(path).matchAll(/(?<![\w.-])tenure_[a-z_]+(?!\w|::)/g)].map(([name]) => name);
    for (const name of names) {
      if (/^tenure_(core|engine|store|server|client|apps|sim|cli)$/.test(name)) continue;
      assert.ok(figures.has(name), `${path}: there is no figure ${name}`);
    }
  }
});

test('lines of shell are taken apart as a shell does it', () => {
  const check = (line, expected) => assert.deepEqual(commandsOf(line).map((words) => words.join(' ')), expected);
  check('A=1 B=… npm run types   # tsc', ['npm run types']);
  check('docker build --build-arg C=$(git rev-parse HEAD) .', ['docker build --build-arg C=… .', 'git rev-parse HEAD']);
  check('until [ "$(x | y)" = 2 ]; do sleep 1; done', ['[ … = 2 ]', 'sleep 1', 'done', 'x', 'y']);
  check("echo 'a; b' && node --test x.mjs", ['echo a; b', 'node --test x.mjs']);
});
