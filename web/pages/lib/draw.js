// A draw done again, as `tenure raffle verify` does it.

/**
 * @typedef {object} Draw
 * @property {string} raffle_id
 * @property {string} seed_hash
 * @property {string} seed
 * @property {number[]} sold
 * @property {string} sold_hash
 * @property {number} winner
 * @property {string} drawn_at
 */

/** @param {string} hex */
const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (two) => Number.parseInt(two, 16));

/** @param {ArrayBuffer} buffer */
const hexOf = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, '0')).join('');

/** @param {BufferSource} bytes */
const sha256 = (bytes) => crypto.subtle.digest('SHA-256', bytes);

/** Browsers calculate only for pages that they trust. */
export const canCheck = () => Boolean(globalThis.crypto?.subtle);

/**
 * Whether the seed is the one that was bound, and picks this winner among these numbers. Nothing where this
 * cannot be calculated.
 * @param {Draw} draw
 * @param {string | null} [known] The hash that was published when the raffle opened.
 * @returns {Promise<boolean | undefined>}
 */
export async function holds(draw, known = draw.seed_hash) {
  if (!canCheck()) return undefined;
  const seed = bytesOf(draw.seed);
  if (seed.length !== 32 || hexOf(await sha256(seed)) !== draw.seed_hash || known !== draw.seed_hash) return false;
  const hash = await sha256(new TextEncoder().encode(draw.sold.map((number) => `${number}\n`).join('')));
  if (hexOf(hash) !== draw.sold_hash || draw.sold.some((number, index) => index > 0 && number <= (draw.sold[index - 1] ?? 0))) return false;
  return (await pick(seed, new Uint8Array(hash), draw.sold)) === draw.winner;
}

/**
 * Round 0, 1, 2 …: the first eight bytes of a hash of seed, sold numbers and round; those in the incomplete last run
 * of values are skipped, since they would favour the first numbers.
 * @param {Uint8Array} seed
 * @param {Uint8Array} hash
 * @param {number[]} sold
 */
async function pick(seed, hash, sold) {
  const count = BigInt(sold.length);
  if (count === 0n) return undefined;
  const all = 1n << 64n;
  for (let round = 0n; ; round += 1n) {
    const bytes = new Uint8Array(72);
    bytes.set(seed, 0);
    bytes.set(hash, 32);
    new DataView(bytes.buffer).setBigUint64(64, round);
    const value = new DataView(await sha256(bytes)).getBigUint64(0);
    if (value < all - (all % count)) return sold[Number(value % count)];
  }
}
