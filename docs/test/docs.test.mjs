// Does what the documentation says. For each document, in order:
//
//   sh run              run in one shell that stays open; a command that fails fails the document
//   sh run stopped      the server in the second terminal is stopped first
//   sh run fails        it is the document's point that this fails
//   sh run refused:409  curl is answered with these statuses of 400 and above, in this order, and with no other of them
//   sh serve            run in a second terminal; the server that ran there is stopped first
//   sh skip why         not run, for a stated reason; words.test.mjs looks up what it names
//   text shows          the block before must have shown these lines, `…` for anything
//   … file=name         saved under this name first
//
// A shell block without one of these marks is refused. Every other language is at least parsed.
//
//   cargo test --workspace --no-run
//   TENURE_BIN=target/debug/tenure node --test docs/test/*.test.mjs
//
// A language's own tool must be there; TENURE_TEST_WITHOUT=php goes on without that one, and says so.

import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';

import { anchorsOf, blocksOf, linksOf, missingFrom } from './blocks.mjs';
import { PARSERS, SKIPPED, configuration, shell, sql } from './parse.mjs';
import { documents, program, read, repository } from './place.mjs';
import { Reader } from './reader.mjs';

/** Marks that say what becomes of a shell block; it needs one. */
const FATES = ['run', 'serve', 'skip'];
/** What is not parsed here: words, and Rust, of which rustdoc makes tests. */
const UNPARSED = ['text', 'rust'];
/** Languages whose tool this machine may do without. */
const WITHOUT = (process.env.TENURE_TEST_WITHOUT ?? '').split(',');

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
        if (wrong === SKIPPED && WITHOUT.includes(block.language)) t.diagnostic(`${where}: nothing here reads it`);
        else assert.equal(wrong, null, `${where}: ${wrong === SKIPPED ? `nothing here reads ${block.language}` : ''}`);
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
    const reader = await Reader.begin({ repository, program, from: dirname(path) });
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
        if (block.marks.has('run')) {
          shown = await told(where, reader.run(block.text, { fails }));
          const refused = (block.marks.get('refused') ?? '').split(',').filter(Boolean);
          assert.deepEqual(await reader.refused(), refused, `${where}: refusals; it showed:\n${shown.slice(-3_000)}`);
        }
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
