// Spoils texts, the same way for the same number: what `crates/spoil` does for Rust.

/** How many inputs for each reader; in a soak more. */
export const INPUTS = process.env.TENURE_SOAK ? 10_000_000 : 10_000;

const WORDS = ['{', '}', '[', ']', '"', ':', ',', 'null', '-1', '1e999', '18446744073709551616', '\\u0000', '\\ud800', '\0', '\n', '\n\n', '0', 'true'];

/** Numbers that look random and are the same for the same seed. */
function random(seed) {
  let state = seed;
  return (end) => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) % Math.max(end, 1);
  };
}

/** One of the corpus, changed in one to six places. */
export function spoil(corpus, number) {
  const below = random(number);
  const one = () => corpus[below(corpus.length)];
  let text = one();
  for (let left = 1 + below(6); left > 0; left -= 1) {
    const at = below(text.length + 1);
    const [before, after] = [text.slice(0, at), text.slice(at)];
    const other = one();
    text = [
      () => before,
      () => before + String.fromCharCode((text.charCodeAt(at) || 0) ^ (1 << below(7))) + after.slice(1),
      () => before + after.slice(1 + below(16)),
      () => before + after.slice(0, 1 + below(64)) + after,
      () => before + other.slice(below(other.length + 1)),
      () => before + WORDS[below(WORDS.length)] + after,
      // A whole value for another: what a parser of JSON does not see.
      () => before + after.replace(/"[^"]*"|\d+|\[[^[\]]*\]|\{[^{}]*\}/, () => ['null', '7', '"x"', '[]', '{}', '[null]', '-1'][below(7)]),
    ][below(7)]();
  }
  return text;
}
