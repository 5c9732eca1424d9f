// Tasks, in a real browser: two people at one task, and one person in two tabs.

import assert from 'node:assert/strict';

import { axe, DESK, eventually, journey, PHONE } from './helper.js';
import { mode, pathOf, readyTask, tops } from './tasks.js';

// Times are short where one has to run out, but not so short that a busy machine misses what happens in between.

const press = (page, name) => page.getByRole('button', { name, exact: true }).click();
const quantity = (page, line = 1) => page.locator(`.line:nth-child(${line}) [data-field=count] input`);

journey('t01_t02_t07_claimed_by_one_the_other_sees_it_within_a_second_and_reads', async ({ person }) => {
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const id = await readyTask(ana.api, 'Seen at once');
  const [a, b, list] = await Promise.all([ana.open(pathOf(id)), bruno.open(pathOf(id)), bruno.open('/app/tasks')]);
  await Promise.all([mode(a, 'free'), mode(b, 'free'), list.getByRole('link', { name: 'Seen at once', exact: true }).waitFor()]);
  assert.equal(await a.locator('.line input').count(), 0, 'nothing can be edited before the claim');
  await Promise.all([a, b, list].map((page) => page.locator('tenure-live[state=live]').waitFor()));
  await press(a, 'Process');
  await mode(a, 'mine');
  const seenAt = Date.now();
  await mode(b, 'other');
  await list.locator('tr', { hasText: 'Seen at once' }).locator('tenure-lock[state=other]').waitFor();
  assert.ok(Date.now() - seenAt < 1_000, 'within a second');
  await b.getByText(/Locked by Ana since/).waitFor();
  assert.equal(await b.locator('.line input, .line select').count(), 0, 'fields are text');
  assert.equal(await b.getByRole('button', { name: 'Process' }).count(), 0);
  await press(a, 'Leave');
  await mode(a, 'free');
  await mode(b, 'free');
  const { lock } = await ana.api.ask('GET', `/tasks/${id}`);
  assert.deepEqual([lock.locked_by, lock.locked_at, lock.heartbeat_at, lock.expires_at], [null, null, null, null]);
});

journey('t09_t12_idle_then_lost_then_retried', async ({ person, admin }) => {
  await admin.policy('task', { ttl_ms: 10_000, idle_guard_ms: 1_000 });
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  // At the deadline the page asks, and hears that it is over.
  ana.expect(/410.*heartbeat/);
  const id = await readyTask(ana.api, 'Nobody is there');
  const [a, b] = await Promise.all([ana.open(pathOf(id)), bruno.open(pathOf(id))]);
  await mode(b, 'free');
  await press(a, 'Process');
  await mode(a, 'mine');
  await mode(b, 'other');
  await a.locator('tenure-banner[state=idle]').waitFor();
  await mode(a, 'lost');
  await a.getByText('Lock lost').first().waitFor();
  assert.equal(await a.locator('.line input').count(), 0, 'read-only at once');
  await mode(b, 'free');
  await mode(a, 'lost');
  await press(a, 'Retry claim');
  await mode(a, 'mine');
  await mode(b, 'other');
});

journey('t08_t09_whoever_is_active_keeps_it', async ({ person, admin }) => {
  await admin.policy('task', { ttl_ms: 9_000, idle_guard_ms: 6_000 });
  const ana = await person('ana');
  const id = await readyTask(ana.api, 'Somebody is there');
  const page = await ana.open(pathOf(id));
  await press(page, 'Process');
  await mode(page, 'mine');
  const { lock } = await ana.api.ask('GET', `/tasks/${id}`);
  // Far past the first deadline.
  await eventually(async () => {
    await page.mouse.move(200 + Math.random() * 200, 300);
    const now = (await ana.api.ask('GET', `/tasks/${id}`)).lock;
    assert.equal(now.locked_at, lock.locked_at, 'still the same lock');
    return Date.parse(now.heartbeat_at) - Date.parse(lock.expires_at) > 1_000;
  });
  await mode(page, 'mine');
});

journey('t10_heartbeats_alone_do_not_keep_it_for_ever_but_an_action_does', async ({ person, admin }) => {
  await admin.policy('task', { ttl_ms: 15_000, ttl_ms_min: 15_000, ttl_ms_max: 15_000, rolling_ms: 16_000, idle_guard_ms: null });
  const ana = await person('ana');
  const id = await readyTask(ana.api, 'Never changed');
  const page = await ana.open(pathOf(id));
  await press(page, 'Process');
  await mode(page, 'mine');
  await page.locator('tenure-banner[state=idle]').waitFor();
  await press(page, 'I’m still here');
  await page.locator('tenure-banner[state=mine]').waitFor();
  await mode(page, 'mine');
  await page.locator('tenure-banner[state=idle]').waitFor();
  await quantity(page).fill('6');
  await quantity(page).press('Enter');
  await page.locator('tenure-banner[state=mine]').waitFor();
});

for (const [where, viewport] of /** @type {const} */ ([['desk', DESK], ['phone', PHONE]])) {
  journey(`t12_on_a_${where}_how_long_it_is_mine_stays_in_view_and_nothing_moves_when_it_is_lost`, async ({ person, admin }) => {
    const [ana, bruno] = await Promise.all([person('ana', { viewport }), person('bruno')]);
    const lines = Array.from({ length: 12 }, (_, n) => (n === 1 ? { product: `s-${n}`, mode: 'serialized', serials: ['S-1'], direction: 'in' } : { product: `p-${n}`, mode: 'quantity', quantity: 5, direction: 'in' }));
    const { id } = await ana.api.ask('POST', '/tasks', { title: 'Long', lines });
    await ana.api.ask('POST', `/tasks/${id}/ready`, {});
    const page = await ana.open(pathOf(id));
    await press(page, 'Process');
    await mode(page, 'mine');
    const banner = page.locator('tenure-banner[state=mine]');
    await banner.getByText(/^You, since \d\d:\d\d · 2:\d\d left$/).waitFor();
    const before = await tops(page);
    await page.evaluate(() => scrollTo(0, 600));
    const box = await banner.boundingBox();
    assert.ok(box && box.y > 0 && box.y + box.height <= viewport.height, 'in view');
    await page.evaluate(() => scrollTo(0, 0));
    await bruno.api.ask('POST', `/tasks/${id}/request-release`, { message: 'two minutes?' });
    await page.locator('tenure-banner[state=nudged]').waitFor();
    assert.deepEqual(await tops(page), before, 'asked for');
    // What is typed and not saved stands below what is.
    await quantity(page).fill('7');
    await admin.ask('POST', `/v1/collections/task/inventory/items/${id}/force-release`, { reason: 'lunch' });
    await mode(page, 'lost');
    await page.getByText('not saved: 7').waitFor();
    assert.deepEqual(await tops(page), before, 'lost');
    // Nor for whoever is at its end.
    await press(page, 'Retry claim');
    await mode(page, 'mine');
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    const end = await tops(page);
    await admin.ask('POST', `/v1/collections/task/inventory/items/${id}/force-release`, { reason: 'lunch' });
    await mode(page, 'lost');
    assert.deepEqual(await tops(page), end, 'at the end');
    await axe(page);
  });
}

journey('what_is_not_there_leads_to_the_list', async ({ person }) => {
  const ana = await person('ana');
  ana.expect(/404/);
  const page = await ana.open('/app/tasks/nothing');
  await page.getByRole('link', { name: 'Show the list' }).click();
  await page.getByRole('heading', { name: 'Tasks' }).waitFor();
});

journey('t16_t17_an_administrator_takes_it_and_the_other_is_read_only_at_once', async ({ person }) => {
  const [ana, carmen] = await Promise.all([person('ana'), person('carmen')]);
  const id = await readyTask(ana.api, 'Taken over');
  const [a, c] = await Promise.all([ana.open(pathOf(id)), carmen.open(pathOf(id))]);
  await press(a, 'Process');
  await mode(a, 'mine');
  await mode(c, 'other');
  await press(c, 'Take over');
  await c.getByLabel('Reason, for the audit log').fill('Ana went home');
  await c.locator('dialog').getByRole('button', { name: 'Take over' }).click();
  await mode(c, 'mine');
  const takenAt = Date.now();
  await mode(a, 'lost');
  assert.ok(Date.now() - takenAt < 1_000, 'within a second');
  await a.getByText('Carmen took it over.').waitFor();
  await a.getByText('Ana went home').waitFor();
  assert.equal(await a.locator('.line input').count(), 0);
  await axe(a);
  ana.expect(/409/);
  await press(a, 'Retry claim');
  await mode(a, 'other');
  await a.getByText(/Carmen is working on this/).waitFor();
  await press(c, 'Leave');
  await mode(a, 'free');
  await press(a, 'Process');
  await mode(a, 'mine');
  await mode(c, 'other');
  await press(c, 'Force release');
  await c.getByLabel('Reason, for the audit log').fill('shift ends');
  await c.locator('dialog').getByRole('button', { name: 'Force release' }).click();
  await mode(c, 'free');
  await mode(a, 'lost');
  await a.getByText('An administrator freed it.').waitFor();
});

journey('t18_asked_to_let_go', async ({ person }) => {
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const id = await readyTask(ana.api, 'Asked for');
  const [a, b] = await Promise.all([ana.open(pathOf(id)), bruno.open(pathOf(id))]);
  await press(a, 'Process');
  await mode(a, 'mine');
  await mode(b, 'other');
  await press(b, 'Request release');
  await b.getByLabel('A few words, if you like').fill('two minutes?');
  await b.locator('dialog').getByRole('button', { name: 'Request release' }).click();
  await b.getByText('Ana has been asked').waitFor();
  await a.getByText('Bruno asks you to let go.').waitFor();
  await a.getByText('two minutes?').waitFor();
  await axe(a);
  await press(a, 'Not yet');
  await a.locator('tenure-banner[state=mine]').waitFor();
  await mode(a, 'mine');
  const { lock } = await ana.api.ask('GET', `/tasks/${id}`);
  assert.equal(lock.locked_by.id, 'ana', 'it changed no lock');
});

journey('t04_two_tabs_of_one_person', async ({ person }) => {
  const ana = await person('ana');
  const id = await readyTask(ana.api, 'Two tabs');
  const [one, two] = await Promise.all([ana.open(pathOf(id)), ana.open(pathOf(id))]);
  await one.bringToFront();
  await press(one, 'Process');
  await mode(one, 'mine');
  const { lock } = await ana.api.ask('GET', `/tasks/${id}`);
  await two.bringToFront();
  await mode(two, 'elsewhere');
  await two.getByText('You, in another tab').waitFor();
  await press(two, 'Continue here');
  await mode(two, 'mine');
  assert.equal((await ana.api.ask('GET', `/tasks/${id}`)).lock.locked_at, lock.locked_at);
  // A change in one is in the other; one that is being typed there is not run over.
  await quantity(two).fill('7');
  await quantity(one).fill('9');
  await quantity(one).press('Enter');
  await two.getByText('Meanwhile changed to 9.').waitFor();
  assert.equal(await quantity(two).inputValue(), '7');
  await axe(two);
  await two.getByRole('button', { name: 'Keep mine' }).click();
  await eventually(async () => (await quantity(one).inputValue()) === '7', { what: 'the other tab following' });
  // Closing one does not take it from the other.
  await two.close({ runBeforeUnload: true });
  await one.bringToFront();
  await quantity(one).fill('8');
  await quantity(one).press('Enter');
  await eventually(async () => (await ana.api.ask('GET', `/tasks/${id}`)).lines[0].quantity === 8);
  await mode(one, 'mine');
  // Closing the last one does.
  await one.goto('about:blank');
  await eventually(async () => (await ana.api.ask('GET', `/tasks/${id}`)).lock.state === 'free', { what: 'the lock being let go' });
});

journey('t13_t19_t20_edited_validated_finalised_with_results_by_line', async ({ person }) => {
  const ana = await person('ana');
  const product = `cable-${Date.now()}`;
  const id = await readyTask(ana.api, 'Finalised', [
    { product, mode: 'quantity', quantity: 5, direction: 'in' },
    { product: `${product}-unknown`, mode: 'quantity', quantity: 1, direction: 'out' },
  ]);
  const page = await ana.open(pathOf(id));
  await press(page, 'Process');
  await mode(page, 'mine');
  await quantity(page).fill('6');
  await quantity(page).press('Enter');
  await page.getByRole('button', { name: `Validate line 1: ${product}` }).click();
  await page.locator('.line[data-status=validated]').waitFor();
  await page.locator('.adding').getByLabel('Product').fill(`${product}-b`);
  await page.locator('.adding').getByLabel('Counted by').selectOption('serialized');
  await page.locator('.adding').getByRole('textbox', { name: 'Serial numbers' }).fill('S-1, S-2');
  await press(page, 'Add line');
  await page.locator('.line').nth(2).waitFor();
  await axe(page);
  await press(page, 'Finalise');
  await page.getByText('3 lines will change the stock.').waitFor();
  await axe(page);
  await page.locator('dialog').getByRole('button', { name: 'Finalise' }).click();
  await mode(page, 'free');
  await page.locator('.outcome').getByText('1 line could not be applied.').waitFor();
  const row = page.locator('.line').nth(1);
  await row.getByText('This product has never been in stock.').waitFor();
  assert.deepEqual(await page.locator('.line').evaluateAll((lines) => lines.map((line) => line.dataset.status)), ['applied', 'error', 'applied']);
  assert.equal(await page.locator('tenure-banner[state=lost]').count(), 0, 'what ends by our own will is not lost');
  // Taken up again and mended; what is applied is text.
  await press(page, 'Process');
  await mode(page, 'mine');
  assert.equal(await page.locator('.line input').count(), 2, 'only the line that failed can be edited');
  await page.locator('.line:nth-child(2) [data-field=direction] select').selectOption('in');
  await press(page, 'Finalise');
  await page.locator('dialog').getByRole('button', { name: 'Finalise' }).click();
  await page.locator('.outcome').getByText('Done: every line is applied.').waitFor();
  const { products } = await ana.api.ask('GET', '/inventory?limit=200');
  const stock = Object.fromEntries(products.map((one) => [one.product, one.quantity]));
  assert.deepEqual([stock[product], stock[`${product}-unknown`], stock[`${product}-b`]], [6, 1, 2], 'each line once');
});

journey('t14_going_to_another_page_lets_go_and_back_comes_back', async ({ person }) => {
  const ana = await person('ana');
  const id = await readyTask(ana.api, 'Left behind');
  const page = await ana.open('/app/tasks');
  await page.locator('tr', { hasText: 'Left behind' }).getByRole('link', { name: 'Process: Left behind' }).click();
  await mode(page, 'mine');
  await page.getByRole('link', { name: '← Tasks' }).click();
  await page.locator('tr', { hasText: 'Left behind' }).waitFor();
  await eventually(async () => (await ana.api.ask('GET', `/tasks/${id}`)).lock.state === 'free', { what: 'the lock being let go' });
  await page.goBack();
  await mode(page, 'free');
  await page.goBack();
  await page.getByRole('heading', { name: 'Tasks' }).waitFor();
});

journey('the_way_past_the_bar_by_keyboard_keeps_the_lock', async ({ person }) => {
  const ana = await person('ana');
  const page = await ana.open(pathOf(await readyTask(ana.api, 'Past the bar')));
  await press(page, 'Process');
  await mode(page, 'mine');
  await quantity(page).fill('7');
  await page.getByRole('link', { name: 'To the content' }).focus();
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'main');
  await mode(page, 'mine');
  assert.equal(await quantity(page).inputValue(), '7');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement?.className), 'back', 'on from there');
});

journey('t23_a_cut_network_loses_no_update', async ({ person }) => {
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const id = await readyTask(ana.api, 'Cut off');
  const [a, b] = await Promise.all([ana.open(pathOf(id)), bruno.open('/app/tasks')]);
  await press(a, 'Process');
  await mode(a, 'mine');
  const row = b.locator('tr', { hasText: 'Cut off' });
  await row.locator('tenure-lock[state=other]').waitFor();
  bruno.expect(/ERR_INTERNET_DISCONNECTED|WebSocket|Failed to load/);
  ana.expect(/ERR_INTERNET_DISCONNECTED|WebSocket|Failed to load/);
  // Bruno hears nothing of what happens meanwhile.
  await bruno.context.setOffline(true);
  await quantity(a).fill('11');
  await quantity(a).press('Enter');
  await eventually(async () => (await ana.api.ask('GET', `/tasks/${id}`)).lines[0].quantity === 11);
  await press(a, 'Leave');
  await mode(a, 'free');
  await bruno.context.setOffline(false);
  await row.locator('tenure-lock[state=free]').waitFor();
  // What Ana types without a network is saved once there is one.
  await press(a, 'Process');
  await mode(a, 'mine');
  await ana.context.setOffline(true);
  await quantity(a).fill('12');
  await quantity(a).press('Enter');
  await a.getByText('The server does not answer.').first().waitFor();
  await ana.context.setOffline(false);
  await eventually(async () => (await ana.api.ask('GET', `/tasks/${id}`)).lines[0].quantity === 12, { what: 'the change that was typed offline' });
  await mode(a, 'mine');
});

for (const shift of [-10, 10]) {
  journey(`e07_a_page_whose_clock_is_off_by_${shift}_minutes_counts_right`, async ({ person }) => {
    const ana = await person('ana');
    await ana.clockOff(shift);
    const id = await readyTask(ana.api, `Off by ${shift}`);
    const page = await ana.open(pathOf(id));
    await press(page, 'Process');
    await mode(page, 'mine');
    const left = await page.locator('tenure-lock').evaluate((badge) => badge.shadowRoot.querySelector('[part=time]').textContent);
    const [, minutes, seconds] = left.match(/(\d+):(\d\d)/);
    const says = Number(minutes) * 60 + Number(seconds);
    const { lock } = await ana.api.ask('GET', `/tasks/${id}`);
    assert.ok(Math.abs(says * 1000 - lock.expires_in_ms) < 3_000, `${left} where ${lock.expires_in_ms} ms are left`);
    assert.equal(await page.evaluate((ms) => Math.abs(Date.now() - ms) > 500_000, Date.now()), true, 'its own clock is wrong');
  });
}

journey('t23_where_sockets_are_blocked_it_still_follows', async ({ person }) => {
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  bruno.expect(/WebSocket|Failed to load|ERR_FAILED/);
  await bruno.context.routeWebSocket(/\/ws/, (socket) => { void socket.close(); });
  await bruno.context.route(/\/events$/, (route) => route.fulfill({ status: 406 }));
  const id = await readyTask(ana.api, 'Polled');
  const b = await bruno.open(pathOf(id));
  await b.locator('tenure-live[state=polling]').waitFor();
  await b.getByText(/Updated \d+ s ago/).waitFor();
  await ana.api.ask('POST', `/tasks/${id}/process`, {});
  await mode(b, 'other');
});

journey('t09_a_page_that_nobody_sees_sends_nothing_and_asks_when_it_is_seen_again', async ({ person, admin }) => {
  await admin.policy('task', { ttl_ms: 5_000 });
  const ana = await person('ana');
  ana.expect(/410.*heartbeat/);
  const id = await readyTask(ana.api, 'Hidden');
  const page = await ana.open(pathOf(id));
  await press(page, 'Process');
  await mode(page, 'mine');
  const turn = (state) => page.evaluate((wanted) => {
    Object.defineProperty(document, 'visibilityState', { value: wanted, configurable: true });
    Object.defineProperty(document, 'hidden', { value: wanted === 'hidden', configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, state);
  let beats = 0;
  await turn('hidden');
  page.on('request', (request) => { if (request.url().endsWith('/heartbeat')) beats += 1; });
  await eventually(async () => (await ana.api.ask('GET', `/tasks/${id}`)).lock.state === 'free', { what: 'the lock running out' });
  assert.equal(beats, 0);
  await turn('visible');
  await mode(page, 'lost');
  assert.equal(await page.locator('.line input').count(), 0);
});

journey('t15_a_viewer_reads_and_has_no_buttons', async ({ person }) => {
  const [ana, diego] = await Promise.all([person('ana'), person('diego')]);
  const id = await readyTask(ana.api, 'Looked at');
  await ana.api.ask('POST', `/tasks/${id}/process`, {});
  const page = await diego.open(pathOf(id));
  await mode(page, 'other');
  await page.getByText('You can read along. Processing needs an editor.').waitFor();
  assert.equal(await page.locator('main').getByRole('button').filter({ visible: true }).count(), 0);
  await axe(page);
});

journey('a_new_task_from_draft_to_ready_by_keyboard', async ({ person }) => {
  const ana = await person('ana');
  const page = await ana.open('/app/tasks');
  await page.getByRole('button', { name: 'New task' }).focus();
  await page.keyboard.press('Enter');
  await page.getByLabel('Title').waitFor();
  await page.keyboard.type('By keyboard');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'By keyboard' }).waitFor();
  await page.getByText('A draft cannot be processed yet.').waitFor();
  assert.ok(await page.getByRole('button', { name: 'Make ready' }).isDisabled());
  await page.locator('.adding').getByLabel('Product').focus();
  await page.keyboard.type('rope');
  await page.locator('.adding').getByRole('spinbutton', { name: 'Quantity' }).focus();
  await page.keyboard.type('3');
  await page.keyboard.press('Enter');
  await page.locator('.line').waitFor();
  await page.getByRole('button', { name: 'Make ready' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Process' }).focus();
  await page.keyboard.press('Enter');
  await mode(page, 'mine');
});

journey('the_pages_policy_allows_nothing_unsafe', async ({ base }) => {
  const answer = await fetch(`${base}/app/tasks`);
  const policy = answer.headers.get('content-security-policy') ?? '';
  assert.match(policy, /script-src 'self'/);
  assert.doesNotMatch(policy, /unsafe/);
});
