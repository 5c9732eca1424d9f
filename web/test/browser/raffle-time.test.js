// The time of a reservation: it runs out, it presses, it is counted right; whoever lets go too often waits.

import assert from 'node:assert/strict';

import { axe, eventually, journey } from './helper.js';
import { live, looks, main, note, openRaffle, pathOf, phase, pick, reserve, reserveHere } from './raffle.js';

/** Times of the two phases. Short where one has to run out, but not so short that a busy machine misses what happens in between. */
async function times(admin, selection, checkout) {
  const { policy } = await admin.ask('GET', '/v1/policies/raffle');
  const phases = policy.phases.map((phase) => ({ ...phase, ttl_ms: { selection, checkout }[phase.name] ?? phase.ttl_ms }));
  await admin.policy('raffle', { phases, ttl_ms_min: selection, ttl_ms_max: selection, heartbeat_ms: Math.min(policy.heartbeat_ms, Math.round(selection / 3)) });
}

journey('r08_r09_selection_runs_out_into_checkout_and_that_into_nothing', async ({ person, admin }) => {
  await times(admin, 8_000, 15_000);
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const [a, b] = await Promise.all([ana.open(pathOf(id)), bruno.open(pathOf(id))]);
  await Promise.all([live(a), live(b)]);
  await reserveHere(a, ['01', '02', '03']);
  await looks(b, '02', 'other');
  await phase(a, 'checkout');
  assert.match(a.url(), /\/app\/reservations\/.*from=selection/, 'the page went to checkout by itself');
  await a.getByText('Your time to choose is over').first().waitFor();
  const said = await a.locator('.alarm-place [role=alert]').textContent();
  assert.match(said, /Your time to choose is over.*Last chance! Your reservation ends in 0:[01]\d/);
  await looks(b, '02', 'other');
  // A toast goes by itself.
  const freed = b.getByText('3 numbers are free again').waitFor({ timeout: 60_000 });
  await phase(a, 'expired');
  await a.getByText('The time is up, and nothing was paid.').waitFor();
  await looks(b, '01', 'free');
  await freed;
  await axe(a);
  await reserveHere(b, ['02']);
  await a.goBack();
  await phase(a, 'none');
  await looks(a, '01', 'free');
  await looks(a, '02', 'other');
});

journey('r18_under_two_minutes_it_presses_and_says_so_once', async ({ person, admin }) => {
  // Long enough that a busy machine sees it before it presses, too.
  await times(admin, 600_000, 128_000);
  const id = await openRaffle(admin);
  const ana = await person('ana');
  const made = await reserve(ana.api, id, [1, 2]);
  await ana.api.ask('POST', `/reservations/${made.id}/move-to-checkout`, {});
  const page = await ana.open(`/app/reservations/${made.id}`);
  await page.locator('.timer-box').waitFor();
  const top = async () => (await page.locator('.summary').boundingBox()).y;
  const before = await top();
  assert.equal(await page.locator('.alarm').count(), 0);
  await page.locator('.timer-box.alarm').waitFor();
  assert.equal(await top(), before, 'the same box presses, and nothing moves');
  await page.getByText(/Last chance! Your reservation ends in 1:5\d/).first().waitFor();
  const said = await page.locator('.alarm-place [role=alert]').textContent();
  await eventually(async () => /1:5[0-7]/.test(await page.locator('.alarm p').first().textContent()), { what: 'the seconds' });
  assert.equal(await page.locator('.alarm-place [role=alert]').textContent(), said, 'said once, not every second');
  await axe(page);
  await page.setViewportSize({ width: 360, height: 560 });
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  const [bar, box] = [await page.locator('header').first().boundingBox(), await page.locator('.timer-box').boundingBox()];
  assert.ok(Math.abs(box.y - bar.y - bar.height) < 16, 'it stays below the bar');
});

journey('r24_whoever_lets_go_too_often_is_told_until_when', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const ana = await person('ana');
  ana.expect(/429/);
  for (let turn = 0; turn < 6; turn += 1) {
    const { id: made } = await reserve(ana.api, id, [1]);
    await ana.api.ask('POST', `/reservations/${made}/cancel`, {});
  }
  const page = await ana.open(pathOf(id));
  await live(page);
  await pick(page, ['07']);
  await main(page).click();
  await note(page, /You can reserve again in (59|1:00):\d\d/);
  await looks(page, '07', 'mine');
});

for (const shift of [-10, 10]) {
  journey(`e07_a_page_whose_clock_is_off_by_${shift}_minutes_counts_right`, async ({ person, admin }) => {
    const id = await openRaffle(admin);
    const ana = await person('ana');
    await ana.clockOff(shift);
    const page = await ana.open(pathOf(id));
    const left = async () => {
      const text = await page.locator('tenure-countdown').evaluate((timer) => timer.shadowRoot.querySelector('[part=time]').textContent);
      const [, minutes, seconds] = text.match(/(\d+):(\d\d)/);
      const { reservations: [one] } = await ana.api.ask('GET', `/reservations?raffle_id=${id}`);
      const says = (Number(minutes) * 60 + Number(seconds)) * 1000;
      assert.ok(Math.abs(says - one.expires_in_ms) < 3_000, `${text} where ${one.expires_in_ms} ms are left`);
    };
    await reserveHere(page, ['01']);
    await left();
    await main(page).click();
    await phase(page, 'checkout');
    await left();
    assert.equal(await page.locator('.alarm:visible').count(), 0, 'five minutes do not press');
  });
}
