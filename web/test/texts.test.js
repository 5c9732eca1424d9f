// Every text in every language, none too many, and each with what is filled in.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { formatLeft, formatTime } from '../i18n/format.js';
import { known, languages, t } from '../i18n/index.js';

const web = new URL('../', import.meta.url);
const { en, ...others } = languages;
const forms = (text) => (typeof text === 'string' ? [text] : Object.values(text));
const blanks = (text) => [...new Set(forms(text).flatMap((form) => form.match(/\{\w+\}/g) ?? []))].sort();

/** The code and pages that may say something. */
async function sources() {
  const names = await readdir(web, { recursive: true });
  const wanted = names.filter((name) => /\.(js|html)$/.test(name) && !/node_modules|(^|\/)test\/|^i18n\/|^sdk\//.test(name));
  return Promise.all(wanted.map(async (name) => ({ name, text: await readFile(new URL(name, web), 'utf8') })));
}

test('t24_every_language_has_every_text', () => {
  for (const [language, texts] of Object.entries(others)) {
    assert.deepEqual(Object.keys(texts).sort(), Object.keys(en).sort(), language);
  }
});

test('what_is_filled_in_is_filled_in_everywhere', () => {
  for (const [language, texts] of Object.entries(others)) {
    for (const key of Object.keys(en)) assert.deepEqual(blanks(texts[key]), blanks(en[key]), `${language}: ${key}`);
  }
});

test('plurals_have_the_forms_that_their_language_needs', () => {
  for (const [language, texts] of Object.entries(languages)) {
    const needed = new Set([0, 1, 2, 5, 11, 100].map((n) => new Intl.PluralRules(language).select(n)));
    for (const [key, text] of Object.entries(texts)) {
      if (typeof text === 'string') continue;
      for (const form of needed) assert.ok(text[form], `${language}: ${key} lacks "${form}"`);
    }
  }
});

test('no_text_is_empty_or_left_in_english', () => {
  for (const language of ['ja', 'ko']) {
    for (const [key, text] of Object.entries(languages[language])) {
      for (const form of forms(text)) {
        assert.ok(form.trim(), `${language}: ${key}`);
        const words = form.replace(/\{\w+\}/g, '').match(/[A-Za-z]{3,}/g);
        assert.equal(words, null, `${language}: ${key} says ${words}`);
      }
    }
  }
});

test('every_text_is_used_and_every_text_that_is_used_exists', async () => {
  const files = await sources();
  const said = files.map(({ text }) => text).join('\n');
  const unused = Object.keys(en).filter((key) => !said.includes(`'${key}'`) && !said.includes(`"${key}"`));
  assert.deepEqual(unused, []);
  for (const { name, text } of files) {
    const keys = [...text.matchAll(/\bt\('([^']+)'/g), ...text.matchAll(/data-t="([^"]+)"/g)].map(([, key]) => key);
    for (const key of keys) assert.ok(key in en, `${name} says ${key}`);
  }
});

test('numbers_choose_the_form_and_names_are_filled_in', () => {
  assert.equal(t('raffle.freed', { n: 1 }, 'es'), '1 número ha sido liberado');
  assert.equal(t('raffle.freed', { n: 3 }, 'en'), '3 numbers are free again');
  assert.equal(t('lock.other', { name: 'Ana', time: '10:02' }, 'ja'), 'Ana が 10:02 から使用中');
});

test('languages_are_known_by_their_first_part', () => {
  assert.deepEqual(['es-CR', 'JA', 'fr', undefined].map(known), ['es', 'ja', undefined, undefined]);
});

test('time_left_counts_a_begun_second', () => {
  assert.deepEqual([0, 1, 6_001, 161_000, 3_723_000, -5].map(formatLeft), ['0:00', '0:01', '0:07', '2:41', '1:02:03', '0:00']);
});

test('the_time_of_another_day_says_so', () => {
  const now = new Date(2026, 0, 2, 15).getTime();
  assert.equal(formatTime(new Date(2026, 0, 2, 10, 2).toISOString(), now, 'en'), '10:02');
  assert.match(formatTime(new Date(2026, 0, 1, 10, 2).toISOString(), now, 'en'), /Jan 1.*10:02/);
});
