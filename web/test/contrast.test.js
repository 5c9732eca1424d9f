// The colours, as WCAG counts: text at 4.5, shapes at 3, in light and in dark.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

const css = await readFile(new URL('../style/tokens.css', import.meta.url), 'utf8');
const PAIR = /--tenure-([\w-]+): light-dark\(oklch\(([^)]+)\), oklch\(([^)]+)\)\)/g;
const tokens = new Map([...css.matchAll(PAIR)].map(([, name, light, dark]) => [name, { light, dark }]));

/** Relative luminance of `L C H`. */
function luminance(text) {
  const [L, C, H] = text.split(' ').map(Number);
  const [a, b] = [C * Math.cos((H * Math.PI) / 180), C * Math.sin((H * Math.PI) / 180)];
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const clamp = (x) => Math.min(1, Math.max(0, x));
  const red = clamp(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s);
  const green = clamp(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s);
  const blue = clamp(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function check(front, back, least) {
  for (const theme of ['light', 'dark']) {
    const [x, y] = [front, back].map((name) => luminance(tokens.get(name)[theme]) + 0.05);
    const ratio = Math.max(x, y) / Math.min(x, y);
    assert.ok(ratio >= least, `${front} on ${back}, ${theme}: ${ratio.toFixed(2)} < ${least}`);
  }
}

test('text_can_be_read', () => {
  for (const back of ['surface', 'raised', 'sunken']) {
    for (const front of ['ink', 'ink-soft', 'accent-ink', 'amber-ink', 'red-ink', 'urgent-ink', 'green-ink', 'unsure-ink']) check(front, back, 4.5);
  }
  for (const role of ['accent', 'amber', 'red', 'urgent', 'green', 'unsure']) {
    check(`${role}-ink`, `${role}-soft`, 4.5);
    check('ink', `${role}-soft`, 4.5);
  }
  check('on-accent', 'accent', 4.5);
  check('on-urgent', 'urgent', 4.5);
  check('done-ink', 'done-fill', 4.5);
});

test('shapes_can_be_told_from_their_ground', () => {
  for (const back of ['surface', 'raised']) {
    for (const front of ['line-strong', 'accent', 'amber', 'red', 'urgent', 'green', 'unsure', 'focus']) check(front, back, 3);
  }
});
