// Tasks in each language: every page and state, on a desk and on a phone.

import assert from 'node:assert/strict';

import { DESK, LANGUAGES, PHONE, axeIn, fits, journey } from './helper.js';
import { mode, pathOf, readyTask, tops } from './tasks.js';

for (const language of LANGUAGES) {
  journey(`t24_every_page_in_${language}`, async ({ person }) => {
    for (const [viewport, theme] of [[DESK, 'dark'], [PHONE, 'light']]) {
      const ana = await person('ana', { language, viewport, theme });
      const bruno = await person('bruno', { language, viewport, theme });
      const id = await readyTask(ana.api, `In ${language}`);
      const page = await ana.open('/app/tasks?show=all');
      await page.locator('tbody tr').first().waitFor();
      await page.locator('tenure-live[state=live]').waitFor();
      await axeIn(page, language);
      await fits(page);
      await page.goto(pathOf(id));
      await page.locator('.foot .primary').filter({ visible: true }).click();
      await mode(page, 'mine');
      await axeIn(page, language);
      await fits(page);
      const other = await bruno.open(pathOf(id));
      await mode(other, 'other');
      await axeIn(other, language);
      await fits(other);
      await page.close();
    }
  });
}

for (const language of LANGUAGES) {
  journey(`t24_idle_and_uncertain_in_${language}`, async ({ person, admin }) => {
    // Long enough to look at the page between the first sign of idleness and the end.
    await admin.policy('task', { ttl_ms: 600_000, idle_guard_ms: 1_000 });
    for (const [viewport, theme] of [[DESK, 'light'], [PHONE, 'dark']]) {
      const [ana, bruno] = [await person('ana', { language, viewport, theme }), await person('bruno', { language, viewport, theme })];
      ana.expect(/ERR_INTERNET_DISCONNECTED|WebSocket|Failed to load/);
      const id = await readyTask(ana.api, `Quiet in ${language}`);
      const page = await ana.open(pathOf(id));
      await page.locator('.foot .primary').filter({ visible: true }).click();
      await mode(page, 'mine');
      const other = await bruno.open(pathOf(id));
      await mode(other, 'other');
      const before = await tops(page);
      // A machine that slept: the page asks at once, and says for how long nobody was there.
      await page.evaluate((ms) => {
        const real = Date.now.bind(Date);
        Date.now = () => real() + ms;
      }, 5_000);
      await page.locator('tenure-banner[state=idle]').waitFor();
      await axeIn(page, language);
      await fits(page);
      // Out of the browser's cache, and nobody answers: nobody can tell whose it is.
      await ana.context.setOffline(true);
      await page.evaluate(() => { dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })); });
      await mode(page, 'uncertain');
      assert.equal(await page.locator('.line input').count(), 0, 'read-only until we know');
      assert.deepEqual(await tops(page), before, 'nothing moves');
      await axeIn(page, language);
      await fits(page);
      await ana.context.setOffline(false);
      await page.locator('.task:not([data-mode=uncertain])').waitFor();
      await page.close();
    }
  });
}
