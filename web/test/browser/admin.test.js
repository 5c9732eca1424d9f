// The raffle office: payments compared with the bank, raffles opened and drawn, ways to pay switched on and off.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

import { holds } from '../../pages/lib/draw.js';
import { money, parseMoney } from '../../pages/lib/money.js';
import { Api, LANGUAGES, axe, axeIn, eventually, fits, journey, sights } from './helper.js';

let count = 0;

/** A raffle on sale, of its own for each journey: ten numbers at ₡1,000.00. */
async function onSale(api, title) {
  count += 1;
  const { id } = await api.ask('POST', '/raffles', { id: `r${Date.now() % 1e8}-${count}`, title, numbers: 10, price_minor: 100_000, currency: 'CRC' });
  await api.ask('PATCH', `/raffles/${id}`, { status: 'active' });
  return id;
}

/** One person has one transfer in review: what a journey that failed left behind is decided first. */
async function settle(api) {
  const admin = new Api('carmen');
  const listed = await Promise.all(['pending_review', 'conflicted'].map((state) => admin.ask('GET', `/admin/payments?state=${state}`)));
  for (const { id, buyer, state } of listed.flatMap(({ payments }) => payments)) {
    if (buyer.id !== api.who || buyer.id === 'carmen') continue;
    if (state === 'conflicted') await admin.ask('POST', `/admin/payments/${id}/refund`, {});
    else await admin.ask('POST', `/admin/payments/${id}/reject`, { reason: 'left behind' });
  }
}

/** Somebody reserves, and says that the money was sent. */
async function transfer(api, raffle, numbers) {
  await settle(api);
  count += 1;
  const { id: reservation, total_minor: amount } = await api.ask('POST', '/reservations', { raffle_id: raffle, number_ids: numbers, session_id: `s${count}` });
  const { id } = await api.ask('POST', '/payments', { reservation_id: reservation, provider: 'sinpe_movil' });
  const reference = `${Date.now()}${String(count).padStart(8, '0')}`;
  await api.ask('POST', `/payments/${id}/transfer`, {
    reference, payer_phone: `8${String(Date.now() + count).slice(-7)}`, payer_name: 'Solís Mora', payer_bank: 'Banco Popular', amount_minor: amount,
  });
  return { id, reference };
}

const countsOf = async (api, raffle) => (await api.ask('GET', `/raffles/${raffle}`)).counts;
const card = (page, reference) => page.locator('.payment', { hasText: reference });
const press = (page, name) => page.getByRole('button', { name, exact: true }).click();

/** Something is said that soon goes again: it is listened for before it is asked for. */
const told = (page, text, act) => Promise.all([page.getByText(text).first().waitFor(), act()]);

test('amounts_are_read_as_people_write_them', () => {
  const read = (/** @type {string} */ text, currency = 'CRC') => parseMoney(text, currency);
  for (const text of ['2000', '2,000', '2.000', '2 000,00', '₡2,000.00', '2.000,00', '2000.0', '２０００', '2000,00 ₡']) assert.equal(read(text), 200_000, text);
  assert.equal(read('1.234.567,5'), 123_456_750);
  assert.equal(read('0'), 0);
  assert.equal(read('1500', 'JPY'), 1_500);
  assert.equal(read('1.5', 'KWD'), 1_500);
  for (const text of ['', 'two', '-5', '1.2.3', '12,34,567', '1000.500', '1e3', '1,5 2x', '99999999999999999']) assert.equal(read(text), undefined, text);
  assert.equal(read('1.5', 'JPY'), undefined);
  assert.equal(money(200_000, 'CRC'), '₡2,000.00');
});

test('a_draw_is_done_again_and_a_changed_one_does_not_hold', async () => {
  const draw = {
    raffle_id: 'x', drawn_at: '2026-01-01T00:00:00.000Z', seed: '00'.repeat(32), seed_hash: '66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925',
    sold: [7], sold_hash: '', winner: 7,
  };
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode('7\n'));
  draw.sold_hash = Buffer.from(digest).toString('hex');
  assert.equal(await holds(draw), true);
  assert.equal(await holds({ ...draw, winner: 8 }), false);
  assert.equal(await holds({ ...draw, sold: [8], winner: 8 }), false);
  assert.equal(await holds({ ...draw, seed: '01'.repeat(32) }), false);
  assert.equal(await holds(draw, 'ff'), false);
});

journey('r16_r17_a_switch_changes_what_buyers_can_choose', async ({ person }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  const choices = async () => (await ana.api.ask('GET', '/payment-providers')).providers.map(({ code }) => code);
  const raffle = await onSale(carmen.api, 'Chosen');
  const { id } = await ana.api.ask('POST', '/reservations', { raffle_id: raffle, number_ids: [1], session_id: 'chooses' });
  await ana.api.ask('POST', `/reservations/${id}/move-to-checkout`, {});
  const checkout = await ana.open(`/app/reservations/${encodeURIComponent(id)}`);
  const offered = checkout.getByRole('radio', { name: /SINPE Móvil/ });
  await offered.waitFor();
  const page = await carmen.open('/app/admin/providers');
  const way = page.getByRole('switch', { name: 'Offer SINPE Móvil to buyers' });
  const switched = (/** @type {string} */ is) => eventually(async () => (await way.getAttribute('aria-checked')) === is, { what: `switched to ${is}` });
  await switched('true');
  assert.deepEqual(await choices(), ['bac_credomatic', 'sinpe_movil']);
  await way.focus();
  await told(page, 'SINPE Móvil is off. Payments that run are finished.', () => page.keyboard.press('Space'));
  await switched('false');
  assert.deepEqual(await choices(), ['bac_credomatic']);
  await checkout.reload();
  await checkout.getByRole('radio', { name: /BAC Credomatic/ }).waitFor();
  assert.equal(await offered.count(), 0, 'nobody chooses what is off');
  await axe(page);
  await way.click();
  await switched('true');
  assert.deepEqual(await choices(), ['bac_credomatic', 'sinpe_movil']);
  await checkout.reload();
  await offered.waitFor();
  await ana.api.ask('POST', `/reservations/${id}/cancel`, {});
  // The order is the administrator's.
  await press(page, 'Edit SINPE Móvil');
  await page.locator('.provider', { hasText: 'SINPE Móvil' }).getByLabel('Place in the list').fill('0');
  await press(page, 'Save');
  await page.getByRole('button', { name: 'Edit SINPE Móvil' }).waitFor();
  assert.deepEqual(await choices(), ['sinpe_movil', 'bac_credomatic']);
  assert.equal(await page.locator('.provider h2').first().innerText(), 'SINPE Móvil');
  await carmen.api.ask('PATCH', '/admin/payment-providers/sinpe_movil', { priority: 2 });
  await eventually(async () => (await page.locator('.provider h2').first().innerText()) === 'BAC Credomatic', { what: 'another administrator’s change' });
});

journey('r16_r17_a_field_that_is_wrong_is_named_and_a_secret_is_never_shown', async ({ person }) => {
  const carmen = await person('carmen');
  carmen.expect(/422/);
  const page = await carmen.open('/app/admin/providers');
  await press(page, 'Edit SINPE Móvil');
  const sinpe = page.locator('.provider', { hasText: 'SINPE Móvil' });
  await sinpe.getByLabel('Phone to send to').fill('12');
  await press(page, 'Save');
  await page.getByRole('alert').getByText('Check “Phone to send to”: 8 to 15 digits').waitFor();
  assert.equal(await sinpe.getByLabel('Phone to send to').getAttribute('aria-invalid'), 'true');
  await axe(page);
  await sinpe.getByLabel('Phone to send to').fill('0000-0000');
  await sinpe.getByLabel('Account holder').fill('');
  await press(page, 'Save');
  await page.getByRole('alert').getByText('“Account holder” is missing: nobody could pay.').waitFor();
  await press(page, 'Cancel');
  await press(page, 'Edit BAC Credomatic');
  const secret = 'not-for-anybody-to-see';
  const bac = page.locator('.provider', { hasText: 'BAC Credomatic' });
  assert.equal(await bac.getByLabel('Gateway’s key').inputValue(), '');
  // The demonstration's gateway takes what it is told.
  const { providers } = await carmen.api.ask('GET', '/admin/payment-providers');
  assert.equal(providers[0].config.api_key, '********');
  await bac.getByLabel('Gateway’s key').fill(secret);
  await bac.getByLabel('Page set').fill('PTZ/Own');
  await press(page, 'Save');
  await page.getByRole('button', { name: 'Edit BAC Credomatic' }).waitFor();
  assert.ok(!(await page.content()).includes(secret));
  await bac.getByText('PTZ/Own').waitFor();
  await bac.getByText('Set, and never shown').waitFor();
  await press(page, 'Edit BAC Credomatic');
  await bac.getByLabel('Page set').fill('');
  await press(page, 'Save');
  await bac.getByText('PTZ/Own').waitFor({ state: 'detached' });
  const after = (await carmen.api.ask('GET', '/admin/payment-providers')).providers.find(({ code }) => code === 'bac_credomatic');
  assert.deepEqual([after.config.api_key, after.config.page_set, after.missing], ['********', undefined, []]);
});

journey('r16_another_account_is_added_and_its_code_counts_once', async ({ person }) => {
  const carmen = await person('carmen');
  carmen.expect(/422/);
  const page = await carmen.open('/app/admin/providers');
  await press(page, 'Add an account');
  const form = page.locator('form:not([hidden])');
  await form.getByLabel('Name that buyers read').fill('SINPE del norte');
  await form.getByLabel('Code').fill('sinpe_movil');
  await form.getByLabel('Phone to send to').fill('8888-0000');
  await form.getByLabel('Account holder').fill('Asociación Ejemplo');
  await press(page, 'Add it');
  await page.getByRole('alert').getByText('“sinpe_movil” is taken. Choose another one.').waitFor();
  const code = `sinpe_norte_${Date.now()}`;
  await form.getByLabel('Code').fill(code);
  await told(page, 'SINPE del norte is added. Switch it on when it is right.', () => press(page, 'Add it'));
  const way = page.getByRole('switch', { name: 'Offer SINPE del norte to buyers' });
  assert.equal(await way.getAttribute('aria-checked'), 'false');
  await way.click();
  await eventually(async () => (await carmen.api.ask('GET', '/payment-providers')).providers.some((one) => one.code === code), { what: 'offered' });
  await way.click();
  await eventually(async () => (await way.getAttribute('aria-checked')) === 'false');
});

journey('r19_a_transfer_shows_at_once_and_only_the_exact_amount_sells', async ({ person }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  const raffle = await onSale(carmen.api, 'Compared');
  const page = await carmen.open('/app/admin');
  await page.locator('tenure-live[state=live]').waitFor();
  const { id, reference } = await transfer(ana.api, raffle, [1, 2]);
  const toldAt = Date.now();
  const mine = card(page, reference);
  await mine.waitFor();
  assert.ok(Date.now() - toldAt < 3_000, 'without reloading');
  assert.match(await mine.innerText(), /Ana[\s\S]*₡2,000\.00[\s\S]*Solís Mora[\s\S]*Banco Popular[\s\S]*Compared/);
  await mine.getByText('1, 2').waitFor();
  await axe(page);
  const amount = mine.getByLabel('Amount that the bank shows');
  assert.equal(await amount.inputValue(), '', 'nobody approves what they have not looked at');
  await amount.fill('about two thousand');
  await mine.getByRole('button', { name: 'Approve' }).click();
  await mine.getByText('This is no amount. Write it like 12,345.00.').waitFor();
  await amount.fill('1,900');
  await mine.getByText('Read as ₡1,900.00').waitFor();
  await mine.getByRole('button', { name: 'Approve' }).click();
  await mine.getByRole('alert').getByText('Nothing is sold. The bank shows ₡1,900.00, but ₡2,000.00 was asked.').waitFor();
  assert.equal((await ana.api.ask('GET', `/payments/${id}`)).state, 'conflicted');
  assert.deepEqual(await countsOf(ana.api, raffle), { available: 8, reserved: 2, sold: 0 });
  await axe(page);
  // It was a slip: what the bank shows is typed again.
  await amount.fill('2000,00');
  await told(page, 'Ana has paid. The numbers are sold.', () => page.keyboard.press('Enter'));
  await mine.waitFor({ state: 'detached' });
  assert.equal((await ana.api.ask('GET', `/payments/${id}`)).state, 'succeeded');
  assert.deepEqual(await countsOf(ana.api, raffle), { available: 8, reserved: 0, sold: 2 });
  await page.getByRole('button', { name: /^Paid/ }).click();
  await mine.waitFor();
  assert.match(page.url(), /show=paid/);
  assert.equal(await mine.getByLabel('Amount that the bank shows').isVisible(), false, 'it is decided');
  // It has an address of its own, and the way back is the browser's.
  await mine.getByRole('link', { name: 'Payment of Ana' }).click();
  await page.getByRole('heading', { name: 'Payment of Ana', level: 1 }).waitFor();
  await axe(page);
  await page.goBack();
  await mine.waitFor();
});

journey('r19_a_rejection_needs_a_reason_and_frees_the_numbers', async ({ person }) => {
  const [carmen, bruno] = [await person('carmen'), await person('bruno')];
  const raffle = await onSale(carmen.api, 'Rejected');
  const { id, reference } = await transfer(bruno.api, raffle, [3]);
  const page = await carmen.open('/app/admin');
  const mine = card(page, reference);
  await mine.getByRole('button', { name: 'Reject' }).click();
  const dialog = page.locator('dialog');
  await dialog.getByRole('button', { name: 'Reject' }).click();
  assert.equal(await dialog.isVisible(), true, 'not without a reason');
  await axe(page);
  await dialog.locator('textarea').fill('no such transfer in the bank');
  await told(page, 'Rejected. The numbers are free again.', () => dialog.getByRole('button', { name: 'Reject' }).click());
  await mine.waitFor({ state: 'detached' });
  const { state, reason } = await bruno.api.ask('GET', `/payments/${id}`);
  assert.deepEqual([state, reason], ['failed', 'rejected']);
  assert.deepEqual(await countsOf(bruno.api, raffle), { available: 10, reserved: 0, sold: 0 });
  await page.getByRole('button', { name: /^Ended/ }).click();
  await mine.getByText('rejected by a person').waitFor();
});

journey('r19_money_that_is_not_what_was_asked_goes_back_on_record', async ({ person }) => {
  const [carmen, bruno] = [await person('carmen'), await person('bruno')];
  const raffle = await onSale(carmen.api, 'Given back');
  const { id, reference } = await transfer(bruno.api, raffle, [4]);
  const page = await carmen.open('/app/admin');
  const mine = card(page, reference);
  await mine.getByLabel('Amount that the bank shows').fill('900');
  await mine.getByRole('button', { name: 'Approve' }).click();
  await mine.getByText('Nothing is sold. The bank shows ₡900.00').waitFor();
  await mine.getByRole('button', { name: 'Give the money back' }).click();
  await page.locator('dialog').getByText('Give ₡900.00 back to Bruno?').waitFor();
  await told(page, 'On record: Bruno is owed ₡900.00.', () => page.locator('dialog').getByRole('button', { name: 'Give the money back' }).click());
  await page.getByRole('button', { name: /^Owed back/ }).click();
  await mine.waitFor();
  await axe(page);
  await mine.getByRole('button', { name: 'I have sent it back' }).click();
  await page.locator('dialog').getByLabel('Number of the transfer that you sent').fill('2026 0115 9900');
  await axe(page);
  await told(page, 'Given back. It is on record.', () => page.locator('dialog').getByRole('button', { name: 'I have sent it back' }).click());
  assert.equal((await bruno.api.ask('GET', `/payments/${id}`)).state, 'refunded');
});

journey('r19_typing_goes_on_when_another_payment_is_decided', async ({ person }) => {
  const [carmen, ana, bruno] = [await person('carmen'), await person('ana'), await person('bruno')];
  const raffle = await onSale(carmen.api, 'Side by side');
  const first = await transfer(ana.api, raffle, [1]);
  const second = await transfer(bruno.api, raffle, [2]);
  const page = await carmen.open('/app/admin');
  await card(page, first.reference).waitFor();
  const amount = card(page, second.reference).getByLabel('Amount that the bank shows');
  await amount.pressSequentially('10');
  await carmen.api.ask('POST', `/admin/payments/${first.id}/reject`, { reason: 'not in the bank' });
  await card(page, first.reference).waitFor({ state: 'detached' });
  await page.keyboard.type('00');
  assert.equal(await amount.inputValue(), '1000');
  await carmen.api.ask('POST', `/admin/payments/${second.id}/reject`, { reason: 'over' });
});

journey('r19_two_deciding_one_is_told_what_the_other_decided', async ({ person }) => {
  const [carmen, bruno] = [await person('carmen'), await person('bruno')];
  carmen.expect(/409/);
  const raffle = await onSale(carmen.api, 'Decided twice');
  const { id, reference } = await transfer(bruno.api, raffle, [5]);
  const page = await carmen.open('/app/admin');
  const mine = card(page, reference);
  await mine.getByRole('button', { name: 'Reject' }).click();
  await page.locator('dialog textarea').fill('too slow');
  await carmen.api.ask('POST', `/admin/payments/${id}/approve`, { bank_amount_minor: 100_000 });
  await told(page, 'Somebody decided this meanwhile: Paid.', () => page.locator('dialog').getByRole('button', { name: 'Reject' }).click());
  assert.deepEqual(await countsOf(bruno.api, raffle), { available: 9, reserved: 0, sold: 1 });
});

journey('r19_nobody_decides_their_own_payment', async ({ person }) => {
  const carmen = await person('carmen');
  const raffle = await onSale(carmen.api, 'Her own');
  const { id, reference } = await transfer(carmen.api, raffle, [6]);
  const page = await carmen.open(`/app/admin/payments/${encodeURIComponent(id)}`);
  await card(page, reference).getByText('This payment is your own. Somebody else decides it.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
  await axe(page);
});

journey('a_raffle_is_made_opened_sold_and_drawn_once', async ({ person, base }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  carmen.expect(/409|422/);
  const page = await carmen.open('/app/admin/raffles');
  await press(page, 'New raffle');
  const id = `journey-${Date.now()}`;
  await page.getByLabel('Title').fill('Rifa de la prueba');
  await page.getByLabel('How many numbers').fill('20');
  await page.getByLabel('Price of one number').fill('1.500');
  await page.getByText('Read as ₡1,500.00').waitFor();
  await page.getByLabel('Name in addresses').fill('navidad');
  await axe(page);
  await press(page, 'Make the draft');
  await page.getByRole('alert').getByText('“navidad” is taken. Choose another one.').waitFor();
  await page.getByLabel('Name in addresses').fill(id);
  await press(page, 'Make the draft');
  await page.getByRole('heading', { name: 'Rifa de la prueba', level: 1 }).waitFor();
  await page.getByText('There is nothing to draw before the raffle has been on sale.').waitFor();
  await page.getByText('It is published when the raffle opens.').waitFor();
  await press(page, 'Open it');
  await axe(page);
  await page.locator('dialog').getByRole('button', { name: 'Open it' }).click();
  await page.getByText('On sale', { exact: true }).waitFor();
  const { seed_hash: published } = await ana.api.ask('GET', `/raffles/${id}`);
  await page.getByText(published).waitFor();

  // Ana buys two numbers; who has what shows without reloading, and so does the money.
  const { id: payment } = await transfer(ana.api, id, [2, 17]);
  await page.locator('.holds').getByText('2, 17').waitFor();
  await page.locator('.holds').getByText(/transfer is compared/).waitFor();
  await press(page, 'Pause');
  await page.getByText('2 numbers are still reserved. Wait for them, or cancel the reservations.').waitFor();
  await page.getByRole('button', { name: 'Draw', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.locator('.toast', { hasText: '2 numbers are still reserved.' }).waitFor();
  assert.equal(await page.locator('dialog').count(), 0, 'nothing is drawn while somebody pays');
  await axe(page);
  await carmen.api.ask('POST', `/admin/payments/${payment}/approve`, { bank_amount_minor: 300_000 });
  await page.getByText('₡3,000.00', { exact: true }).waitFor();
  await page.getByText('Ready: 2 sold numbers take part.').waitFor();

  // Two pages ask; one draws.
  const other = await carmen.open(`/app/admin/raffles/${id}`);
  await other.getByRole('button', { name: 'Draw', exact: true }).click();
  await page.getByRole('button', { name: 'Draw', exact: true }).click();
  await page.locator('dialog').getByText('2 sold numbers take part. The result is final and public: nobody can draw twice.').waitFor();
  await press(page, 'Draw now');
  await page.getByText('Done again in this browser: the same number wins.').waitFor();
  const draw = await ana.api.ask('GET', `/raffles/${id}/draw`);
  assert.ok([2, 17].includes(draw.winner));
  assert.equal(await page.locator('.winner b').innerText(), String(draw.winner));
  for (const text of [published, draw.seed, draw.sold_hash, `tenure raffle verify ${base}/raffles/${id}/draw --seed-hash ${published}`]) {
    await page.locator('.result code', { hasText: text }).first().waitFor();
  }
  await axe(page);
  await told(other, `It is drawn already, and nobody can draw twice. Number ${draw.winner} won.`, () => press(other, 'Draw now'));
  assert.deepEqual(await ana.api.ask('GET', `/raffles/${id}/draw`), draw);
  const verified = spawnSync(process.env.TENURE_BIN ?? '../target/debug/tenure', ['raffle', 'verify', '-', '--seed-hash', published], { input: JSON.stringify(draw), encoding: 'utf8' });
  assert.equal(verified.status, 0, verified.stderr);
  await carmen.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await told(page, 'Copied.', () => press(page, 'Copy: Command to do it again'));
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^tenure raffle verify http/);
});

journey('an_open_reservation_is_cancelled_by_an_administrator_and_the_list_counts_along', async ({ person }) => {
  const [carmen, ana] = [await person('carmen'), await person('ana')];
  const raffle = await onSale(carmen.api, 'Hold and go');
  const [page, list] = [await carmen.open(`/app/admin/raffles/${raffle}`), await carmen.open('/app/admin/raffles')];
  await page.getByText('Nobody has numbers under a timer.').waitFor();
  await ana.api.ask('POST', '/reservations', { raffle_id: raffle, number_ids: [8, 9], session_id: 'held' });
  await page.locator('.holds').getByText('8, 9').waitFor();
  assert.match(await page.locator('.holds').innerText(), /Ana[\s\S]*choosing · since \d\d:\d\d/);
  assert.match(await page.locator('.holds tenure-countdown [part=time]').innerText(), /^(10:00|9:5\d)$/);
  await page.getByRole('button', { name: 'Cancel the reservation of Ana' }).click();
  await page.locator('dialog').getByText('These numbers are free again at once: 8, 9').waitFor();
  await page.locator('dialog').getByRole('button', { name: 'Cancel the reservation' }).click();
  await page.getByText('Nobody has numbers under a timer.').waitFor();
  const { reservations } = await ana.api.ask('GET', '/reservations');
  assert.equal(reservations.find(({ session_id: session }) => session === 'held').status, 'cancelled');
  await list.getByRole('link', { name: /Hold and go/ }).getByText('0 of 10 sold').waitFor();
  await list.keyboard.press('/');
  await list.keyboard.type('no such raffle');
  await list.getByText('No raffle fits the search').waitFor();
  await press(list, 'Clear the search');
  await list.getByRole('link', { name: /Hold and go/ }).click();
  await list.getByRole('heading', { name: 'Hold and go', level: 1 }).waitFor();
  await list.goBack();
  await list.getByRole('heading', { name: 'Raffles', level: 1 }).waitFor();
});

for (const who of ['ana', 'diego']) {
  journey(`the raffle office is not for ${who}`, async ({ person }) => {
    const one = await person(who);
    for (const path of ['', '/raffles', '/providers', '/raffles/navidad', '/payments/navidad~x']) {
      const page = await one.open(`/app/admin${path}`);
      await page.getByRole('heading', { name: 'The raffle office is for administrators' }).waitFor();
      assert.equal(await page.locator('.rail').getByText('Raffle office').count(), 0);
      await axe(page);
      await page.close();
    }
  });
}

for (const language of LANGUAGES) {
  journey(`the raffle office in ${language}`, async ({ person }) => {
    const setUp = await person('carmen');
    const [ana, bruno] = [await person('ana'), await person('bruno')];
    const raffle = await onSale(setUp.api, `Seen in ${language}`);
    const paid = await transfer(ana.api, raffle, [1]);
    await setUp.api.ask('POST', `/admin/payments/${paid.id}/approve`, { bank_amount_minor: 100_000 });
    const waiting = await transfer(ana.api, raffle, [2]);
    const differing = await transfer(bruno.api, raffle, [3]);
    await setUp.api.ask('POST', `/admin/payments/${differing.id}/approve`, { bank_amount_minor: 1 });
    for (const [viewport, theme] of sights(language)) {
      const carmen = await person('carmen', { language, viewport, theme });
      const look = async (path, act = async () => {}) => {
        const page = await carmen.open(`/app/admin${path}`);
        await page.locator('.admin').waitFor();
        await act(page);
        await fits(page);
        await axeIn(page, language);
        await page.close();
      };
      await look('', (page) => card(page, waiting.reference).waitFor());
      for (const show of ['owed', 'open', 'paid', 'over']) await look(`?show=${show}`, (page) => page.locator('.payments:not([aria-busy])').waitFor({ state: 'attached' }));
      await look(`/payments/${encodeURIComponent(differing.id)}`);
      await look('/raffles', (page) => page.locator('.raffles + *, .admin .button.primary').first().click());
      await look(`/raffles/${raffle}`);
      await look('/providers', async (page) => {
        await page.locator('.provider .button[aria-label]').first().click();
        await page.locator('.provider form:not([hidden])').waitFor();
      });
    }
    await setUp.api.ask('POST', `/admin/payments/${waiting.id}/reject`, { reason: 'over' });
    await setUp.api.ask('POST', `/admin/payments/${differing.id}/refund`, {});
    await setUp.api.ask('POST', `/admin/payments/${differing.id}/refund`, { sent_reference: '7000001' });
    // The result of a draw is the longest page.
    await setUp.api.ask('PATCH', `/raffles/${raffle}`, { status: 'paused' });
    await setUp.api.ask('POST', `/raffles/${raffle}/draw`, {});
    for (const [viewport] of sights(language)) {
      const carmen = await person('carmen', { language, viewport });
      const page = await carmen.open(`/app/admin/raffles/${raffle}`);
      await page.locator('.result .winner').waitFor();
      await fits(page);
      await axeIn(page, language);
    }
  });
}
