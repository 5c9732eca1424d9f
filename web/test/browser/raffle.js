// What the journeys of raffles share: arranging one by the API, and the parts of its pages.

/** @typedef {import('./helper.js').Api} Api */
/** @typedef {import('playwright-core').Page} Page */

// R24 allows a person ten reservations a minute; the journeys share two people. Read by the server that they start.
process.env.TENURE_RATES_RESERVE_PER_MINUTE = '0';

let count = 0;
/** A raffle of its own for each journey. @param {Api} admin */
export async function openRaffle(admin, { title = 'Navidad', numbers = 100 } = {}) {
  count += 1;
  const id = `r-${Date.now().toString(36)}-${count}`;
  await admin.ask('POST', '/raffles', { id, title, numbers, price_minor: 100_000, currency: 'CRC', draw_at: '2030-12-24T18:00:00Z' });
  await admin.ask('PATCH', `/raffles/${id}`, { status: 'active' });
  return id;
}

let sessions = 0;
/** Each in a session of its own, as from another browser. @param {Api} api @param {string} raffle @param {number[]} numbers */
export const reserve = (api, raffle, numbers) => api.ask('POST', '/reservations', { raffle_id: raffle, number_ids: numbers, session_id: `test-${sessions += 1}` });

let references = Date.now();
/** No two transfers have the same. */
export const nextReference = () => references += 1;
/** Says that a transfer was sent. @param {Api} api @param {{id: string, amount_minor: number}} payment */
export const tell = (api, payment, phone = '8888-1111') => api.ask('POST', `/payments/${payment.id}/transfer`, { reference: `2026${nextReference()}`, payer_phone: phone, amount_minor: payment.amount_minor });
/** @param {Api} admin @param {{id: string, amount_minor: number}} payment */
export const approve = (admin, payment) => admin.ask('POST', `/admin/payments/${payment.id}/approve`, { bank_amount_minor: payment.amount_minor });

/** @param {string} id */
export const pathOf = (id) => `/app/raffles/${id}`;
/** @param {Page} page @param {string | number} number As the grid writes it. */
export const cell = (page, number) => page.locator('tenure-grid [role=gridcell]', { hasText: new RegExp(`^${number}$`) });
/** @param {Page} page @param {string | number} number @param {string} state */
export const looks = (page, number, state) => page.locator(`tenure-grid [role=gridcell][data-state=${state}]`, { hasText: new RegExp(`^${number}$`) }).waitFor();
/** Of the reservation. @param {Page} page @param {string} wanted */
export const phase = (page, wanted) => page.locator(`:is(.raffle, .checkout)[data-phase=${wanted}]`).waitFor();
/** Of the payment. @param {Page} page @param {string} wanted */
export const state = (page, wanted) => page.locator(`.checkout[data-state=${wanted}]`).waitFor();
/** The button that leads on. @param {Page} page */
export const main = (page) => page.locator('.tray .primary:visible, .checkout-foot .primary:visible');
/** @param {Page} page @param {string | RegExp} text */
export const note = (page, text) => page.locator('.tray .note').getByText(text).waitFor();
/** @param {Page} page */
export const live = (page) => page.locator('tenure-live[state=live]').waitFor();

/** @param {Page} page @param {string[]} numbers */
export async function pick(page, numbers) {
  for (const number of numbers) await cell(page, number).click();
}

/** @param {Page} page @param {string[]} numbers */
export async function reserveHere(page, numbers) {
  await pick(page, numbers);
  await main(page).click();
  await phase(page, 'selection');
}
