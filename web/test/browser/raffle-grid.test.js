// The grid of a raffle: two people at one number, ten thousand numbers, a network that fails, the ways in and out.

import assert from 'node:assert/strict';

import { LANGUAGES, PHONE, axe, eventually, fits, journey } from './helper.js';
import { cell, live, looks, main, note, openRaffle, pathOf, phase, pick, reserve, reserveHere } from './raffle.js';

/** The sockets of a person's pages, in our hands: deaf to what happens, or cut. */
async function sockets(person) {
  const hold = { isDeaf: false, isCut: false, open: new Set() };
  await person.context.routeWebSocket(/\/ws/, (page) => {
    if (hold.isCut) return void page.close();
    hold.open.add(page);
    page.connectToServer().onMessage((message) => {
      if (!hold.isDeaf || !/number_update|reservation_expired/.test(String(message))) page.send(message);
    });
  });
  return hold;
}

journey('r02_two_people_at_one_number', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const [a, b] = await Promise.all([ana.open(pathOf(id)), bruno.open(pathOf(id))]);
  await Promise.all([live(a), live(b)]);
  await pick(a, ['05', '06']);
  await pick(b, ['05', '07']);
  await a.getByText('Not reserved yet').waitFor();
  const seen = looks(b, '05', 'other').then(() => Date.now());
  await main(a).click();
  await phase(a, 'selection');
  const late = await seen - Date.now();
  assert.ok(late < 1_000, `seen ${late} ms later`);
  await note(b, 'Somebody was faster: 05.');
  await looks(b, '07', 'mine');
  await axe(b);
  // Bruno's page hears nothing of the next one, so that the server has to say it.
  const deaf = await person('bruno');
  deaf.expect(/409/);
  const hold = await sockets(deaf);
  const stale = await deaf.open(pathOf(id));
  await live(stale);
  await looks(stale, '06', 'other');
  hold.isDeaf = true;
  await pick(stale, ['20', '21', '22']);
  await cell(a, '21').click();
  await looks(b, '21', 'other');
  await main(stale).click();
  await note(stale, 'Not available any more: 21. They are unpicked; nothing has been reserved.');
  await looks(stale, '21', 'other');
  await looks(stale, '20', 'mine');
  assert.deepEqual(await stale.locator('.tray .pick > span').allTextContents(), ['20', '22']);
  const { reservations } = await bruno.api.ask('GET', `/reservations?raffle_id=${id}`);
  assert.deepEqual(reservations, [], 'all or nothing');
  await main(stale).click();
  await phase(stale, 'selection');
  await looks(b, '20', 'elsewhere');
  await b.getByText('2 more numbers are kept for you elsewhere.').waitFor();
});

journey('r03_r06_two_tabs_share_one_reservation_and_amend_it', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const [one, two, b] = await Promise.all([ana.open(pathOf(id)), ana.open(pathOf(id)), bruno.open(pathOf(id))]);
  await Promise.all([one, two, b].map(live));
  await one.bringToFront();
  await reserveHere(one, ['10', '11']);
  await two.bringToFront();
  await phase(two, 'selection');
  await looks(two, '10', 'mine');
  const { reservations: [before] } = await ana.api.ask('GET', `/reservations?raffle_id=${id}`);
  await cell(two, '12').click();
  await looks(two, '12', 'mine');
  await looks(b, '12', 'other');
  await one.bringToFront();
  await looks(one, '12', 'mine');
  await one.getByRole('button', { name: 'Remove 10' }).click();
  await looks(one, '10', 'free');
  await looks(b, '10', 'free');
  const { reservations } = await ana.api.ask('GET', `/reservations?raffle_id=${id}`);
  assert.equal(reservations.length, 1, 'one session, one reservation');
  assert.deepEqual(reservations[0].numbers, [11, 12]);
  assert.equal(reservations[0].expires_at, before.expires_at, 'picks do not move the deadline');
  // More than ten are refused before anybody is asked.
  for (let number = 20; number < 28; number += 1) {
    await cell(one, number).click();
    await looks(one, number, 'mine');
  }
  await cell(one, '30').click();
  await note(one, 'At most 10 numbers at once.');
  await axe(one);
  await one.locator('.tray').getByRole('button', { name: 'Cancel' }).click();
  await one.locator('dialog').getByRole('button', { name: 'Let them go' }).click();
  await phase(one, 'none');
  await looks(b, '11', 'free');
  await two.bringToFront();
  await phase(two, 'none');
});

journey('r15_ten_thousand_numbers_by_keyboard_and_smoothly', async ({ person, admin }) => {
  const id = await openRaffle(admin, { numbers: 10_000 });
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  await reserve(bruno.api, id, [1234, 9999]);
  const page = await ana.open(pathOf(id));
  await live(page);
  assert.ok(await page.locator('tenure-grid [role=row]').count() < 60, 'only what is in view exists');
  await page.getByLabel('Go to number').fill('1233');
  await page.keyboard.press('Enter');
  await cell(page, '1233').waitFor();
  await page.keyboard.press('ArrowRight');
  assert.match(await page.evaluate(() => document.querySelector('tenure-grid').shadowRoot.activeElement.getAttribute('aria-label')), /^1234, Reserved/);
  await page.keyboard.press('Enter');
  await note(page, '1234 is reserved by somebody else.');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Space');
  await looks(page, '1244', 'mine');
  await page.keyboard.press('Control+End');
  await page.keyboard.press('Enter');
  await looks(page, '10000', 'mine');
  await page.keyboard.press('ArrowLeft');
  assert.match(await page.evaluate(() => document.querySelector('tenure-grid').shadowRoot.activeElement.getAttribute('aria-label')), /^9999, Reserved/);
  assert.deepEqual(await page.locator('.tray .pick > span').allTextContents(), ['1244', '10000']);
  await axe(page);
  // A change far away moves nothing here.
  const top = () => page.evaluate(() => document.querySelector('tenure-grid').shadowRoot.querySelector('[part=viewport]').scrollTop);
  const before = await top();
  await reserve(bruno.api, id, [3, 9_990]);
  await looks(page, '9990', 'other');
  assert.equal(await top(), before);
  const frame = (pixels) => page.evaluate((by) => new Promise((resolve) => {
    const view = document.querySelector('tenure-grid').shadowRoot.querySelector('[part=viewport]');
    const gaps = [];
    let last = performance.now();
    let step = 0;
    const turn = (now) => {
      gaps.push(now - last);
      last = now;
      view.scrollTop = (step * by) % (view.scrollHeight - view.clientHeight);
      step += 1;
      if (step < 60) requestAnimationFrame(turn);
      else resolve(gaps.slice(1).sort((x, y) => x - y)[30]);
    };
    requestAnimationFrame(turn);
  }), pixels);
  // Loosely, and beside what the machine does anyway: it may be busy, and draws without a graphics card.
  const [still, moving] = [await frame(0), await frame(700)];
  assert.ok(moving < 40 + 6 * still, `half of the frames take ${moving} ms or more while scrolling, ${still} ms otherwise`);
  await page.getByRole('button', { name: 'Overview' }).click();
  await axe(page);
  await page.getByRole('gridcell', { name: '0001 – 0100 99 free' }).click();
  await looks(page, '0003', 'other');
});

/** What the grid's own scroller hides. */
const hidden = (page) => page.evaluate(() => {
  const view = document.querySelector('tenure-grid').shadowRoot.querySelector('[part=viewport]');
  return view.scrollHeight - view.clientHeight;
});

for (const viewport of [PHONE, { width: 1280, height: 800 }]) {
  journey(`a_hundred_numbers_scroll_with_the_page_at_${viewport.width}`, async ({ person, admin }) => {
    const id = await openRaffle(admin);
    const ana = await person('ana', { viewport });
    const page = await ana.open(pathOf(id));
    await live(page);
    assert.equal(await hidden(page), 0);
    assert.equal(await page.locator('tenure-grid [role=row]').count(), 10);
    await pick(page, ['01', '02']);
    // Whoever goes by keyboard sees where they are, between the bar and the tray.
    await page.keyboard.press('Control+End');
    const seen = (number) => eventually(async () => {
      const box = await cell(page, number).boundingBox();
      const tray = await page.locator('.tray').boundingBox();
      const bar = await page.locator('header').first().boundingBox();
      const end = viewport.width < 600 ? tray.y : viewport.height;
      return box.y >= bar.y + bar.height && box.y + box.height <= end;
    }, { what: `${number} in view`, within: 3_000 });
    await seen('100');
    await page.keyboard.press('Control+Home');
    await seen('01');
    await fits(page);
  });
}

journey('a_large_raffle_has_a_scroller_beside_its_numbers', async ({ person, admin }) => {
  const id = await openRaffle(admin, { numbers: 1_000 });
  const ana = await person('ana', { viewport: PHONE });
  const page = await ana.open(pathOf(id));
  await live(page);
  assert.ok(await hidden(page) > 1_000);
  const room = await page.evaluate(() => {
    const root = document.querySelector('tenure-grid').shadowRoot;
    const view = root.querySelector('[part=viewport]');
    const end = view.getBoundingClientRect().left + view.clientLeft + view.clientWidth;
    return end - root.querySelector('[role=gridcell]:nth-child(11)').getBoundingClientRect().right;
  });
  assert.ok(room >= 6, `${room} px between the tenth column and the scroller`);
});

/** Smaller than what the others call a phone: many are. */
const SMALL = { width: 360, height: 740 };

for (const language of LANGUAGES) {
  journey(`the_whole_legend_is_on_one_line_of_a_phone_in_${language}`, async ({ person, admin }) => {
    const id = await openRaffle(admin);
    const ana = await person('ana', { viewport: SMALL, language });
    await reserve(ana.api, id, [42, 43]);
    const page = await ana.open(pathOf(id));
    await live(page);
    const buttons = page.locator('tenure-grid [part=legend] button:visible');
    await eventually(async () => await buttons.count() === 5, { what: 'five states' });
    const lines = new Set();
    for (const button of await buttons.all()) {
      await button.scrollIntoViewIfNeeded();
      const box = await button.boundingBox();
      lines.add(box.y);
      assert.ok(box.x >= 0 && box.x + box.width <= SMALL.width, await button.innerText());
    }
    assert.equal(lines.size, 1);
    await fits(page);
  });

  journey(`r15_nothing_jumps_on_a_phone_in_${language}`, async ({ person, admin }) => {
    const id = await openRaffle(admin);
    const [ana, bruno] = await Promise.all([person('ana', { viewport: SMALL, language }), person('bruno')]);
    const page = await ana.open(pathOf(id));
    await live(page);
    const tops = async () => {
      const [tray, first] = [await page.locator('.tray').boundingBox(), await cell(page, '01').boundingBox()];
      return { tray: Math.round(tray.y), first: Math.round(first.y) };
    };
    const idle = await tops();
    assert.ok(idle.tray - idle.first >= 6 * 48, `six rows of ten between ${idle.first} and ${idle.tray}`);
    await pick(page, ['05', '06', '07']);
    assert.deepEqual(await tops(), idle, 'picked');
    await reserve(bruno.api, id, [6]);
    await looks(page, '06', 'other');
    await page.locator('.tray .note').waitFor();
    assert.deepEqual(await tops(), idle, 'somebody was faster');
    const foot = await page.locator('.tray-foot').boundingBox();
    assert.ok(foot.height < 60, 'sum and buttons share a row');
    await main(page).click();
    await phase(page, 'selection');
    assert.deepEqual(await tops(), idle, 'reserved');
    await fits(page);
  });
}

journey('r15_what_is_taken_moves_nothing_on_a_desk_and_is_said_once', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const page = await ana.open(pathOf(id));
  await live(page);
  await pick(page, ['05', '06', '07', '08', '09']);
  const before = await main(page).boundingBox();
  const { id: taken } = await reserve(bruno.api, id, [6]);
  await note(page, 'Somebody was faster: 06.');
  assert.equal((await main(page).boundingBox()).y, before.y);
  assert.equal(await page.locator('tenure-grid [part=said]').textContent(), '', 'the tray says it');
  await bruno.api.ask('POST', `/reservations/${taken}/cancel`, {});
  await looks(page, '06', 'free');
  await eventually(async () => await page.locator('.tray .note').count() === 0, { what: 'the sentence gone with what it says', within: 2_000 });
  assert.equal((await main(page).boundingBox()).y, before.y);
});

journey('r15_numbers_that_somebody_lets_go_are_told_of_in_one_toast', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const [a, b] = await Promise.all([ana.open(pathOf(id)), bruno.open(pathOf(id))]);
  await Promise.all([live(a), live(b)]);
  await reserveHere(b, ['10', '11', '12']);
  await looks(a, '12', 'other');
  await b.locator('.tray').getByRole('button', { name: 'Cancel' }).click();
  await b.locator('dialog').getByRole('button', { name: 'Let them go' }).click();
  await a.locator('.toast').getByText('3 numbers are free again').waitFor();
  assert.equal(await a.locator('.toast').count(), 1);
  await phase(b, 'none');
  assert.equal(await b.locator('.toast').count(), 0, 'one’s own are no news');
});

journey('r15_the_overview_of_ten_thousand_stays_in_its_blocks', async ({ person, admin }) => {
  const id = await openRaffle(admin, { numbers: 10_000 });
  for (const viewport of [SMALL, { width: 768, height: 1024 }]) {
    const ana = await person('ana', { viewport, language: 'es' });
    const page = await ana.open(pathOf(id));
    await live(page);
    await page.getByRole('button', { name: 'Resumen' }).click();
    await page.locator('tenure-grid .block').first().waitFor();
    const out = await page.evaluate(() => [...document.querySelector('tenure-grid').shadowRoot.querySelectorAll('.block')].filter((block) => {
      const box = block.getBoundingClientRect();
      const range = document.createRange();
      return [...block.childNodes].some((node) => {
        range.selectNode(node);
        // An element cuts what it has no room for.
        const { left, right, width } = (node instanceof Element ? node : range).getBoundingClientRect();
        return width > 1 && (left < box.left || right > box.right + 0.5);
      });
    }).length);
    assert.equal(out, 0, `${viewport.width}: blocks that run over`);
    await fits(page);
  }
});

journey('a_cell_looks_as_the_legend_says', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const ana = await person('ana');
  await reserve(ana.api, id, [42, 43]);
  const page = await ana.open(pathOf(id));
  await live(page);
  await pick(page, ['10']);
  const look = (selector) => page.locator(`tenure-grid ${selector}`).first().evaluate((element) => {
    const { backgroundColor, borderTopColor, borderTopStyle, color } = getComputedStyle(element);
    return { backgroundColor, borderTopColor, borderTopStyle, color };
  });
  for (const state of ['mine', 'elsewhere']) {
    await page.locator(`tenure-grid [role=gridcell][data-state=${state}]`).first().waitFor();
    const seen = await look(`[role=gridcell][data-state=${state}]`);
    assert.deepEqual(seen, await look(`.swatch[data-state=${state}]`), state);
    assert.notEqual(seen.borderTopColor, seen.backgroundColor, state);
  }
  assert.equal((await look('.swatch[data-state=elsewhere]')).borderTopStyle, 'dashed');
  await page.locator('tenure-grid').getByRole('button', { name: 'Yours, elsewhere 2' }).waitFor();
  await page.getByText('2 more numbers are kept for you elsewhere.').waitFor();
});

journey('r14_a_cut_network_is_said_and_loses_no_update', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  const hold = await sockets(ana);
  const page = await ana.open(pathOf(id));
  await live(page);
  await pick(page, ['50']);
  ana.expect(/ERR_INTERNET_DISCONNECTED|WebSocket|Failed to load/);
  hold.isCut = true;
  await ana.context.setOffline(true);
  for (const socket of hold.open) await socket.close();
  await page.locator('tenure-grid[uncertain]').waitFor();
  assert.ok(await main(page).isDisabled(), 'nothing is promised while nobody knows');
  await axe(page);
  await reserve(bruno.api, id, [49, 50]);
  hold.isCut = false;
  await ana.context.setOffline(false);
  await page.locator(':is(tenure-live[state=live], tenure-live[state=polling])').waitFor();
  await looks(page, '49', 'other');
  await looks(page, '50', 'other');
  await note(page, 'Somebody was faster: 50.');
  assert.equal(await page.locator('tenure-grid[uncertain]').count(), 0);
});

journey('r14_without_a_connection_nothing_is_claimed_and_nothing_can_be_done', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const ana = await person('ana');
  const hold = await sockets(ana);
  const page = await ana.open(pathOf(id));
  await live(page);
  await reserveHere(page, ['50', '51']);
  const tray = page.locator('.tray');
  await tray.getByText('2 numbers are kept for you').waitFor();
  ana.expect(/ERR_INTERNET_DISCONNECTED|WebSocket|Failed to load/);
  hold.isCut = true;
  await ana.context.setOffline(true);
  for (const socket of hold.open) await socket.close();
  await page.locator('tenure-grid[uncertain]').waitFor();
  await tray.locator('tenure-lock[state=uncertain]').getByText('No connection: can’t tell').waitFor();
  assert.equal(await tray.getByText('kept for you').count(), 0, 'nobody knows whether they are');
  for (const name of ['PAY NOW', 'Cancel']) assert.ok(await tray.getByRole('button', { name }).isDisabled(), name);
  assert.equal(await cell(page, '50').evaluate((one) => getComputedStyle(one).opacity), '1', 'it can be read');
  await axe(page);
  hold.isCut = false;
  await ana.context.setOffline(false);
  await tray.getByText('2 numbers are kept for you').waitFor();
  await tray.getByRole('button', { name: 'PAY NOW' }).click();
  await phase(page, 'checkout');
});

journey('r14_where_sockets_are_blocked_it_still_follows', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const [ana, bruno] = await Promise.all([person('ana'), person('bruno')]);
  ana.expect(/WebSocket|Failed to load|ERR_FAILED/);
  await ana.context.routeWebSocket(/\/ws/, (socket) => { void socket.close(); });
  const page = await ana.open(pathOf(id));
  await page.locator('tenure-live[state=polling]').waitFor();
  await reserve(bruno.api, id, [8]);
  await looks(page, '08', 'other');
  await reserveHere(page, ['09']);
});

journey('deep_links_and_the_back_button', async ({ person, admin }) => {
  const id = await openRaffle(admin, { title: 'Ways' });
  const ana = await person('ana');
  const page = await ana.open('/app/raffles');
  await page.getByRole('link', { name: /Ways/ }).first().click();
  await page.getByRole('heading', { name: 'Ways' }).waitFor();
  await reserveHere(page, ['15']);
  await main(page).click();
  await phase(page, 'checkout');
  await page.reload();
  await phase(page, 'checkout');
  await page.goBack();
  await page.locator('.raffle[data-phase=checkout]').waitFor();
  await looks(page, '15', 'mine');
  await page.goBack();
  await page.getByRole('heading', { name: 'Raffles' }).waitFor();
  await page.goForward();
  await page.goForward();
  await phase(page, 'checkout');
  const stranger = await person('bruno');
  stranger.expect(/403/);
  const other = await stranger.open(new URL(page.url()).pathname);
  await other.getByText('This page could not be shown').waitFor();
  const nobody = await person(null);
  const signIn = await nobody.open(pathOf(id));
  await signIn.getByRole('heading', { name: 'Sign in' }).waitFor();
  assert.match(signIn.url(), /next=/);
});

journey('a_viewer_looks_on', async ({ person, admin }) => {
  const id = await openRaffle(admin);
  const diego = await person('diego');
  const page = await diego.open(pathOf(id));
  await page.getByText('You can look on. Buying needs an editor.').first().waitFor();
  await cell(page, '10').click();
  await looks(page, '10', 'free');
  assert.equal(await page.locator('.tray .button:visible').count(), 0);
  await axe(page);
  await page.goto('/app/reservations');
  await page.getByText('You have not reserved anything yet').waitFor();
  await axe(page);
});
