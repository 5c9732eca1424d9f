// What is outlined, saved one after the other, beside answers that come late.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Saving } from '../pages/labels/saving.js';
import { Refused } from '../sdk/tenure.js';

const content = (/** @type {number} */ x) => ({ geometry: { type: 'rectangle', x, y: 0, width: 10, height: 10 }, class_id: 'car' });

/** One annotation, on a server that answers a list when it is told to. */
function world() {
  let row = { id: 'a', version: 1, ...content(1) };
  /** @type {(() => void)[]} */
  const held = [];
  const place = {
    isHeld: false,
    get() {
      const answer = { annotations: [row], next: null };
      return place.isHeld ? new Promise((resolve) => { held.push(() => resolve(answer)); }) : Promise.resolve(answer);
    },
    async send(/** @type {string} */ _method, /** @type {string} */ _path, /** @type {any} */ { version, ...wanted }) {
      if (version !== row.version) throw new Refused(409, { code: 'conflict' });
      row = { ...row, ...wanted, version: version + 1 };
      return row;
    },
    answer: () => held.splice(0).forEach((give) => give()),
  };
  const asked = /** @type {any[]} */ ([]);
  const ask = async (/** @type {any[]} */ ...about) => { asked.push(about); return 'theirs'; };
  const saving = new Saving(/** @type {any} */ ({ place, path: '/images/i', token: () => 7, ask, annotations: [row] }));
  return { saving, place, asked, version: () => row.version };
}

test('l01_a_list_that_was_read_before_a_save_and_comes_after_it_is_not_taken', async () => {
  const { saving, place, asked, version } = world();
  saving.change('a', content(2), { version: 1, at: 1 });
  await saving.settled();
  place.isHeld = true;
  const reading = saving.reload(() => false);
  saving.change('a', content(3), { version: 2, at: performance.now() });
  await saving.settled();
  place.answer();
  await reading;
  assert.equal(saving.find('a')?.version, 3, 'and not the list’s');
  saving.undo();
  saving.undo();
  await saving.settled();
  assert.deepEqual(asked, [], 'nobody else was faster');
  assert.equal(version(), 5);
});

test('l01_what_others_did_is_taken', async () => {
  const { saving, place } = world();
  await place.send('PUT', '', { ...content(9), version: 1 });
  await saving.reload(() => false);
  assert.equal(saving.find('a')?.version, 2);
});
