// Amounts: the server's decimals, read as people write them, and no to what is none.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { afterEach, test } from 'node:test';

import { setLanguage } from '../i18n/index.js';
import { CURRENCIES, distinctMoney, money, parseMoney, plainAmount, plainMoney, TABLE } from '../pages/lib/money.js';

const LANGUAGES = ['en', 'es', 'ja', 'ko'];
/** Without the spaces that only differ in width. */
const plain = (text) => text.replace(/\s/g, ' ');

afterEach(() => setLanguage('en'));

test('r05_decimals_and_signs_are_the_servers', async () => {
  const source = await readFile(new URL('../../crates/apps/src/payments/money.rs', import.meta.url), 'utf8');
  const [, table = ''] = /const TABLE: &\[Row\] = &\[(.*?)\];/s.exec(source) ?? [];
  const rows = [...table.matchAll(/\("(\w{3})", "\d{3}", (\d), "([^"]*)"\)/g)].map(([, code, decimals, sign]) => [code, [Number(decimals), sign.trim()]]);
  assert.equal(rows.length, table.trim().split('\n').length, 'every row is read');
  assert.deepEqual(Object.entries(TABLE), rows);
});

test('r05_an_amount_has_the_servers_decimals_in_every_language', () => {
  assert.equal(money(200_000, 'CRC'), '₡2,000.00');
  assert.equal(money(500_000, 'COP'), '$5,000.00');
  assert.equal(money(1_500, 'JPY'), '¥1,500');
  assert.equal(plain(money(1_500, 'KWD')), 'KWD 1.500');
  assert.equal(money(Number.MAX_SAFE_INTEGER, 'CRC'), '₡90,071,992,547,409.91');
  assert.equal(plain(money(200_000, '?')), '2,000.00');
  assert.deepEqual([plainAmount(5, 'CRC'), plainAmount(200_000, 'CRC'), plainAmount(5, 'KWD'), plainAmount(0, 'JPY')], ['0.05', '2000.00', '0.005', '0']);
  setLanguage('es');
  assert.equal(plain(money(200_000, 'CRC')), '2000,00 ₡');
});

test('amounts_that_meet_are_told_apart', () => {
  for (const language of LANGUAGES) {
    setLanguage(language);
    assert.equal(new Set(CURRENCIES.map((code) => distinctMoney(100_000, code))).size, CURRENCIES.length, language);
    assert.equal(distinctMoney(200_000, 'CRC'), money(200_000, 'CRC'), 'a sign of its own stays');
  }
  setLanguage('en');
  assert.deepEqual(['USD', 'MXN', 'CAD'].map((code) => distinctMoney(1_000, code)), ['$10.00', 'MX$10.00', 'CA$10.00']);
});

test('what_is_shown_is_read_as_the_same', () => {
  for (const language of LANGUAGES) {
    setLanguage(language);
    for (const code of CURRENCIES) {
      for (const minor of [0, 5, 1_500, 200_000, 123_456_789]) {
        for (const text of [money(minor, code), distinctMoney(minor, code), plainMoney(minor, code), plainMoney(minor, code, false), `${TABLE[code][1]}${plainMoney(minor, code)}`]) {
          assert.equal(parseMoney(text, code), minor, `${language}: ${text} ${code}`);
        }
      }
    }
  }
});

test('amounts_are_read_as_people_write_them', () => {
  for (const text of ['2000', ' 2,000 ', '2.000', '2 000,00', '₡2,000.00', '2.000,00', '2000.0', '２０００', '2000,00 ₡', '¢2000', 'CRC 2000', '2000 crc', '2000 colones', "2'000"]) {
    assert.equal(parseMoney(text, 'CRC'), 200_000, text);
  }
  assert.equal(parseMoney('5000', 'COP'), 500_000);
  assert.equal(parseMoney('US$20', 'USD'), 2_000);
  assert.equal(parseMoney('1500円', 'JPY'), undefined, 'in English nobody says so');
  setLanguage('ja');
  assert.equal(parseMoney('1500円', 'JPY'), 1_500);
});

test('what_is_no_amount_is_none', () => {
  const none = ['', 'two', '-5', '−5', '5-', '(500)', '.5', '5.', '1.2.3', '12,34,567', '1000.500', '1e3', '1,5 2x', '50%', '2k', '2 mil', '2千', '+5', 'about 2000', '$20', 'US$20', '1..5', '99999999999999999', '90071992547409.92'];
  for (const text of none) assert.equal(parseMoney(text, 'CRC'), undefined, text);
  for (const code of ['JPY', 'CLP', 'PYG']) for (const text of ['1000.00', '1.5', '-500', '1.2.3']) assert.equal(parseMoney(text, code), undefined, `${text} ${code}`);
});

test('three_decimals_or_a_thousand_is_not_guessed', () => {
  const read = () => ['1.5', '1.500', '1,500', '1,500.000', '1.500,000'].map((text) => parseMoney(text, 'KWD'));
  assert.deepEqual(read(), [1_500, 1_500, undefined, 1_500_000, 1_500_000]);
  setLanguage('es');
  assert.deepEqual(read(), [1_500, undefined, 1_500, 1_500_000, 1_500_000]);
});
