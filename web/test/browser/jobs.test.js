// Jobs, in a real browser.

import assert from 'node:assert/strict';

import { DESK, LANGUAGES, PHONE, axe, axeIn, eventually, fits, journey } from './helper.js';

const row = (page, id) => page.locator('tbody tr', { has: page.getByRole('link', { name: id, exact: true }) });

journey('j01_queued_taken_and_finished_live', async ({ person, admin }) => {
  const [ana, diego] = await Promise.all([person('ana'), person('diego')]);
  const id = `live-${Date.now()}`;
  const [page, other] = await Promise.all([ana.open('/app/jobs'), diego.open('/app/jobs')]);
  await other.locator('tenure-live[state=live]').waitFor();
  assert.equal(await other.getByRole('button', { name: 'Queue a job' }).count(), 0, 'who looks on queues nothing');
  await page.getByRole('button', { name: 'Queue a job' }).click();
  await axe(page);
  await page.getByLabel('Text to analyse').fill('The lease runs out. Somebody else takes the lease.');
  await page.getByLabel('Name, if it should have one').fill(id);
  await page.getByRole('button', { name: 'Queue it' }).click();
  await page.getByRole('complementary').getByRole('heading', { name: id }).waitFor();
  await row(other, id).getByText('Queued').waitFor();
  const { token } = await admin.ask('POST', `/analyses/${id}/lock`, { owner: 'worker-3', ttl_sec: 300 });
  const takenAt = Date.now();
  await row(other, id).getByText('worker-3').waitFor();
  assert.ok(Date.now() - takenAt < 1_000, 'within a second');
  await row(other, id).getByText(/^(5:00|4:5\d)$/).waitFor();
  await row(other, id).locator('.c-attempt').getByText('1', { exact: true }).waitFor();
  await page.getByRole('complementary').getByText('worker-3 (Carmen)').waitFor();
  await admin.ask('POST', `/analyses/${id}/complete`, { token, result: { verdict: 'fine' } });
  await row(other, id).getByText('Ready').waitFor();
  await page.getByRole('complementary').getByText('"verdict": "fine"').waitFor();
});

journey('j09_a_worker_that_dies_is_followed_by_the_next', async ({ person, admin }) => {
  const carmen = await person('carmen');
  const id = `dies-${Date.now()}`;
  await admin.ask('POST', '/analyses', { id, input: 'Words that are counted. Words again.' });
  await admin.ask('POST', `/analyses/${id}/lock`, { owner: 'worker-dead', ttl_sec: 1 });
  const page = await carmen.open(`/app/jobs/${id}`);
  const drawer = page.getByRole('complementary');
  await drawer.getByText('Waits for a worker', { exact: true }).waitFor();
  await drawer.getByRole('button', { name: 'Run now' }).click();
  await drawer.getByText('Ready', { exact: true }).waitFor();
  await drawer.getByText('Most frequent terms').waitFor();
  await row(page, id).locator('.c-attempt').getByText('2', { exact: true }).waitFor();
  await axe(page);
});

journey('the_drawer_has_an_address_and_goes_by_keyboard', async ({ person }) => {
  const ana = await person('ana');
  const page = await ana.open('/app/jobs');
  await row(page, 'demo-05-broken').waitFor();
  await page.evaluate(() => { document.querySelector('main').dataset.same = 'yes'; document.querySelector('tbody').dataset.same = 'yes'; });
  await row(page, 'demo-05-broken').getByRole('link').focus();
  await page.keyboard.press('Enter');
  const drawer = page.getByRole('complementary');
  await drawer.getByText('no decoder for this attachment').waitFor();
  assert.match(page.url(), /\/app\/jobs\/demo-05-broken$/);
  await page.goBack();
  await drawer.waitFor({ state: 'hidden' });
  await page.goForward();
  await drawer.getByText('no decoder for this attachment').waitFor();
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'hidden' });
  assert.match(page.url(), /\/app\/jobs$/);
  await eventually(() => page.evaluate(() => document.activeElement?.textContent === 'demo-05-broken'), { what: 'the focus being back' });
  assert.equal(await page.locator('tbody').getAttribute('data-same'), 'yes', 'the list stayed');
  await page.keyboard.press('/');
  await page.keyboard.type('korean');
  await eventually(async () => (await page.locator('tbody tr').count()) === 1);
  await page.getByRole('searchbox').fill('nothing like it');
  await page.getByRole('button', { name: 'Show all jobs' }).click();
  await row(page, 'demo-05-broken').waitFor();
});

journey('what_is_counted_is_what_the_rows_say', async ({ person, admin }) => {
  const id = `counted-${Date.now()}`;
  await admin.ask('POST', '/analyses', { id, input: 'Words.' });
  await admin.ask('POST', `/analyses/${id}/lock`, { owner: 'worker-gone', ttl_sec: 1 });
  const ana = await person('ana');
  const page = await ana.open('/app/jobs');
  await row(page, id).getByText('Waits for a worker', { exact: true }).waitFor();
  const chips = page.locator('.chips .chip');
  const [, ...states] = await chips.allInnerTexts();
  for (const [index, text] of states.entries()) {
    const [name, many] = text.split('\n');
    await chips.nth(index + 1).click();
    const said = Number(many) === 0 ? [] : await page.locator('tbody tr .tag').allInnerTexts();
    assert.deepEqual(said, Array(Number(many)).fill(name), name);
  }
  const sum = states.reduce((all, text) => all + Number(text.split('\n')[1]), 0);
  await chips.first().click();
  assert.equal(await page.locator('tbody tr').count(), sum, 'every job is counted once');
});

journey('on_a_phone_the_words_of_a_job_have_the_whole_line', async ({ person }) => {
  const ana = await person('ana', { viewport: PHONE });
  const page = await ana.open('/app/jobs');
  await row(page, 'demo-01-english').waitFor();
  const [words, badge, line] = await Promise.all(['.excerpt', '.tag', ':scope'].map((part) => row(page, 'demo-01-english').locator(part).boundingBox()));
  assert.ok(words.y >= badge.y + badge.height - 1, 'below the badge');
  assert.ok(words.x + words.width >= badge.x + badge.width - 1, `${words.width} of ${line.width} px`);
});

for (const language of LANGUAGES) {
  journey(`jobs_in_${language}`, async ({ person }) => {
    for (const [viewport, theme] of [[DESK, 'light'], [PHONE, 'dark']]) {
      const carmen = await person('carmen', { language, viewport, theme });
      const page = await carmen.open('/app/jobs');
      await page.locator('tbody tr').first().waitFor();
      await page.locator('tenure-live[state=live]').waitFor();
      await axeIn(page, language);
      await fits(page);
      await page.goto('/app/jobs/demo-01-english');
      await page.getByRole('complementary').locator('.terms li').first().waitFor();
      await axeIn(page, language);
      await fits(page);
      // Beside the drawer the table loses no column's end.
      if (viewport === DESK) {
        await page.setViewportSize({ width: 1280, height: 800 });
        const cut = await page.locator('.jobs > .scroll').evaluate((list) => list.scrollWidth - list.clientWidth);
        assert.ok(cut <= 0, `${cut} px of the table are cut`);
      }
      await page.close();
    }
  });
}
