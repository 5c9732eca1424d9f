import assert from 'node:assert/strict';
import { test } from 'node:test';

import { GridModel, move, parseRanges } from '../elements/grid-model.js';

const ids = (count, digits = 2) => Array.from({ length: count }, (_, n) => String(n).padStart(digits, '0'));

test('r15_keys_lead_where_the_pattern_says', () => {
  const grid = { length: 95, columns: 10, pageRows: 3 };
  const check = (key, from, to, ctrl = false) => assert.equal(move({ key, ctrl }, from, grid), to, `${key} from ${from}`);
  check('ArrowRight', 9, 10);
  check('ArrowRight', 94, 94);
  check('ArrowLeft', 10, 9);
  check('ArrowLeft', 0, 0);
  check('ArrowDown', 42, 52);
  check('ArrowDown', 88, 88);
  check('ArrowUp', 4, 4);
  check('Home', 47, 40);
  check('End', 47, 49);
  check('End', 91, 94);
  check('Home', 47, 0, true);
  check('End', 47, 94, true);
  check('PageDown', 12, 42);
  check('PageDown', 78, 88);
  check('PageDown', 72, 92);
  check('PageUp', 12, 2);
  check('PageUp', 52, 22);
  check('a', 5, undefined);
});

test('ranges_name_numbers_with_their_zeros', () => {
  assert.deepEqual(parseRanges('1-3, 007,A1', 3), ['001', '002', '003', '007', 'A1']);
  assert.deepEqual(parseRanges('', 3), []);
});

test('states_are_counted_as_they_change', () => {
  const model = new GridModel(ids(100), 10);
  assert.ok(model.set('07', { state: 'other', holder: 'Ana' }));
  assert.ok(!model.set('07', { state: 'other', holder: 'Ana' }), 'no news');
  assert.ok(!model.set('777', { state: 'sold' }), 'no such number');
  model.set('08', { state: 'sold' });
  assert.deepEqual(model.counts, { free: 98, mine: 0, elsewhere: 0, other: 1, sold: 1 });
  model.set('07', { state: 'free' });
  assert.equal(model.counts.free, 99);
});

test('a_filter_keeps_places_when_states_change', () => {
  const model = new GridModel(ids(100), 10);
  for (const id of ['03', '50', '51']) model.set(id, { state: 'sold' });
  model.show('sold');
  assert.deepEqual([model.length, model.idAt(1), model.placeOf('51'), model.placeOf('04')], [3, '50', 2, undefined]);
  model.set('50', { state: 'free' });
  assert.equal(model.idAt(1), '50');
});

test('a_number_is_found_as_people_type_it', () => {
  const model = new GridModel([...ids(50, 4), 'A1'], 10);
  assert.deepEqual(['42', '0042', ' 042 ', 'a1', '999', ''].map((typed) => model.find(typed)), ['0042', '0042', '0042', 'A1', undefined, undefined]);
});

test('ten_thousand_numbers_are_a_hundred_blocks', () => {
  const model = new GridModel(ids(10_000, 4), 10);
  model.set('0105', { state: 'mine' });
  const blocks = model.blocks();
  assert.equal(blocks.length, 100);
  assert.deepEqual(blocks[1], { from: '0100', to: '0199', free: 99, size: 100, mine: true });
});
