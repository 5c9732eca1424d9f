// The example's code is there to be copied: it is run here as it stands, on a page and an SDK that the test plays.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const page = readFileSync(new URL('../elements/example.html', import.meta.url), 'utf8');
const ENTITIES = { lt: '<', gt: '>', amp: '&', quot: '"' };
const snippets = [...page.matchAll(/<pre data-copy[^>]*><code>([^]*?)<\/code>/g)]
  .map(([, code]) => code.replace(/&(\w+);/g, (_, name) => ENTITIES[name]));

/** What the badge's code makes of a collection in which this claim is. */
async function badge(claim, { state = 'live', subject = { id: 'ana' } } = {}) {
  const code = snippets.find((text) => text.includes("querySelector('tenure-lock')"));
  const shown = {};
  const heard = [];
  const watch = {
    status: { state }, rows: { held: new Map(claim && [['projector', claim]]) }, on: (_, listener) => heard.push(listener),
  };
  const tenure = { session: 'this-tab', me: async () => ({ subject }), watch: () => ({ watch }) };
  const document = { querySelector: () => ({ setAttribute: (name, value) => { shown[name] = value; } }) };
  const AsyncFunction = (async () => {}).constructor;
  await new AsyncFunction('document', 'tenure', code)(document, tenure);
  for (const listener of heard) listener();
  return shown;
}

const held = (id, session) => ({ holder: { id, name: id }, session, since: 'then' });

test('the_badge_tells_this_tab_from_another_of_the_same_person', async () => {
  assert.equal((await badge(held('ana', 'this-tab'))).state, 'mine');
  assert.equal((await badge(held('ana', 'another-tab'))).state, 'elsewhere');
  assert.equal((await badge(held('ana', null))).state, 'elsewhere');
});

test('the_badge_knows_others_nobody_and_not_to_know', async () => {
  assert.deepEqual(await badge(held('luis', 'this-tab')), { state: 'other', holder: 'luis', since: 'then' });
  assert.equal((await badge(held('ana', 'this-tab'), { subject: null })).state, 'other');
  assert.equal((await badge(undefined)).state, 'free');
  assert.equal((await badge(held('ana', 'this-tab'), { state: 'waiting' })).state, 'unknown');
});
