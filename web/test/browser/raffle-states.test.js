// Raffles in each language: every page and state, on a desk and on a phone.

import { LANGUAGES, axeIn, fitsBoth, journey, sights } from './helper.js';
import { approve, live, main, openRaffle, pathOf, phase, pick, reserve, state, tell } from './raffle.js';

for (const language of LANGUAGES) {
  journey(`every_page_and_state_in_${language}`, async ({ person, admin }) => {
    for (const [viewport, theme] of sights(language)) {
      const who = theme === 'dark' ? 'ana' : 'bruno';
      const id = await openRaffle(admin, { title: `Rifa ${language}` });
      const one = await person(who, { language, viewport, theme });
      const page = await one.open('/app/raffles');
      const look = async () => {
        await axeIn(page, language);
        await fitsBoth(page);
      };
      await page.locator('.raffle-card').first().waitFor();
      await look();
      await page.goto(pathOf(id));
      await live(page);
      await look();
      await pick(page, ['12', '13', '100']);
      await look();
      await main(page).click();
      await phase(page, 'selection');
      await look();
      await main(page).click();
      await phase(page, 'checkout');
      await look();
      const { reservations: [made] } = await one.api.ask('GET', `/reservations?raffle_id=${id}`);
      const card = await one.api.ask('POST', '/payments', { reservation_id: made.id, provider: 'bac_credomatic' });
      await page.goto(`/app/pay/${card.id}`);
      await state(page, 'requires_action');
      await look();
      await page.goto(`/app/reservations/${made.id}`);
      await phase(page, 'paying');
      await look();
      const transfer = await one.api.ask('POST', '/payments', { reservation_id: made.id, provider: 'sinpe_movil' });
      await page.goto(`/app/pay/${card.id}`);
      await state(page, 'canceled');
      await look();
      await page.goto(`/app/pay/${transfer.id}`);
      await page.locator('.tell').waitFor();
      await page.locator('.tell summary').click();
      await look();
      await tell(one.api, transfer, who === 'ana' ? '8888-1111' : '8888-2222');
      await state(page, 'pending_review');
      await look();
      await page.goto(`/app/reservations/${made.id}`);
      await phase(page, 'verification');
      await look();
      await approve(admin, transfer);
      await phase(page, 'confirmed');
      await look();
      const gone = await reserve(one.api, id, [50]);
      await page.goto(`/app/reservations/${gone.id}`);
      await phase(page, 'selection');
      await one.api.ask('POST', `/reservations/${gone.id}/cancel`, {});
      await phase(page, 'cancelled');
      await look();
      await page.goto('/app/reservations');
      await page.locator('.reservation').first().waitFor();
      await look();
      await admin.ask('PATCH', `/raffles/${id}`, { status: 'paused' });
      await admin.ask('POST', `/raffles/${id}/draw`, {});
      await page.goto(pathOf(id));
      await page.locator('.winner').waitFor();
      await page.locator('.fair summary').click();
      await look();
      await page.close();
    }
  });
}
