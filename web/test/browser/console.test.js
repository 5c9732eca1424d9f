// The console: every claim as it happens, one item with its past, overrides, the audit log, policies, keys, health.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { locate } from '../../pages/console/locate.js';
import { parse } from '../../pages/console/metrics.js';
import { LANGUAGES, axe, axeIn, eventually, fits, journey, sights } from './helper.js';

/** @param {import('./helper.js').Api} api @param {string} item @param {number} [ttl_ms] */
const claim = (api, item, ttl_ms = 600_000) => api.ask('POST', '/v1/claims', { collection: 'lock/demo', items: [item], ttl_ms });

test('figures_are_summed_over_their_labels', () => {
  const figures = parse('# HELP a b\na{kind="x"} 2\na{kind="y"} 3\nb_bucket{le="1"} 9\nc{route="/t/{id}"} 4\nd NaN\n');
  assert.equal(figures.get('a'), 5);
  assert.equal(figures.get('a{kind="x"}'), 2);
  assert.equal(figures.get('c'), 4);
  assert.deepEqual([figures.has('b_bucket'), figures.has('d')], [false, false]);
});

test('a_field_is_found_in_its_text', () => {
  const text = JSON.stringify({ ttl_ms: 1, phases: [{ name: 'a', ttl_ms: 2 }, { name: 'b', ttl_ms: 3 }] }, null, 2);
  const said = (/** @type {string} */ field) => text.slice(...(locate(text, field) ?? [0, 0]));
  assert.equal(said('phases[1].ttl_ms'), '"ttl_ms": 3');
  assert.equal(said('ttl_ms'), '"ttl_ms": 1,');
  assert.equal(locate(text, 'nothing'), undefined);
});

journey('every active claim is there within a second, and goes when it ends', async ({ person }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  // Something is held there: its stream is followed.
  await claim(ana.api, 'always');
  const page = await carmen.open('/app/console');
  await page.getByRole('link', { name: 'always' }).waitFor();
  const made = await claim(ana.api, 'now-and-then');
  const began = Date.now();
  const row = page.locator('tr', { has: page.getByRole('link', { name: 'now-and-then' }) });
  await row.waitFor();
  assert.ok(Date.now() - began < 1_500, 'within a second, and some patience');
  assert.match(await row.innerText(), /lock\/demo[\s\S]*Ana[\s\S]*held[\s\S]*(10:00|9:5\d)/);
  await ana.api.ask('DELETE', `/v1/claims/${made.id}`);
  await row.waitFor({ state: 'detached' });
});

journey('the time left is right though the clock of the page is off by ten minutes', async ({ person }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  await carmen.context.addInitScript(() => {
    const real = Date.now.bind(Date);
    Date.now = () => real() + 600_000;
  });
  await claim(ana.api, 'on-time', 300_000);
  const page = await carmen.open('/app/console');
  const row = page.locator('tr', { has: page.getByRole('link', { name: 'on-time' }) });
  await row.waitFor();
  assert.match(await row.locator('.left').innerText(), /^(5:00|4:[45]\d)/);
  assert.match(await row.locator('.age').innerText(), /^\d\d?s/);
});

journey('claims are filtered, sorted and walked through with keys, and the address keeps it', async ({ person }) => {
  const [carmen, ana, bruno] = [await person('carmen'), await person('ana'), await person('bruno')];
  await claim(ana.api, 'aa-long', 900_000);
  await claim(bruno.api, 'zz-short', 300_000);
  const page = await carmen.open('/app/console');
  const names = () => page.locator('.claims tbody a').allInnerTexts();
  await page.getByRole('button', { name: /^lock/ }).click();
  await page.getByRole('button', { name: 'Item' }).click();
  await eventually(async () => (await names())[0] === 'aa-long', { what: 'sorted by item' });
  await page.getByRole('button', { name: 'Item' }).click();
  await eventually(async () => (await names())[0] === 'zz-short', { what: 'sorted the other way' });
  assert.equal(await page.locator('th[aria-sort=descending]').innerText(), 'Item');
  await page.getByLabel('Holder').selectOption('ana');
  await eventually(async () => !(await names()).includes('zz-short'), { what: 'only Ana’s' });
  await page.keyboard.press('Escape');
  await page.locator('.claims tbody a').first().focus();
  await page.keyboard.press('End');
  await page.keyboard.press('Home');
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), (await names())[0]);
  await page.keyboard.press('/');
  await page.keyboard.type('aa-lo');
  await eventually(async () => (await names()).join() === 'aa-long', { what: 'the one that fits' });
  await page.reload();
  await eventually(async () => (await names()).join() === 'aa-long', { what: 'the same after a reload' });
  await page.getByRole('searchbox').fill('no such thing');
  await page.getByText('No claim fits this filter').waitFor();
  await axe(page);
  await page.getByRole('button', { name: 'Clear filters' }).click();
  await eventually(async () => (await names()).length > 2);
});

journey('an item tells who has it and who had it; force needs a reason, which the log keeps', async ({ person }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  await claim(ana.api, 'contested');
  const page = await carmen.open('/app/console/item/lock/demo/contested');
  await page.locator('.explain tenure-lock[state=other]').waitFor();
  await page.getByText('No, somebody holds it').waitFor();
  await axe(page);
  await page.getByRole('button', { name: 'Take by force' }).click();
  await page.locator('dialog textarea').fill('the customer waits');
  await axe(page);
  await page.locator('dialog').getByRole('button', { name: 'Take by force' }).click();
  await page.locator('.explain tenure-lock[state=mine]').waitFor();
  await page.getByText('“the customer waits”').first().waitFor();
  assert.deepEqual((await page.locator('.lane-name').allInnerTexts()).sort(), ['Ana', 'Carmen']);
  await page.getByRole('button', { name: 'Free by force' }).click();
  await page.locator('dialog textarea').fill('enough');
  await page.locator('dialog').getByRole('button', { name: 'Free by force' }).click();
  await page.locator('.explain tenure-lock[state=free]').waitFor();
  // What others do shows by itself.
  await claim(ana.api, 'contested');
  await page.locator('.explain tenure-lock[state=other]').waitFor();
  await page.getByText('As a list (3)').click();
  await page.getByRole('cell', { name: 'taken over by an administrator' }).waitFor();
  const { rows } = await carmen.api.ask('GET', '/v1/audit?item=contested&action=LOCK_FORCE_CLAIM');
  assert.equal(rows[0].reason, 'the customer waits');
});

journey('the audit log is searched by chips and verified in words', async ({ person }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  carmen.expect(/422/);
  await claim(ana.api, 'audited');
  const page = await carmen.open('/app/console/audit');
  await page.getByRole('textbox', { name: 'Item' }).fill('audited');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('button', { name: 'Remove filter Item: audited' }).waitFor();
  await eventually(async () => (await page.locator('.events tbody tr').count()) >= 1 && (await page.locator('.events .about a').allInnerTexts()).every((text) => text === 'audited'));
  await page.locator('.events').getByRole('button', { name: 'Taken' }).first().click();
  await page.getByRole('button', { name: /Remove filter What: Taken/ }).waitFor();
  assert.match(page.url(), /item=audited/);
  assert.match(page.url(), /action=claim_granted/);
  await axe(page);
  await page.getByRole('textbox', { name: 'Collection' }).fill('nothing like it');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('alert').getByText(/collection/).waitFor();
  assert.equal(await page.getByRole('textbox', { name: 'Collection' }).getAttribute('aria-invalid'), 'true');
  await page.getByRole('button', { name: 'Verify the log' }).click();
  await page.getByText('The log is whole: nobody has changed anything in it.').waitFor();
});

journey('a key is shown once, opens the door, and is revoked', async ({ person }) => {
  const [carmen, nobody] = [await person('carmen'), await person(null)];
  nobody.expect(/401/);
  const page = await carmen.open('/app/console/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByLabel('What it is for').fill('a journey');
  await page.getByLabel('Acts as (id)').fill('zoe');
  await page.getByLabel('Name that people see').fill('Zoe');
  await page.getByLabel('May do').selectOption('viewer');
  await page.getByRole('button', { name: 'Make the key' }).click();
  await page.getByText('The key for Zoe is ready').waitFor();
  const key = await page.locator('.secret code').innerText();
  assert.match(key, /^tnr_/);
  await axe(page);
  await page.getByRole('button', { name: 'I have it' }).click();
  assert.ok(!(await page.content()).includes(key));
  const other = await nobody.open('/app/sign-in');
  await other.getByLabel('Key').fill(key);
  await other.getByRole('button', { name: 'Sign in', exact: true }).click();
  await other.getByText('Hello, Zoe').waitFor();
  await page.getByRole('button', { name: 'Revoke a journey' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('button', { name: 'Revoke a journey' }).waitFor({ state: 'detached' });
});

journey('a policy is read, and changed as JSON; what the server minds is shown where it stands', async ({ person, admin }) => {
  const carmen = await person('carmen');
  carmen.expect(/422/);
  // So that the journey's end puts it back.
  await admin.policy('lock', {});
  const page = await carmen.open('/app/console/policies');
  await page.getByRole('button', { name: 'Edit lock' }).click();
  const text = page.locator('textarea');
  const policy = JSON.parse(await text.inputValue());
  await text.fill('{');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText(/This is not JSON/).waitFor();
  policy.phases[0].ttl_ms = 0;
  await text.fill(JSON.stringify(policy, null, 2));
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText(/phases\[0\]\.ttl_ms/).waitFor();
  assert.equal(await text.evaluate((/** @type {HTMLTextAreaElement} */ area) => area.value.slice(area.selectionStart, area.selectionEnd)), '"ttl_ms": 0,');
  await axe(page);
  policy.phases[0].ttl_ms = 45_000;
  await text.fill(JSON.stringify(policy, null, 2));
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('The policy of lock is set.').waitFor();
  await page.getByText(/45s, renewed by heartbeats/).waitFor();
});

journey('health and the charts are measured without reloading', async ({ person }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  const page = await carmen.open('/app/console/health');
  await page.getByText('The server is well').waitFor();
  await page.locator('.spark .line[d]').first().waitFor({ state: 'attached' });
  assert.equal(await page.locator('.chart').count(), 4);
  const figure = page.locator('.chart', { hasText: 'Active claims' }).locator('.figure');
  const before = Number(await figure.innerText());
  await claim(ana.api, 'measured');
  await eventually(async () => Number(await figure.innerText()) === before + 1, { what: 'one more' });
  await axe(page);
});

journey('r22_conversion_is_the_paid_of_the_reserved', async ({ person }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  const { id: raffle } = await carmen.api.ask('POST', '/raffles', { title: 'Measured', numbers: 10, price_minor: 100, currency: 'CRC' });
  await carmen.api.ask('PATCH', `/raffles/${raffle}`, { status: 'active' });
  const page = await carmen.open('/app/admin/raffles');
  const chart = page.locator('.chart', { hasText: 'Paid of reserved' });
  await chart.waitFor();
  const reserve = (/** @type {number} */ number) => ana.api.ask('POST', '/reservations', { raffle_id: raffle, number_ids: [number], session_id: `s${number}` });
  const { id } = await reserve(1);
  await eventually(async () => /^0 of \d+ paid$/.test(await chart.locator('.most').innerText()), { what: 'reserved, and not paid' });
  const before = Number((await chart.locator('.most').innerText()).split(' ')[2]);
  const payment = await ana.api.ask('POST', '/payments', { reservation_id: id, provider: 'sinpe_movil' });
  await ana.api.ask('POST', `/payments/${payment.id}/transfer`, { reference: `${Date.now()}77`, payer_phone: '8888-0001', amount_minor: 100 });
  await carmen.api.ask('POST', `/admin/payments/${payment.id}/approve`, { bank_amount_minor: 100 });
  await eventually(async () => (await chart.locator('.most').innerText()) === `1 of ${before} paid`, { what: 'one is paid' });
  const said = await chart.locator('.figure').innerText();
  assert.equal(said, `${Math.round(1000 / before) / 10}%`);
  assert.match(String(await chart.locator('svg').getAttribute('aria-label')), /Paid of reserved: [\d.]+%\. 1 of/);
  await axe(page);
});

journey('what_is_counted_since_the_start_says_so', async ({ person }) => {
  const carmen = await person('carmen');
  await carmen.context.route('**/metrics', (route) => route.fulfill({ contentType: 'text/plain', body: 'tenure_active_claims{kind="raffle"} 2\n' }));
  const page = await carmen.open('/app/admin/raffles');
  await page.locator('.chart', { hasText: 'Paid of reserved' }).getByText('Nobody has reserved since the server started').waitFor();
});

journey('the console is not for everybody', async ({ person }) => {
  const diego = await person('diego');
  const page = await diego.open('/app/console');
  await page.getByText('The console is for administrators').waitFor();
  assert.equal(await page.locator('.rail').getByText('Console').count(), 0);
  await axe(page);
});

for (const language of LANGUAGES) {
  journey(`the console in ${language}`, async ({ person }) => {
    for (const [viewport, theme] of sights(language)) {
      const carmen = await person('carmen', { language, viewport, theme });
      await claim(carmen.api, 'seen', 600_000).catch(() => {});
      for (const path of ['', '/item/lock/demo/seen', '/audit', '/policies', '/keys', '/health']) {
        const page = await carmen.open(`/app/console${path}`);
        await page.locator('.console').waitFor();
        await fits(page);
        await axeIn(page, language);
        await page.close();
      }
    }
  });
}
