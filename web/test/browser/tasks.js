// What the journeys of tasks share.

/** A task that can be processed, of its own for each journey. @param {import('./helper.js').Api} api @param {string} title */
export async function readyTask(api, title, lines = [{ product: `p-${Date.now()}`, mode: 'quantity', quantity: 5, direction: 'in' }]) {
  const { id } = await api.ask('POST', '/tasks', { title, lines });
  await api.ask('POST', `/tasks/${id}/ready`, {});
  return id;
}

/** @param {string} id */
export const pathOf = (id) => `/app/tasks/${id}`;

/** Whose it is, as the page sees it. @param {import('playwright-core').Page} page @param {string} wanted */
export const mode = (page, wanted) => page.locator(`.task[data-mode=${wanted}]`).waitFor();

/** Where each line stands on the screen. @param {import('playwright-core').Page} page */
export const tops = (page) => page.locator('.line').evaluateAll((lines) => lines.map((line) => Math.round(line.getBoundingClientRect().top)));
