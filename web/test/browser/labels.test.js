// Labels: who has which image, and what becomes of what is drawn in it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { boxOf, isBigEnough, middle, moved, reshaped, spanned } from '../../pages/labels/geometry.js';
import { DESK, LANGUAGES, PHONE, axe, axeIn, eventually, fits, journey } from './helper.js';

const PROJECT = '/api/v1/projects/demo';

/** An image of its own for each journey. @param {import('./helper.js').Api} api @param {string} name */
async function newImage(api, name) {
  return api.ask('POST', `${PROJECT}/images`, { name, width: 400, height: 300 });
}

/** @param {import('./helper.js').Api} api @param {string} id */
const annotations = async (api, id) => (await api.ask('GET', `${PROJECT}/images/${id}/annotations`)).annotations;

/** Where a point of the image is on the screen. @param {import('playwright-core').Page} page @param {number} x @param {number} y */
async function at(page, x, y) {
  const box = await page.locator('.stage .picture').boundingBox();
  assert.ok(box);
  return [box.x + (x / 400) * box.width, box.y + (y / 300) * box.height];
}

/** @param {import('playwright-core').Page} page @param {[number, number]} from @param {[number, number]} to */
async function drag(page, from, to) {
  await page.mouse.move(...await at(page, ...from));
  await page.mouse.down();
  await page.mouse.move(...await at(page, (from[0] + to[0]) / 2, (from[1] + to[1]) / 2));
  await page.mouse.move(...await at(page, ...to));
  await page.mouse.up();
}

const isNear = (/** @type {number} */ a, /** @type {number} */ b) => Math.abs(a - b) < 2;

test('shapes_stay_in_the_image', () => {
  const size = { width: 100, height: 80 };
  const box = spanned([90, 70], [140, -20], size);
  assert.deepEqual(box, { type: 'rectangle', x: 90, y: 0, width: 10, height: 70 });
  assert.deepEqual(boxOf(moved(box, 50, 50, size)), { left: 90, top: 10, right: 100, bottom: 80 });
  const triangle = middle('polygon', size);
  assert.deepEqual(boxOf(moved(triangle, -500, 0, size)).left, 0);
});

test('a_rectangle_does_not_turn_inside_out', () => {
  const box = spanned([10, 10], [30, 30], { width: 100, height: 80 });
  const after = reshaped(box, 'nw', [60, 60], { width: 100, height: 80 });
  assert.ok(isBigEnough(after));
  assert.deepEqual(boxOf(after), { left: 28, top: 28, right: 30, bottom: 30 });
});

journey('l06 the list shows who has which image, as it happens', async ({ person }) => {
  const [ana, bruno] = [await person('ana'), await person('bruno')];
  const image = await newImage(ana.api, 'l06.png');
  const page = await ana.open('/app/labels/demo');
  const card = page.locator(`a[href$="${image.id}"]`);
  await card.locator('tenure-lock[state=free]').waitFor();
  const which = { project_id: 'demo', image_id: image.id };
  await bruno.api.ask('POST', '/api/v1/locks/acquire', which);
  const began = Date.now();
  await card.locator('tenure-lock[state=other]').waitFor();
  assert.ok(Date.now() - began < 1_500, 'within a second, and some patience');
  await card.getByText(/Locked by Bruno since \d\d:\d\d/).waitFor();
  assert.match(await card.getAttribute('class') ?? '', /taken/);
  await bruno.api.ask('POST', '/api/v1/locks/release', which);
  await card.locator('tenure-lock[state=free]').waitFor();
  await ana.api.ask('POST', '/api/v1/locks/acquire', which);
  await card.locator('tenure-lock[state=mine]').waitFor();
});

journey('l07 boxes are drawn, moved, resized, given a class, taken back and deleted', async ({ person }) => {
  const ana = await person('ana');
  const image = await newImage(ana.api, 'l07.png');
  const page = await ana.open(`/app/labels/demo/${image.id}`);
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  await page.getByRole('button', { name: 'Box' }).click();
  await page.getByLabel('New ones are').fill('car');
  await page.getByLabel('New ones are').press('Enter');
  await drag(page, [100, 100], [200, 180]);
  await page.getByText('Outlines (1)').waitFor();
  let [one] = await eventually(async () => { const all = await annotations(ana.api, image.id); return all.length === 1 && all; });
  assert.equal(one.class_id, 'car');
  assert.ok(isNear(one.geometry.x, 100) && isNear(one.geometry.width, 100), JSON.stringify(one.geometry));

  await page.getByRole('button', { name: 'Select' }).click();
  await drag(page, [150, 140], [190, 160]);
  [one] = await eventually(async () => { const all = await annotations(ana.api, image.id); return all[0].version === 2 && all; });
  assert.ok(isNear(one.geometry.x, 140) && isNear(one.geometry.y, 120), JSON.stringify(one.geometry));

  await drag(page, [240, 200], [280, 240]);
  [one] = await eventually(async () => { const all = await annotations(ana.api, image.id); return all[0].version === 3 && all; });
  assert.ok(isNear(one.geometry.width, 140) && isNear(one.geometry.height, 120), JSON.stringify(one.geometry));

  await page.locator('.edit input').fill('bus');
  await page.locator('.edit input').press('Enter');
  await eventually(async () => (await annotations(ana.api, image.id))[0].class_id === 'bus');
  await page.getByText('Everything is saved').waitFor();

  for (let n = 0; n < 3; n += 1) await page.getByRole('button', { name: 'Undo' }).click();
  [one] = await eventually(async () => { const all = await annotations(ana.api, image.id); return all[0].version === 7 && all; });
  assert.ok(isNear(one.geometry.x, 100) && one.class_id === 'car');
  await page.getByRole('button', { name: 'Redo' }).click();
  await eventually(async () => isNear((await annotations(ana.api, image.id))[0].geometry.x, 140));

  await page.locator('.edit').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('Outlines (0)').waitFor();
  await page.locator('.toast').getByRole('button', { name: 'Undo' }).click();
  await page.getByText('Outlines (1)').waitFor();
  await eventually(async () => (await annotations(ana.api, image.id)).length === 1);

  await page.getByRole('button', { name: 'Polygon' }).click();
  for (const spot of /** @type {[number, number][]} */ ([[20, 20], [80, 20], [50, 70], [20, 20]])) await page.mouse.click(...await at(page, ...spot));
  await page.getByText('Outlines (2)').waitFor();
  const polygon = await eventually(async () => (await annotations(ana.api, image.id)).find((/** @type {any} */ { geometry }) => geometry.type === 'polygon'));
  assert.equal(polygon.geometry.points.length, 3);
  await axe(page);
});

journey('l07 drawing works without a mouse', async ({ person }) => {
  const ana = await person('ana');
  const image = await newImage(ana.api, 'keys.png');
  const page = await ana.open(`/app/labels/demo/${image.id}`);
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  await page.locator('.stage').focus();
  await page.keyboard.press('r');
  await page.keyboard.press('Enter');
  await page.getByText('Outlines (1)').waitFor();
  await page.locator('.annotation[aria-pressed=true]').waitFor();
  const [before] = await annotations(ana.api, image.id);
  const now = async () => (await annotations(ana.api, image.id))[0].geometry;
  const { x, height } = before.geometry;
  // One after the other: what is pressed in a row is one change.
  await page.keyboard.press('Shift+ArrowRight');
  await eventually(async () => (await now()).x === x + 10, { what: 'moved' });
  await page.keyboard.press('Alt+ArrowDown');
  await eventually(async () => (await now()).height === height + 1, { what: 'resized' });
  await page.keyboard.press('Control+z');
  await eventually(async () => (await now()).height === height, { what: 'one step back' });
  await page.keyboard.press('Control+z');
  await eventually(async () => (await now()).x === x, { what: 'two steps back' });
  await page.keyboard.press('Delete');
  await page.getByText('Outlines (0)').waitFor();
});

journey('l07 another’s image is read-only; asking for it, getting it, leaving it', async ({ person }) => {
  const [ana, bruno] = [await person('ana'), await person('bruno')];
  const image = await newImage(ana.api, 'turns.png');
  const path = `/app/labels/demo/${image.id}`;
  const his = await bruno.open(path);
  await his.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  const hers = await ana.open(path);
  await hers.getByText(/Locked by Bruno since/).first().waitFor();
  assert.equal(await hers.locator('.toolbar').isVisible(), false);
  await axe(hers);
  await hers.getByRole('button', { name: 'Request release' }).click();
  await hers.locator('dialog textarea').fill('only two boxes');
  await hers.locator('dialog').getByRole('button', { name: 'Request release' }).click();
  await hers.getByText('Bruno has been asked').waitFor();
  await his.getByText('“only two boxes”').waitFor();
  await his.getByRole('button', { name: 'Let go' }).click();
  await hers.getByRole('button', { name: 'Work on it' }).click();
  await hers.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  await his.locator('.canvas-head tenure-lock[state=other]').waitFor();
  // What she draws he sees.
  await hers.getByRole('button', { name: 'Box' }).click();
  await drag(hers, [50, 50], [120, 120]);
  await his.getByText('Outlines (1)').waitFor();
  // Leaving lets go.
  await hers.locator('.canvas-head .back').click();
  await his.getByRole('button', { name: 'Work on it' }).waitFor();
});

journey('l07 a lost lock turns it read-only, and can be had again', async ({ person, admin }) => {
  const ana = await person('ana');
  const image = await newImage(ana.api, 'lost.png');
  const page = await ana.open(`/app/labels/demo/${image.id}`);
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  await admin.ask('POST', `/v1/collections/image/demo/items/${image.id}/force-claim`, { reason: 'the customer waits' });
  await page.locator('tenure-banner[state=lost]').waitFor();
  await page.locator('.toast').getByText(/lock on this image is lost/).waitFor();
  await page.locator('tenure-banner').getByText(/Carmen took it over.*the customer waits/).waitFor();
  assert.equal(await page.locator('.toolbar').isVisible(), false);
  await admin.ask('POST', `/v1/collections/image/demo/items/${image.id}/force-release`, { reason: 'done' });
  await page.getByRole('button', { name: 'Retry claim' }).click();
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
});

journey('a cut network: first in doubt, then lost by time, then had again', async ({ person, admin }) => {
  const [ana, bruno] = [await person('ana'), await person('bruno')];
  ana.expect(/ERR_INTERNET_DISCONNECTED|WebSocket|410/);
  const image = await newImage(ana.api, 'cut.png');
  await admin.policy('image', { ttl_ms: 3_000, heartbeat_ms: 1_000 });
  const page = await ana.open(`/app/labels/demo/${image.id}`);
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  // Heartbeats keep it past its time.
  const locks = () => bruno.api.ask('GET', `${PROJECT}/locks`);
  const first = (await locks())[image.id].expires_at;
  await eventually(async () => (await locks())[image.id]?.expires_at > first, { what: 'a heartbeat' });
  await ana.context.setOffline(true);
  await page.locator('tenure-banner[state=uncertain]').waitFor();
  assert.equal(await page.locator('.toolbar').isVisible(), false);
  await eventually(async () => !(await locks())[image.id], { what: 'the end of its time' });
  await admin.policy('image', { ttl_ms: 300_000 });
  await ana.context.setOffline(false);
  await page.locator('tenure-banner[state=lost]').waitFor();
  await page.locator('tenure-banner').getByText('Its time ran out.').waitFor();
  await page.getByRole('button', { name: 'Retry claim' }).click();
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
});

journey('l07 what is drawn while the network is cut is seen, and saved when it is back', async ({ person, admin }) => {
  const ana = await person('ana');
  ana.expect(/ERR_INTERNET_DISCONNECTED|WebSocket|410|409/);
  const image = await newImage(ana.api, 'kept.png');
  const page = await ana.open(`/app/labels/demo/${image.id}`);
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  const drawOffline = async () => {
    await ana.context.setOffline(true);
    await page.getByRole('button', { name: 'Box' }).click();
    await drag(page, [100, 100], [200, 180]);
    await page.locator('.shape.unsaved').waitFor();
    await page.getByText('1 outline is not saved.').waitFor();
    assert.equal(await page.getByText('Everything is saved').count(), 0);
    await page.locator('.canvas-head tenure-lock[state=uncertain]').waitFor();
    await page.locator('tenure-banner[state=uncertain]').waitFor();
    assert.equal(await page.locator('.toolbar').isVisible(), false);
  };
  await drawOffline();
  // Who leaves is asked first.
  await page.locator('.canvas-head .back').click();
  await page.getByText('Leave without saving?').waitFor();
  await page.locator('dialog').getByRole('button', { name: 'Cancel' }).click();
  await page.locator('.shape.unsaved').waitFor();
  await axe(page);
  await ana.context.setOffline(false);
  await page.getByText('Everything is saved').waitFor();
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  assert.equal(await page.locator('.shape.unsaved').count(), 0);
  assert.equal((await annotations(ana.api, image.id)).length, 1);

  // Lost meanwhile: it is still seen, and saved with the next lock.
  await drawOffline();
  await admin.ask('POST', `/v1/collections/image/demo/items/${image.id}/force-release`, { reason: 'lunch' });
  await ana.context.setOffline(false);
  await page.locator('tenure-banner[state=lost]').waitFor();
  await page.getByText('1 outline is not saved.').waitFor();
  await page.locator('.shape.unsaved').waitFor();
  assert.equal((await annotations(ana.api, image.id)).length, 1);
  await page.getByRole('button', { name: 'Retry claim' }).click();
  await page.getByText('Everything is saved').waitFor();
  assert.equal((await annotations(ana.api, image.id)).length, 2);
});

journey('whoever goes back, signs out or follows a link is asked about outlines that are not saved', async ({ person }) => {
  const ana = await person('ana');
  ana.expect(/ERR_INTERNET_DISCONNECTED|WebSocket|410|409/);
  const image = await newImage(ana.api, 'back.png');
  const page = await ana.open('/app/labels');
  await page.locator('a[href$="/labels/demo"]').first().click();
  await page.locator(`a[href$="${image.id}"]`).click();
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  const here = page.url();
  await ana.context.setOffline(true);
  await page.getByRole('button', { name: 'Box' }).click();
  await drag(page, [100, 100], [200, 180]);
  await page.getByText('1 outline is not saved.').waitFor();
  /** @param {string} answer */
  const answer = (answer) => page.locator('dialog', { hasText: 'Leave without saving?' }).getByRole('button', { name: answer }).click();
  const ways = {
    back: () => page.evaluate(() => history.back()),
    'far back': () => page.evaluate(() => history.go(-2)),
    link: () => page.getByRole('link', { name: 'Tasks' }).click(),
    'sign out': () => page.getByRole('button', { name: 'Sign out' }).click(),
  };
  for (const [name, leave] of Object.entries(ways)) {
    await leave();
    await answer('Cancel');
    assert.equal(page.url(), here, `${name}: the address is the page's`);
    await page.locator('.shape.unsaved').waitFor();
  }
  // Who insists meanwhile is asked once.
  await page.evaluate(() => history.back());
  await page.locator('dialog').waitFor();
  await page.evaluate(() => history.back());
  await eventually(() => page.url() === here, { what: 'the address' });
  assert.equal(await page.locator('dialog').count(), 1);
  await answer('Leave');
  await eventually(() => page.url().endsWith('/app/labels/demo'), { what: 'the list’s address' });
  await page.locator('.canvas-page').waitFor({ state: 'detached' });
  await ana.context.setOffline(false);
  // The way there is as long as it was.
  await page.evaluate(() => history.forward());
  await page.locator('.canvas-head').waitFor();
  assert.equal(page.url(), here);
  assert.equal(await page.locator('.shape').count(), 0);
  // With nothing to lose nobody is asked.
  await page.evaluate(() => history.go(-2));
  await page.getByLabel('Name of a new project').waitFor();
});

journey('whoever goes back twice at once is asked once, and the address finds its place without going back and forth', async ({ person }) => {
  const ana = await person('ana');
  ana.expect(/ERR_INTERNET_DISCONNECTED|WebSocket|410|409/);
  const image = await newImage(ana.api, 'twice.png');
  const page = await ana.open('/app/labels');
  await page.locator('a[href$="/labels/demo"]').first().click();
  await page.locator(`a[href$="${image.id}"]`).click();
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  const here = page.url();
  // There is somewhere to go too far to.
  for (const name of ['Tasks', 'Jobs', 'Raffles']) {
    await page.getByRole('link', { name, exact: true }).first().click();
    await eventually(() => page.url().endsWith(name.toLowerCase()), { what: name });
  }
  await page.evaluate(() => history.go(-3));
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  await ana.context.setOffline(true);
  await page.getByRole('button', { name: 'Box' }).click();
  await drag(page, [100, 100], [200, 180]);
  await page.getByText('1 outline is not saved.').waitFor();
  await page.evaluate(() => {
    const go = history.go.bind(history);
    Object.assign(globalThis, { corrections: [] });
    history.go = (by) => {
      globalThis.corrections.push(by);
      go(by);
    };
  });
  /** The browser says where it is. @param {number[]} steps From where it is now. */
  const tell = (steps) => page.evaluate((all) => {
    const { at } = history.state;
    for (const by of all) dispatchEvent(new PopStateEvent('popstate', { state: { at: at + by } }));
  }, steps);
  const corrections = () => page.evaluate(() => globalThis.corrections);
  // Nowhere else: the page would be loaded anew.
  await tell([0]);
  assert.deepEqual([await corrections(), await page.locator('dialog').count()], [[], 0]);
  // Both before it has corrected the first: what it corrects by is not what it takes.
  await tell([-1, -2]);
  await eventually(async () => (await corrections()).length > 1 && page.url() === here, { what: 'the address' });
  assert.deepEqual(await corrections(), [1, -1], 'the second after the first has arrived');
  const dialog = page.locator('dialog');
  assert.equal(await dialog.count(), 1);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  // And by a browser's own hand, where a journey overtakes the correction of the one before.
  await page.evaluate(() => { history.back(); history.back(); });
  await dialog.waitFor();
  await eventually(() => page.evaluate(() => history.state.at === 2), { what: 'its place' });
  assert.equal(page.url(), here);
  assert.equal(await dialog.count(), 1);
  assert.ok((await corrections()).every((by) => by !== 0));
  await dialog.getByRole('button', { name: 'Leave' }).click();
  await page.locator('.canvas-page').waitFor({ state: 'detached' });
  await ana.context.setOffline(false);
});

journey('two tabs of one person share the lock; closing one keeps it', async ({ person }) => {
  const [ana, bruno] = [await person('ana'), await person('bruno')];
  const image = await newImage(ana.api, 'tabs.png');
  const [one, two] = [await ana.open(`/app/labels/demo/${image.id}`), await ana.open(`/app/labels/demo/${image.id}`)];
  for (const page of [one, two]) await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  await two.locator('.canvas-head .back').click();
  await two.locator(`a[href$="${image.id}"]`).waitFor();
  const answer = await bruno.api.ask('POST', '/api/v1/locks/acquire', { project_id: 'demo', image_id: image.id });
  assert.equal(answer.success, false);
  assert.equal(answer.locked_by, 'ana');
  await one.locator('.canvas-head .back').click();
  await eventually(async () => (await bruno.api.ask('POST', '/api/v1/locks/acquire', { project_id: 'demo', image_id: image.id })).success);
});

journey('l08 a conflict shows both versions; refresh loads the newer one', async ({ person }) => {
  const ana = await person('ana');
  // The refusal is what this is about.
  ana.expect(/409/);
  const image = await newImage(ana.api, 'l08.png');
  const geometry = { type: 'rectangle', x: 100, y: 100, width: 80, height: 60 };
  const made = await ana.api.ask('POST', `${PROJECT}/images/${image.id}/annotations`, { geometry, class_id: 'car' });
  const page = await ana.open(`/app/labels/demo/${image.id}`);
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  /** @param {number} version @param {string} name */
  const changeUnderTheHand = async (version, name) => {
    const { x, y } = (await annotations(ana.api, image.id))[0].geometry;
    await page.mouse.move(...await at(page, x + 30, y + 30));
    await page.mouse.down();
    await page.mouse.move(...await at(page, x + 50, y + 60));
    await ana.api.ask('PUT', `/api/v1/annotations/${made.id}`, { geometry: { ...geometry, width: 90 }, class_id: name, version });
    await page.getByRole('button', { name: new RegExp(name) }).waitFor({ state: 'attached', timeout: 500 }).catch(() => {});
    await page.mouse.up();
    await page.locator('dialog .versions').waitFor();
  };
  await changeUnderTheHand(1, 'bus');
  const words = await page.locator('dialog').innerText();
  assert.match(words, /Yours[\s\S]*car[\s\S]*Made from version 1[\s\S]*The newer one[\s\S]*bus[\s\S]*Version 2, Ana/);
  await axe(page);
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.locator('.annotation b').getByText('bus').waitFor();
  const [kept] = await annotations(ana.api, image.id);
  assert.equal(kept.version, 2);
  assert.equal(kept.geometry.width, 90);

  await changeUnderTheHand(2, 'van');
  await page.getByRole('button', { name: 'Keep mine' }).click();
  const [mine] = await eventually(async () => { const all = await annotations(ana.api, image.id); return all[0].version === 4 && all; });
  assert.equal(mine.class_id, 'bus');
});

journey('l08 on a phone both versions are seen at once, and only an answer puts the question away', async ({ person }) => {
  const ana = await person('ana', { viewport: { width: 360, height: 640 } });
  ana.expect(/409|ERR_FAILED/);
  const image = await newImage(ana.api, 'l08-phone.png');
  const geometry = { type: 'rectangle', x: 100, y: 100, width: 80, height: 60 };
  const made = await ana.api.ask('POST', `${PROJECT}/images/${image.id}/annotations`, { geometry, class_id: 'car' });
  const page = await ana.open(`/app/labels/demo/${image.id}`);
  await page.locator('.canvas-head tenure-lock[state=mine]').waitFor();
  await page.locator('.annotation').click();
  await page.locator('.edit input').fill('bus');
  // What the other did is not heard of before the change is sent.
  let isDeaf = true;
  await page.route('**/annotations?*', (route) => (isDeaf ? route.abort() : route.continue()));
  await page.route('**/api/v1/annotations/*', (route) => {
    isDeaf = false;
    return route.continue();
  });
  await ana.api.ask('PUT', `/api/v1/annotations/${made.id}`, { geometry, class_id: 'van', version: 1 });
  await page.locator('.edit input').press('Enter');
  const dialog = page.locator('dialog');
  await dialog.locator('.versions').waitFor();
  assert.equal(await dialog.evaluate((element) => element.scrollTop), 0);
  const [mine, theirs] = await dialog.locator('.version').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON()));
  assert.equal(mine.top, theirs.top, 'side by side');
  assert.ok(mine.right <= theirs.left);
  await fits(page);
  assert.equal(await dialog.getByRole('button', { name: 'Cancel' }).count(), 0);
  for (let n = 0; n < 3; n += 1) await page.keyboard.press('Escape');
  const isOpen = () => dialog.evaluate((element) => /** @type {HTMLDialogElement} */ (element).open);
  assert.equal(await isOpen(), true);
  // As a phone's way back does, the second time.
  await dialog.evaluate((element) => /** @type {HTMLDialogElement} */ (element).close());
  await eventually(isOpen);
  await dialog.getByRole('button', { name: 'Keep mine' }).click();
  await eventually(async () => (await annotations(ana.api, image.id))[0].class_id === 'bus');
});

journey('pictures are added, and a file that is none is refused in words', async ({ person }) => {
  const bruno = await person('bruno');
  bruno.expect(/4\d\d/);
  const page = await bruno.open('/app/labels');
  await page.getByLabel('Name of a new project').fill('Streets');
  await page.getByRole('button', { name: 'Make project' }).click();
  await page.getByText('There are no images yet').waitFor();
  await axe(page);
  const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
  await page.locator('input[type=file]').setInputFiles([{ name: 'dot.png', mimeType: 'image/png', buffer: png }, { name: 'no.png', mimeType: 'image/png', buffer: Buffer.from('no') }]);
  await page.locator('.image-card').getByText('dot.png').waitFor();
  await page.locator('.toast.bad').getByText(/no\.png was not added/).waitFor();
});

journey('who may only look is told so', async ({ person }) => {
  const [ana, diego] = [await person('ana'), await person('diego')];
  const image = await newImage(ana.api, 'look.png');
  const page = await diego.open(`/app/labels/demo/${image.id}`);
  await page.getByText('You can look. To change something one needs the right to edit.').waitFor();
  assert.equal(await page.locator('.toolbar').isVisible(), false);
  await axe(page);
});

for (const language of LANGUAGES) {
  journey(`labels in ${language}, on a phone and on a desk`, async ({ person }) => {
    for (const [viewport, theme] of /** @type {const} */ ([[PHONE, 'dark'], [DESK, 'light']])) {
      const ana = await person('ana', { language, viewport, theme });
      const [image] = (await ana.api.ask('GET', `${PROJECT}/images?limit=1`)).images;
      for (const path of ['/app/labels', '/app/labels/demo', `/app/labels/demo/${image.id}`]) {
        const page = await ana.open(path);
        await page.locator('.labels').waitFor();
        await fits(page);
        await axeIn(page, language);
        await page.close();
      }
    }
  });
}
