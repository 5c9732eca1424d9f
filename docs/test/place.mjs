// What the tests of the documents share: where things are, and which there are.

import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const repository = resolve(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const program = process.env.TENURE_BIN && resolve(process.env.TENURE_BIN);
export const read = (path) => readFileSync(join(repository, path), 'utf8');

export const documents = [
  ...['README.md', 'CONTRIBUTING.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'web/README.md', 'web/sdk/README.md'],
  ...readdirSync(join(repository, 'docs')).filter((name) => name.endsWith('.md')).sort().map((name) => `docs/${name}`),
];

/** Every series of `/metrics`, by its name, with its shape. */
export const figures = new Map();
for (const [, name, shape] of read('crates/server/src/metrics.rs').matchAll(/"(tenure_[a-z_]+)",\s*Shape::(\w+)/g)) {
  const ends = shape === 'Histogram' ? ['', '_bucket', '_sum', '_count'] : [''];
  for (const end of ends) figures.set(name + end, shape);
}
if (figures.size < 20) throw new Error('the figures were not found in crates/server/src/metrics.rs');
