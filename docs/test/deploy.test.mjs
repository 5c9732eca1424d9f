// Looks whether what `deploy/` has for other tools is what those expect, and what the documents say of it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { figures, program, read, repository } from './place.mjs';
import { commandsOf, wrongWith } from './words.mjs';

const RULES = 'deploy/prometheus/tenure.rules.yml';
const namesIn = (text) => [...text.matchAll(/(?<!\w)tenure_[a-z_]+/g)].map(([name]) => name);

test('every alert stands in the operators’ table, and the table has no other', () => {
  const alerts = [...read(RULES).matchAll(/^ *- alert: (\w+)$/gm)].map(([, name]) => name);
  const rows = read('docs/operations.md').split('\n').filter((line) => line.startsWith('| `Tenure'));
  const told = rows.flatMap((row) => [...row.split('|')[1].matchAll(/`(\w+)`/g)].map(([, name]) => name));
  assert.ok(alerts.length > 10, 'the alerts were found');
  assert.deepEqual([...told].sort(), [...alerts].sort());
});

test('every figure that an alert names is one', () => {
  for (const name of namesIn(read(RULES))) assert.ok(figures.has(name), `there is no figure ${name}`);
});

test('every panel of the dashboard draws figures that there are', () => {
  const { panels, templating } = JSON.parse(read('deploy/grafana/tenure.json'));
  const variables = [...templating.list.map(({ name }) => name), '__rate_interval'];
  assert.ok(panels.length > 20, 'the panels were found');
  for (const { id, title, targets, datasource } of panels) {
    assert.equal(panels.filter((panel) => panel.id === id).length, 1, `${title}: its id ${id} stands twice`);
    assert.equal(datasource.uid, '${source}', title);
    assert.ok(targets.length > 0, `${title} draws nothing`);
    for (const { expr, refId } of targets) {
      const names = namesIn(expr);
      assert.ok(names.length > 0, `${title}, ${refId}: names no figure`);
      for (const name of names) assert.ok(figures.has(name), `${title}, ${refId}: there is no figure ${name}`);
      for (const [, name] of expr.matchAll(/\$(\w+)/g)) assert.ok(variables.includes(name), `${title}: $${name}?`);
    }
  }
  for (const { query } of templating.list) {
    for (const name of namesIn(query)) assert.ok(figures.has(name), `a variable: there is no figure ${name}`);
  }
});

test('settings that compose hands over are settings', () => {
  const { stdout } = spawnSync(program, ['config', 'show'], { encoding: 'utf8', cwd: join(repository, 'docs') });
  const names = [...read('deploy/compose.yaml').matchAll(/^ {4}(TENURE_\w+):/gm)].map(([, name]) => name);
  assert.ok(names.length > 4, 'they were found');
  for (const name of names.filter((name) => name !== 'TENURE_CONFIG')) {
    assert.ok(stdout.includes(`(${name})`), `there is no setting ${name}`);
  }
});

test('files that compose names are there, but for the secrets that one makes', () => {
  const paths = [...read('deploy/compose.yaml').matchAll(/^\s+(?:- |file: )(\.\/[^:\s]+)/gm)].map(([, path]) => path);
  assert.ok(paths.length > 2, 'they were found');
  for (const path of paths.filter((path) => !path.startsWith('./secrets/'))) {
    assert.ok(existsSync(join(repository, 'deploy', path)), `there is no ${path}`);
  }
});

test('the commands in the comments of what is deployed name what there is', () => {
  const place = { repository, program, files: [] };
  let count = 0;
  for (const path of ['deploy/Dockerfile', 'deploy/compose.yaml']) {
    const lines = [...read(path).matchAll(/^# {5}(\S.*)$/gm)].map(([, line]) => line);
    for (const words of lines.flatMap(commandsOf).filter(([name]) => ['docker', 'git'].includes(name))) {
      assert.equal(wrongWith(words, place), null, `${path}: ${words.join(' ')}`);
      count += 1;
    }
  }
  assert.ok(count > 2, 'they were found');
  const [, build] = /^# {5}(docker build .*)$/m.exec(read('deploy/Dockerfile'));
  assert.ok(read('docs/operations.md').includes(build), `docs/operations.md does not say ${build}`);
});
