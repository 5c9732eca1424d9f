// The example page of the elements, as the server serves it.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

import { DESK, LANGUAGES, PHONE, axeIn, eventually, fits, journey } from './helper.js';

const ELEMENTS = ['tenure-lock', 'tenure-banner', 'tenure-countdown', 'tenure-live', 'tenure-presence', 'tenure-grid'];

journey('the_example_page_has_every_element_alive_and_code_to_copy', async ({ person }) => {
  const ana = await person('ana');
  const page = await ana.open('/app/');
  await page.getByRole('link', { name: 'elements for your own pages' }).click();
  await page.waitForURL(/\/elements\/example\.html/);
  for (const name of ELEMENTS) {
    assert.ok(await page.locator(name).first().evaluate((element) => Boolean(element.shadowRoot?.childElementCount)), name);
  }
  const ring = page.locator('tenure-countdown[shape=ring] [part=time]').first();
  const before = await ring.innerText();
  await eventually(async () => (await ring.innerText()) !== before, { what: 'a clock that runs' });
  await page.getByRole('button', { name: 'Retry claim' }).first().click();
  await page.getByText('tenure-retry from <tenure-banner state="lost">').waitFor();
  await page.locator('#numbers').getByRole('gridcell', { name: /0001/ }).click();
  await page.locator('#chips').getByText('0001').waitFor();
  await ana.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const snippets = page.locator('pre[data-copy]');
  assert.equal(await snippets.count(), 5);
  for (const text of await snippets.allInnerTexts()) assert.ok(text.trim().split('\n').length <= 10, 'ten lines are enough');
  await page.getByRole('button', { name: 'Copy', exact: true }).nth(1).click();
  await page.getByRole('button', { name: 'Copied.' }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await snippets.nth(1).evaluate((code) => code.textContent));
  await page.goBack();
  await page.getByText('Hello, Ana').waitFor();
});

journey('what_the_example_says_to_copy_works', async ({ person, admin }) => {
  const [ana, bruno] = [await person('ana'), await person('bruno')];
  const page = await ana.open('/elements/example.html?still');
  const code = await page.locator('pre[data-copy]').nth(1).evaluate((pre) => pre.textContent ?? '');
  // As a module that begins as the first snippet says; the page's first badge is the one that it finds.
  await ana.context.route('**/elements/tried.js', (route) => route.fulfill({
    contentType: 'text/javascript',
    body: `import { Tenure } from '/sdk/tenure.js'; import { useClock } from '/elements/clock.js'; import '/elements/index.js';
const tenure = new Tenure(); useClock(tenure.clock);\n${code}\nawait watch.loaded();
export const take = () => tenure.claim('lock/demo', 'projector');`,
  }));
  await page.evaluate(() => import(String('/elements/tried.js')));
  const lock = page.locator('tenure-lock').first();
  const said = (/** @type {string} */ state) => eventually(async () => (await lock.getAttribute('state')) === state, { what: state });
  // Bruno's, as the demonstration begins.
  await said('other');
  assert.equal(await lock.getAttribute('holder'), 'Bruno');
  await admin.ask('POST', '/v1/collections/lock/demo/items/projector/force-release', { reason: 'to see it free' });
  await said('free');
  const own = await ana.api.ask('POST', '/v1/claims', { collection: 'lock/demo', items: ['projector'], ttl_ms: 60_000 });
  await said('elsewhere');
  await ana.api.ask('DELETE', `/v1/claims/${own.id}`);
  await said('free');
  const here = await page.evaluate(async () => (await (await import(String('/elements/tried.js'))).take()).id);
  await said('mine');
  await ana.api.ask('DELETE', `/v1/claims/${here}`);
  await said('free');
  await bruno.api.ask('POST', '/v1/claims', { collection: 'lock/demo', items: ['projector'], ttl_ms: 60_000 });
  await said('other');
  ana.expect(/401/);
  await ana.context.request.delete('/v1/session', { headers: { 'x-tenure-csrf': '1' } });
  await said('unknown');
});

/** A page of somebody's own, under the server's address. @param {import('./helper.js').Person} one @param {string} body */
async function strangerPage(one, body) {
  await one.context.route('**/stranger.html', (route) => route.fulfill({ contentType: 'text/html', body: `<!doctype html><title>Own</title>${body}` }));
  return one.open('/stranger.html');
}

/** It is not from the server's address, says a browser that was handed the page by a test. */
const HANDED = /LOCAL_NETWORK_ACCESS/;

journey('the_grid_that_the_example_says_to_copy_is_one_persons_at_a_time', async ({ person }) => {
  const [ana, bruno] = [await person('ana'), await person('bruno')];
  bruno.expect(/409/);
  for (const one of [ana, bruno]) one.expect(HANDED);
  const example = await ana.open('/elements/example.html?still');
  const [start, grid] = await Promise.all([0, 4].map((n) => example.locator('pre[data-copy]').nth(n).evaluate((pre) => pre.textContent ?? '')));
  const begin = start.slice(start.indexOf('import'));
  const [, html, code] = /^(<.*>)\n([^]*)$/m.exec(grid) ?? [];
  const open = async (/** @type {import('./helper.js').Person} */ one) => {
    const page = await strangerPage(one, `${html}<script type="module">${begin}${code}</script>`);
    return page.locator('tenure-grid').getByRole('gridcell', { name: /^0*7\b/ });
  };
  const [hers, his] = [await open(ana), await open(bruno)];
  const state = (/** @type {typeof hers} */ cell, /** @type {string} */ wanted) => eventually(async () => (await cell.getAttribute('data-state')) === wanted, { what: wanted });
  await hers.click();
  await state(hers, 'mine');
  const refused = his.page().waitForResponse((answer) => answer.status() === 409);
  await his.click();
  await refused;
  await state(his, 'free');
});

journey('what_is_to_be_put_into_another_application_shows_who_has_it', async ({ person }) => {
  const [ana, bruno] = [await person('ana'), await person('bruno')];
  bruno.expect(/409/);
  const text = await readFile(new URL('../../../docs/embed.md', import.meta.url), 'utf8');
  const [, html] = /```html\n([^]*?)```/.exec(text) ?? [];
  assert.ok(html);
  // Its own names, and a kind that wants no task.
  const body = `<script>globalThis.Livewire = { dispatch() {} };</script>${html.replace('task/back-office', 'lock/embedded').replace(/{{.*?}}/, 'seven')}`;
  const open = async (/** @type {import('./helper.js').Person} */ one) => {
    one.expect(HANDED);
    // Who it is, the cookie says.
    await one.context.route('**/tenure-token', (route) => route.fulfill({ body: '' }));
    return strangerPage(one, body);
  };
  const hers = await open(ana);
  await hers.locator('tenure-lock[state=mine]').getByText('You').waitFor();
  assert.equal(await hers.locator('#editor').evaluate((editor) => editor.inert), false);
  const his = await open(bruno);
  await his.locator('tenure-lock[state=other]').getByText('Ana').waitFor();
  assert.equal(await his.locator('#editor').evaluate((editor) => editor.inert), true);
});

journey('every_item_of_the_demonstration_that_the_example_names_exists', async ({ person, admin }) => {
  const ana = await person('ana');
  const page = await ana.open('/elements/example.html?still');
  const code = (await page.locator('pre[data-copy]').allInnerTexts()).join('\n');
  const { items } = await admin.ask('GET', '/v1/collections/lock/demo/items');
  const named = [...code.matchAll(/(?:held\.get\(|'lock\/demo', )'([^']+)'/g)].map(([, item]) => item);
  assert.ok(named.length >= 2);
  for (const item of named) assert.ok(items.some(({ id }) => id === item), item);
  await page.getByText('Who that is').waitFor();
});

for (const [who, options] of /** @type {const} */ ([['nobody', '{}'], ['a wrong key', "{ key: 'tnr_bad' }"]])) {
  journey(`a badge claims nothing to ${who}`, async ({ person }) => {
    const nobody = await person(null);
    nobody.expect(/401/);
    const page = await nobody.open('/elements/example.html?still');
    const code = await page.locator('pre[data-copy]').nth(1).evaluate((pre) => pre.textContent ?? '');
    await nobody.context.route('**/elements/tried.js', (route) => route.fulfill({
      contentType: 'text/javascript',
      body: `import { Tenure } from '/sdk/tenure.js'; const tenure = new Tenure(${options});
document.querySelector('tenure-lock').before(document.createElement('tenure-lock'));\n${code}
export const told = watch.loaded().then(() => 'loaded', ({ name, code }) => [name, code, watch.status.code].join());`,
    }));
    // A wrong key is told of where the snippet asks who it is, and the rest of it does not run.
    const told = page.evaluate(() => import(String('/elements/tried.js')).then(
      (tried) => tried.told, ({ name, code }) => [name, code, code].join()));
    const lock = page.locator('tenure-lock').first();
    await lock.getByText('Not known').waitFor();
    assert.equal(await told, 'Refused,unauthenticated,unauthenticated');
    await lock.getByText('Not known').waitFor();
    assert.equal(await lock.locator('[part=badge]').getAttribute('data-look'), 'uncertain');
    await lock.evaluate((element) => element.setAttribute('state', 'held'));
    await lock.getByText('Not known').waitFor();
    await lock.evaluate((element) => element.setAttribute('state', 'free'));
    await lock.getByText('Free').waitFor();
  });
}

for (const language of LANGUAGES) {
  journey(`the_example_page_in_${language}`, async ({ person }) => {
    for (const [viewport, theme] of /** @type {const} */ ([[PHONE, 'dark'], [DESK, 'light']])) {
      const ana = await person('ana', { language, viewport, theme });
      const page = await ana.open('/elements/example.html?still');
      await page.locator('#numbers').getByRole('gridcell').first().waitFor();
      await fits(page);
      await axeIn(page, language);
    }
  });
}
