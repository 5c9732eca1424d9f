// The package, installed as docs/embed.md says it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const web = fileURLToPath(new URL('../..', import.meta.url));
const embed = readFileSync(join(web, '..', 'docs', 'embed.md'), 'utf8');
const PAGE = `
import { Tenure, type Claim } from 'tenure-sdk';
const claim: Claim = await new Tenure().claim('lock/demo', 'projector');
const token: number = claim.token;
// @ts-expect-error
claim.relase();
`;

test('what_is_installed_as_the_documents_say_runs_and_has_types', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-package-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  // A copy: packing writes into it. As in a clone, TypeScript lies beside it.
  mkdirSync(join(folder, 'tenure', 'web'), { recursive: true });
  for (const name of ['sdk', 'tsconfig.json']) cpSync(join(web, name), join(folder, 'tenure', 'web', name), { recursive: true });
  rmSync(join(folder, 'tenure', 'web', 'sdk', 'types'), { recursive: true, force: true });
  symlinkSync(join(web, 'node_modules'), join(folder, 'tenure', 'web', 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module","private":true}');
  writeFileSync(join(folder, 'page.mts'), PAGE);
  const run = (command, ...given) => {
    const { status, stdout, stderr } = spawnSync(command, given, { cwd: folder, encoding: 'utf8' });
    assert.equal(status, 0, `${command} ${given.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  run('bash', '-ec', /^npm install .*$/m.exec(embed)[0]);
  const tsc = join(web, 'node_modules', 'typescript', 'bin', 'tsc');
  run(process.execPath, tsc, '--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', 'page.mts');
  assert.equal(run(process.execPath, '--input-type=module', '-e', "console.log(typeof (await import('tenure-sdk')).Tenure)"), 'function\n');
});
