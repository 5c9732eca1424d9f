// Paying for numbers: cards, banks, transfers, and the draw among what is paid.

import assert from 'node:assert/strict';

import { PHONE, axe, eventually, journey } from './helper.js';
import { approve, cell, live, looks, main, nextReference, note, openRaffle, pathOf, phase, reserve, reserveHere, state, tell } from './raffle.js';

/** Pays on the bank's page, in the tab that opens. */
async function payByCard(person, page, card) {
  // The fake gateway has no icon.
  person.expect(/404.*(favicon|hosted)/);
  const opened = person.context.waitForEvent('page');
  await main(page).click();
  const bank = await opened;
  await state(page, 'requires_action');
  await bank.locator('input[name=CardNumber]').fill(card);
  const gateway = new URL(bank.url()).origin;
  return { bank, gateway, send: () => bank.getByRole('button', { name: 'Pay' }).click() };
}

journey('r19_a_card_that_is_declined_and_one_that_is_not', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const [a, b] = await Promise.all([ana.open(pathOf(id)), bruno.open(pathOf(id))]);
  await Promise.all([live(a), live(b)]);
  await reserveHere(a, ['42', '43']);
  await main(a).click();
  await phase(a, 'checkout');
  await a.getByRole('button', { name: 'Pay ₡2,000.00' }).waitFor();
  await axe(a);
  const declined = await payByCard(ana, a, '4666666666662222');
  assert.equal(await declined.bank.evaluate(() => window.opener), null);
  await axe(a);
  await declined.send();
  await state(a, 'failed');
  await a.getByText('The bank declined it (code 05).').waitFor();
  await a.getByText('you can try again while there is time').waitFor();
  await eventually(() => declined.bank.isClosed(), { what: 'the bank’s tab being closed' });
  await axe(a);
  await main(a).click();
  await phase(a, 'checkout');
  const approved = await payByCard(ana, a, '4012000000020071');
  // What became of it is known here before the bank's tab is back.
  await ana.context.route('**/payments/callback/**', async (route) => {
    const response = await route.fetch({ maxRedirects: 0 });
    await state(a, 'succeeded');
    await route.fulfill({ response });
  });
  await approved.send();
  await state(a, 'succeeded');
  await eventually(() => approved.bank.isClosed(), { what: 'the bank’s tab being closed' });
  await a.getByText('Paid. The numbers are yours.').waitFor();
  await looks(b, '42', 'sold');
  await axe(a);
  await main(a).click();
  await a.getByText('Bought by you: 42, 43').waitFor();
  await looks(a, '43', 'sold');
});

journey('r19_a_bank_that_does_not_answer_is_waited_for', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const ana = await person('ana');
  const made = await reserve(ana.api, id, [9]);
  const page = await ana.open(`/app/reservations/${made.id}`);
  const { gateway, send } = await payByCard(ana, page, '4012000000020071');
  await fetch(`${gateway}/faults/answer_lost`, { method: 'POST' });
  try {
    await send();
    await page.getByText('The bank has not confirmed the payment yet.').waitFor();
    await page.getByText('Do not pay again').waitFor();
    await axe(page);
    await state(page, 'succeeded');
  } finally {
    await fetch(`${gateway}/faults/none`, { method: 'POST' });
  }
});

journey('r19_where_no_tab_may_be_opened_the_bank_comes_here', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const ana = await person('ana');
  ana.expect(/404.*(favicon|hosted)/);
  await ana.context.addInitScript(() => { window.open = () => null; });
  const made = await reserve(ana.api, id, [9]);
  const page = await ana.open(`/app/reservations/${made.id}`);
  await main(page).click();
  await page.locator('input[name=CardNumber]').fill('4012000000020071');
  await page.getByRole('button', { name: 'Pay' }).click();
  await page.locator('main[data-state=succeeded]').waitFor();
  await page.goto(`/app/reservations/${made.id}`);
  await phase(page, 'confirmed');
});

journey('r19_another_way_to_pay_and_a_payment_that_is_found_again', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const ana = await person('ana');
  const made = await reserve(ana.api, id, [9]);
  const payment = await ana.api.ask('POST', '/payments', { reservation_id: made.id, provider: 'bac_credomatic' });
  // Begun in another browser: this one does not know which payment is open.
  ana.expect(/409/);
  const page = await ana.open(`/app/reservations/${made.id}`);
  await phase(page, 'paying');
  await page.getByRole('button', { name: 'Go on with the payment' }).click();
  await state(page, 'requires_action');
  assert.ok(decodeURIComponent(page.url()).endsWith(`/app/pay/${payment.id}`));
  await page.getByRole('button', { name: 'Pay another way' }).click();
  await phase(page, 'checkout');
  await page.getByText('SINPE Móvil').click();
  await main(page).click();
  await page.getByText('1. Send the money').waitFor();
});

journey('r19_a_transfer_is_told_approved_and_seen_at_once', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana', { viewport: PHONE }), person('bruno')]);
  await ana.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const [a, b] = await Promise.all([ana.open(pathOf(id)), bruno.open(pathOf(id))]);
  await Promise.all([live(a), live(b)]);
  await reserveHere(a, ['33', '34']);
  await main(a).click();
  await phase(a, 'checkout');
  await a.getByText('Transfer from your phone').waitFor();
  assert.equal(await a.getByText('Transferencia').count(), 0, 'said once, in the page’s language');
  await a.getByText('SINPE Móvil').click();
  await main(a).click();
  await a.getByText('1. Send the money').waitFor();
  await a.getByRole('button', { name: 'Copy: Exactly' }).click();
  await a.getByText('Copied', { exact: true }).waitFor();
  assert.equal(await a.evaluate(() => navigator.clipboard.readText()), '2000.00');
  // What is missing is said here, in the page's language, and where it is.
  await a.getByRole('button', { name: 'I have sent it' }).click();
  await a.getByText('Fill in: Reference of the transfer').waitFor();
  const reference = a.getByLabel('Reference of the transfer');
  assert.ok(await reference.evaluate((field) => field === document.activeElement && field.getAttribute('aria-invalid') === 'true'
    && document.getElementById(field.getAttribute('aria-describedby'))?.textContent.startsWith('Fill in')));
  ana.expect(/422/);
  await reference.fill('!!!!!!');
  await a.getByLabel('Phone that you sent it from').fill('8888-3333');
  await a.getByRole('button', { name: 'I have sent it' }).click();
  await a.getByText('A reference has 6 to 40 letters and digits.').waitFor();
  await axe(a);
  await a.getByLabel('Reference of the transfer').fill(`2026-${nextReference()}`);
  await a.getByRole('button', { name: 'I have sent it' }).click();
  await state(a, 'pending_review');
  await a.getByText('A person compares your transfer').waitFor();
  await axe(a);
  await looks(b, '33', 'other');
  const other = await ana.open(`/app/reservations/${encodeURIComponent(await a.evaluate(async () => (await (await fetch('/reservations')).json()).reservations[0].id))}`);
  await phase(other, 'verification');
  const { payments } = await admin.ask('GET', '/admin/payments?state=pending_review&limit=200');
  const payment = payments.find(({ reservation_id }) => reservation_id.startsWith(`${id}~`));
  assert.equal(payment.transfer.payer_phone, '88883333');
  await approve(admin, payment);
  await phase(other, 'confirmed');
  await a.bringToFront();
  await state(a, 'succeeded');
  await looks(b, '33', 'sold');
  await a.goto('/app/reservations');
  await a.locator('.reservation[data-status=confirmed]').first().waitFor();
  await axe(a);
});

journey('r19_a_transfer_that_the_bank_does_not_show', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const made = await reserve(ana.api, id, [5]);
  const payment = await ana.api.ask('POST', '/payments', { reservation_id: made.id, provider: 'sinpe_movil' });
  await tell(ana.api, payment);
  const [a, b] = await Promise.all([ana.open(`/app/pay/${payment.id}`), bruno.open(pathOf(id))]);
  await state(a, 'pending_review');
  await looks(b, '05', 'other');
  await admin.ask('POST', `/admin/payments/${payment.id}/reject`, { reason: 'not there' });
  await state(a, 'failed');
  await a.getByText('The bank shows no such transfer.').waitFor();
  await a.getByText('The reservation is over, too').waitFor();
  await looks(b, '05', 'free');
  await axe(a);
});

journey('a_raffle_is_paused_drawn_and_can_be_checked', async ({ person, admin }) => {
  const id = await openRaffle(admin, { numbers: 50 });
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const made = await reserve(ana.api, id, [3, 17, 44]);
  const payment = await ana.api.ask('POST', '/payments', { reservation_id: made.id, provider: 'sinpe_movil' });
  await tell(ana.api, payment);
  await approve(admin, payment);
  const [a, b] = await Promise.all([ana.open(pathOf(id)), bruno.open(pathOf(id))]);
  await Promise.all([live(a), live(b)]);
  await admin.ask('PATCH', `/raffles/${id}`, { status: 'paused' });
  await b.getByText('Sales are paused.').waitFor();
  await cell(b, '10').click();
  await note(b, 'No numbers are sold here at the moment.');
  const draw = await admin.ask('POST', `/raffles/${id}/draw`, {});
  const won = String(draw.winner).padStart(2, '0');
  await a.locator('.winner').getByText(won).waitFor();
  await a.getByText('It is yours. Congratulations!').waitFor();
  await b.getByText('This raffle is over.').first().waitFor();
  await b.getByText('Check the draw yourself').click();
  await b.getByRole('button', { name: 'Do the draw again, here' }).click();
  await b.getByText('It holds: the same number wins.').waitFor();
  await b.getByText(draw.seed).waitFor();
  await axe(b);
  // A draw that somebody changed does not pass.
  await ana.context.route(/\/draw$/, async (route) => route.fulfill({ json: { ...draw, sold: [3, 17] } }));
  await a.reload();
  await a.getByText('Check the draw yourself').click();
  await a.getByRole('button', { name: 'Do the draw again, here' }).click();
  await a.getByText('It does not hold.').waitFor();
});
