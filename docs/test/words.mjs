// Owns what is known of commands that a document names and no test runs: cargo, the tasks, npm, node, docker and what
// else stands in a block that is skipped. Each answers with what is wrong, or with nothing.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Words before a command that belong to the shell. */
const SHELL = new Set(['do', 'then', 'else', 'if', 'while', 'until', '!', '{', '(']);

/**
 * The simple commands of a line of shell, each as its words, without the variables that are set for it. Commands inside
 * of `$(…)` are commands too.
 *
 * @returns {string[][]}
 */
export function commandsOf(line) {
  const inner = [...line.matchAll(/\$\(([^()]+)\)/g)].flatMap(([, text]) => commandsOf(text));
  const plain = line.replace(/\$\([^()]+\)/g, '…').replace(/(^|\s)#.*$/, '');
  const parts = (plain.match(/"[^"]*"|'[^']*'|&&|\|\||[;|&()]|[^\s;|&()]+/g) ?? []).map((word) => word.replace(/^(["'])(.*)\1$/, '$2'));
  const commands = [[]];
  for (const word of parts) {
    if (/^(&&|\|\||[;|&()])$/.test(word)) commands.push([]);
    else if (commands.at(-1).length > 0 || !(SHELL.has(word) || /^[A-Z_]+=/.test(word))) commands.at(-1).push(word);
  }
  return [...commands.filter((words) => words.length > 0), ...inner];
}

/**
 * What is wrong with a command.
 *
 * @param {string[]} words
 * @param {{ repository: string, program: string, files: string[], workspace: object }} place  `files` are those that the
 *   document has saved, `workspace` is cargo's word on this one
 * @returns {string | null | undefined} nothing is known of it where it is undefined
 */
export function wrongWith([name, ...words], place) {
  return KNOWN[name]?.(words, place);
}

/** Those of programs that are looked at. */
const KNOWN = {
  cargo,
  npm,
  node,
  docker,
  git: (words, { repository }) => (words[0] === 'rev-parse' ? told('git', words, repository) : `git ${words[0]}?`),
  python3: (words, place) => {
    if (words[0] === '-m') return told('python3', ['-c', `import ${words[1]}`], place.repository);
    return isThere(words.find((word) => word.endsWith('.py')), place);
  },
  tenure: () => null, // Another test asks Tenure itself.
};

function cargo([task, ...rest], place) {
  const { repository, program, workspace } = place;
  const built = (name) => join(dirname(program), name);
  const [own, given] = halves(rest);
  if (task === 'xtask') {
    return told(built('xtask'), ['help', ...rest], repository) ?? (rest[0] === 'bench' ? bench(rest, repository) : null);
  }
  // Help is given only where all that stands before it is understood.
  const wrong = told('cargo', [task, ...own, '-h'], repository);
  if (wrong !== null) return wrong;
  const path = after(own, '--path');
  if (path !== undefined && !existsSync(join(repository, path, 'Cargo.toml'))) return `there is no crate at ${path}`;
  const name = after(own, '-p') ?? after(own, '--package');
  const packages = workspace.packages.filter(({ id, name: known }) => (
    name === undefined ? workspace.workspace_default_members.includes(id) : known === name
  ));
  if (packages.length === 0) return `there is no crate ${name}`;
  if (task !== 'run') return null;
  const programs = packages.flatMap(({ targets, default_run: run }) => (
    targets.filter(({ kind, name: bin }) => kind.includes('bin') && (run ?? bin) === bin)
  ));
  // Of several cargo wants one to be named.
  if (programs.length !== 1) return `cargo would not know which program of ${name ?? 'the workspace'} is meant`;
  const [runs] = programs;
  return told(built(runs.name), [...given.map((word) => (word === 'N' ? '1' : word)), '--help'], repository);
}

/** The words of `tenure-peers`, by its text: the test command does not build that program. */
function bench(words, repository) {
  const source = readFileSync(join(repository, 'crates', 'load', 'src', 'peers', 'main.rs'), 'utf8');
  const flags = [...source.matchAll(/#\[arg\(long.*\n\s+(\w+):/g)].map(([, name]) => `--${name.replaceAll('_', '-')}`);
  const unknown = words.find((word) => word.startsWith('-') && !flags.includes(word));
  return unknown === undefined ? null : `tenure-peers has no ${unknown}, but ${flags.join(', ')}`;
}

function npm(words, { repository }) {
  const { scripts } = JSON.parse(readFileSync(join(repository, 'web', 'package.json'), 'utf8'));
  const [verb, name] = words;
  if (verb === 'test' || verb === 'run') {
    const script = verb === 'test' ? 'test' : name;
    return script in scripts ? null : `web/package.json has no script ${script}`;
  }
  if (verb === 'ci') return existsSync(join(repository, 'web', 'package-lock.json')) ? null : 'web has no lock file';
  return ['install', 'pack'].includes(verb) ? null : `npm ${verb}?`;
}

function node(words, place) {
  const files = words.filter((word) => /\.m?js$/.test(word));
  const unknown = words.filter((word) => word.startsWith('-') && !/^--test(-concurrency=\d+)?$/.test(word));
  if (unknown.length > 0) return `node ${unknown.join(' ')}?`;
  if (files.length === 0) return 'node without a file';
  return files.map((file) => isThere(file, place)).find((wrong) => wrong !== null) ?? null;
}

/** Its own words cannot be asked for without an engine; what they name of ours must be there. */
function docker(words, { repository }) {
  const file = after(words, '--file');
  if (words[0] === 'run') return words.at(-1) === 'tenure' ? null : `docker run ${words.at(-1)}?`;
  if (file === undefined || !existsSync(join(repository, file))) return `there is no ${file}`;
  if (words[0] === 'compose') return null;
  if (words[0] !== 'build' || words.at(-1) !== '.') return `docker ${words.join(' ')}?`;
  const [argument] = (after(words, '--build-arg') ?? '').split('=');
  const text = readFileSync(join(repository, file), 'utf8');
  return argument === '' || text.includes(`\nARG ${argument}\n`) ? null : `${file} takes no ${argument}`;
}

/** A file of the repository, of `web/`, or one that the document has saved; `*` stands for some. */
function isThere(file, { repository, files }) {
  if (file === undefined) return 'no file is named';
  if (files.includes(file)) return null;
  const places = [repository, join(repository, 'web')].map((folder) => join(folder, file));
  const isFound = places.some((place) => (basename(place).includes('*') ? existsSync(dirname(place)) : existsSync(place)));
  return isFound ? null : `there is no ${file}`;
}

/** What stands before `--`, and behind it. */
function halves(words) {
  const end = words.indexOf('--');
  return end < 0 ? [words, []] : [words.slice(0, end), words.slice(end + 1)];
}

function after(words, flag) {
  const at = words.indexOf(flag);
  return at < 0 ? undefined : words[at + 1];
}

const heard = new Map();

function told(program, given, cwd) {
  const asked = JSON.stringify([program, given]);
  if (!heard.has(asked)) {
    const { status, stderr, error } = spawnSync(program, given, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    heard.set(asked, error ? `${program}: ${error.message}` : status === 0 ? null : stderr.trim());
  }
  return heard.get(asked);
}
