// Owns how a document is read: its fenced blocks with their marks, its links, its inline code.
// Runs nothing.

/**
 * What stands between two fences. The first word behind the fence is the language, the rest are marks:
 * `run refused:409`, `serve`, `file=worker.mjs`, `skip needs Docker`. In the README there are neither quotes nor `=` nor a
 * mark `norun`: rustdoc reads it too, and would warn of them.
 *
 * @typedef {{ language: string, marks: Map<string, string>, text: string, line: number }} Block
 */

const FENCE = /^(\s*)```(\S*)\s*(.*)$/;
const SKIP = /^skip\b\s*(.*)$/;

/** @returns {Block[]} the blocks in their order */
export function blocksOf(markdown) {
  const blocks = [];
  let open = null;
  markdown.split('\n').forEach((line, index) => {
    const fence = FENCE.exec(line);
    if (open === null && fence) {
      const [, indent, language, rest] = fence;
      open = { language, marks: marksOf(rest.trim()), lines: [], line: index + 1, indent };
    } else if (open !== null && line.trim() === '```') {
      const { language, marks, line: at } = open;
      blocks.push({ language, marks, line: at, text: `${open.lines.join('\n')}\n` });
      open = null;
    } else if (open !== null) {
      open.lines.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line);
    }
  });
  if (open !== null) throw new Error(`the fence of line ${open.line} is never closed`);
  return blocks;
}

/** The words behind a language, each with what it was given; the reason of `skip` is the rest of the line. */
function marksOf(words) {
  const skip = SKIP.exec(words);
  if (skip) return new Map([['skip', skip[1]]]);
  return new Map(words.split(/\s+/).filter(Boolean).map((word) => {
    const [, name, given] = /^([^=:]+)[=:]?(.*)$/.exec(word);
    return [name, given];
  }));
}

/** The document without its blocks. */
export function proseOf(markdown) {
  let inside = false;
  const kept = markdown.split('\n').map((line) => {
    if (FENCE.test(line) || (inside && line.trim() === '```')) {
      inside = !inside;
      return '';
    }
    return inside ? '' : line;
  });
  return kept.join('\n');
}

/** Where its links lead, without those to other hosts. */
export function linksOf(markdown) {
  const links = [...proseOf(markdown).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target);
  return links.filter((target) => !/^[a-z]+:/.test(target));
}

/** What a heading is called in links to it, as GitHub does it. */
export function anchorsOf(markdown) {
  const headings = [...proseOf(markdown).matchAll(/^#+ (.*)$/gm)].map(([, words]) => words);
  return headings.map((words) => words.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replace(/ /g, '-'));
}

/** Inline code. */
export function codeOf(markdown) {
  return [...proseOf(markdown).matchAll(/`([^`\n]+)`/g)].map(([, code]) => code);
}

/** Inline code, and the lines of shell. */
export function linesOf(markdown) {
  const blocks = blocksOf(markdown).filter(({ language }) => language === 'sh').map(({ text }) => text);
  return [...codeOf(markdown), ...blocks.join('').replaceAll('\\\n', ' ').split('\n')];
}

const COMMAND = /(?:^|[\s(])(?:tenure|cargo run --release --) ([a-z].*)/;

/**
 * The words behind `tenure` in a line, up to whatever is the shell's or another program's.
 *
 * @returns {string[] | null}
 */
export function commandOf(line) {
  const [, rest] = COMMAND.exec(line.split(' #')[0]) ?? [];
  if (rest === undefined) return null;
  const words = rest.match(/"[^"]*"|'[^']*'|[^\s;|&<>()]+|\S/g);
  const end = words.findIndex((word) => word === '--' || /^[;|&<>()]/.test(word));
  return words.slice(0, end < 0 ? undefined : end).map((word) => word.replace(/^(["'])(.*)\1$/, '$2'));
}

/**
 * Whether what was shown has these lines, in their order; `…` stands for anything within a line.
 *
 * @returns {string | null} the first line that is missing
 */
export function missingFrom(shown, expected) {
  const lines = shown.split('\n').map((line) => line.trim());
  let from = 0;
  for (const wanted of expected.split('\n').map((line) => line.trim()).filter(Boolean)) {
    const pattern = wanted.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*');
    const found = lines.findIndex((line, index) => index >= from && new RegExp(`^${pattern}$`).test(line));
    if (found < 0) return wanted;
    from = found + 1;
  }
  return null;
}
