// Looks whether a block is written in its language, without running it. Each answers with what is wrong, or
// with nothing; `skipped` where the language's own tool is not there.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const SKIPPED = Symbol('skipped');

/** A statement at a time, prepared on the tables that the document made before; `$id` and the like are anything. */
const SQL = `
import sqlite3, sys, json
class Any(dict):
    def __missing__(self, key): return 1
database = sqlite3.connect(':memory:')
for text in json.load(sys.stdin):
    statement = ''
    for line in text.splitlines(True):
        statement += line
        if sqlite3.complete_statement(statement):
            database.execute('EXPLAIN ' + statement, Any())
            if statement.upper().lstrip().startswith('CREATE'): database.execute(statement)
            statement = ''
    assert not statement.strip(), 'a statement without its semicolon: ' + statement
`;

/** Shell, without running it. */
export const shell = (text) => told('bash', ['-n'], text);

/** Languages that are looked at block by block. */
export const PARSERS = {
  js: (text) => told(process.execPath, ['--input-type=module', '--check'], text),
  json: (text) => {
    try {
      JSON.parse(text);
      return null;
    } catch (error) {
      return error.message;
    }
  },
  python: (text) => told('python3', ['-c', 'import ast,sys; ast.parse(sys.stdin.read())'], text),
  php: (text) => told('php', ['-l'], text),
  html: (text) => page(text),
  nginx: (text) => nginx(text),
  tsx: (text, { repository }) => typescript(text, repository),
};

/** The SQL of a whole document, in its order. */
export const sql = (texts) => told('python3', ['-c', SQL], JSON.stringify(texts));

/** A configuration of Tenure, looked at by Tenure itself. */
export function configuration(file, program) {
  return told(program, ['config', 'check', '--config', file], '');
}

function told(program, given, text) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TENURE_')));
  const { status, stderr, stdout, error } = spawnSync(program, given, { input: text, encoding: 'utf8', env });
  if (error?.code === 'ENOENT') return SKIPPED;
  return status === 0 ? null : `${stderr}${stdout}`.trim();
}

/** The modules of a page; what stands around them is the framework's. */
function page(text) {
  const scripts = [...text.matchAll(/<script type="module">\n(.*?)<\/script>/gs)].map(([, script]) => script);
  const opened = text.match(/<script\b/g) ?? [];
  if (opened.length !== scripts.length) return 'a script that is no module, or is not closed';
  return scripts.map((script) => PARSERS.js(script)).find((wrong) => wrong !== null) ?? null;
}

/** Places of a server, within the least that nginx asks for. Nothing listens. */
function nginx(text) {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-docs-nginx-'));
  const around = `pid ${folder}/pid; events {} http { access_log off; upstream tenure { server 127.0.0.1:1; } server { ${text} } }`;
  writeFileSync(join(folder, 'nginx.conf'), around);
  try {
    return told('nginx', ['-t', '-q', '-e', 'stderr', '-p', folder, '-c', 'nginx.conf'], '');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function typescript(text, repository) {
  const manifest = join(repository, 'web', 'package.json');
  if (!existsSync(join(repository, 'web', 'node_modules', 'typescript'))) return SKIPPED;
  const ts = createRequire(manifest)('typescript');
  const options = { fileName: 'block.tsx', reportDiagnostics: true, compilerOptions: { jsx: ts.JsxEmit.Preserve } };
  const [first] = ts.transpileModule(text, options).diagnostics ?? [];
  return first ? ts.flattenDiagnosticMessageText(first.messageText, '\n') : null;
}
