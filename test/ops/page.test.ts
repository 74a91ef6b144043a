/** The status page in real Chromium. */
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { StatusView } from '../../src/ops/view.ts';
import { complaintsOf, hasChromium, launchChromium, openOpsPage, type OpsPage } from '../support/ops-page.ts';
import { sampleSession, sampleView } from '../support/sample-view.ts';
import { until } from '../support/until.ts';

const NOW = Date.now();
/** Nothing sticks out to the side. */
const FITS = 'document.documentElement.scrollWidth <= innerWidth';
const HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>';
const RIGHT_TO_LEFT = 'devin-\u202Eכן\u202Dx';

describe.skipIf(!hasChromium)('the status page, in Chromium', () => {
  let browser: Browser;
  let ops: OpsPage | undefined;
  let complaints: readonly string[] = [];

  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close();
    await ops?.[Symbol.asyncDispose]();
    ops = undefined;
  });
  afterAll(async () => {
    await browser.close();
  });

  async function open(view: StatusView, options: BrowserContextOptions = {}): Promise<Page> {
    ops = await openOpsPage(view);
    const context = await browser.newContext(options);
    const page = await context.newPage();
    complaints = complaintsOf(page);
    await page.goto(ops.server.url);
    await page.waitForSelector('#connection[data-state=live]');
    return page;
  }

  const rowsOf = (page: Page): Promise<number> => page.locator('#rows > tr:not(.detail)').count();

  it('shows sessions, slots, the queue, and admission in words', async () => {
    const view = sampleView(5, NOW);
    const page = await open(view);
    await until(async () => (await rowsOf(page)) === 5);
    for (const { sessionId } of view.sessions)
      expect(await page.getByText(sessionId).count()).toBeGreaterThan(0);
    expect(await page.textContent('#slots')).toBe('4 of 5');
    expect(await page.textContent('#admission')).toBe('Open');
    expect(await page.textContent('#waiting-rows')).toContain('no free slot: 4 of 5 are taken');
    expect(await page.textContent('#attention')).toContain('no capacity in us-east-02a');
    expect(await page.textContent('#attention')).toContain('see its capacity and the account’s quota');
    const life = await page.locator('svg.life').last().getAttribute('aria-label');
    expect(life).toMatch(/Preparing .*, Serving .*, Being archived .*, Asleep /);
    expect(complaints).toEqual([]);
  });

  it('says in plain words that there are no sessions', async () => {
    const page = await open(sampleView(0, NOW));
    await until(() => page.getByText('No sessions.').isVisible());
    expect(await page.locator('#rows').isVisible()).toBe(false);
    expect(complaints).toEqual([]);
  });

  it('follows what happens without being loaded again', async () => {
    const page = await open(sampleView(1, NOW));
    if (ops === undefined) throw new Error('not open');
    const { view } = ops;
    const { daemon: known } = view;
    if (known === undefined) throw new Error('no daemon');
    const born = { ...sampleSession(4, NOW, 'devin-new-one'), name: 'dvo-new' };
    ops.view = { ...view, sessions: [...view.sessions, born] };
    await until(() => page.getByText('devin-new-one').first().isVisible());
    ops.view = {
      ...view,
      sessions: [],
      daemon: {
        ...known,
        admission: [{ reason: 'state', detail: 'the disk is full', hint: 'free the disk' }],
      },
    };
    await until(async () => (await page.textContent('#admission')) === 'Paused');
    expect(await page.textContent('#attention')).toContain('free the disk');
    expect(await rowsOf(page)).toBe(0);
    expect(complaints).toEqual([]);
  });

  it('says when the daemon is gone, and goes on by itself when it is back', async () => {
    const page = await open(sampleView(1, NOW));
    if (ops === undefined) throw new Error('not open');
    const { view, server } = ops;
    const port = Number(new URL(server.url).port);
    await ops[Symbol.asyncDispose]();
    await until(() => page.getByText('Not connected').isVisible());
    ops = await openOpsPage({ ...view, slots: { used: 77, max: 99 } }, undefined, port);
    await until(async () => (await page.textContent('#slots')) === '77 of 99');
    expect(await page.textContent('#connection')).toBe('Live');
  });

  it('shows hostile, long and right-to-left ids as text, and the policy lets nothing run', async () => {
    const view = sampleView(0, NOW);
    const ids = [HOSTILE, RIGHT_TO_LEFT, 'x'.repeat(250)];
    const sessions = ids.map((sessionId, at) => ({
      ...sampleSession(at, NOW, sessionId),
      lastError: { at: NOW, step: 'prepare', message: HOSTILE, hint: HOSTILE },
    }));
    const waiting = ids.map((sessionId) => ({ sessionId, why: HOSTILE }));
    const ended = ids.map((sessionId, at) => ({ sessionId, name: `e${at}`, endedAt: NOW, events: [] }));
    const page = await open({ ...view, sessions, waiting, ended, outpostId: HOSTILE });
    await until(async () => (await rowsOf(page)) === 3);
    for (const button of await page.locator('button.open').all()) await button.click();
    expect(await page.locator('tr.detail').count()).toBe(3);
    expect(await page.locator('img, main script, td script').count()).toBe(0);
    expect(await page.title()).not.toContain('owned');
    expect(await page.locator('button.open .id').allTextContents()).toEqual(expect.arrayContaining(ids));
    expect(await page.evaluate<boolean>(FITS)).toBe(true);
    expect(complaints).toEqual([]);
    // The policy itself, were the page ever to slip.
    await page.evaluate(`document.body.insertAdjacentHTML('beforeend', ${JSON.stringify(HOSTILE)})`);
    await until(() => complaints.length > 0);
    expect(await page.title()).not.toContain('owned');
    expect(complaints.join()).toContain('Content Security Policy');
  });

  it('with five hundred sessions stays short, is filtered, and shows more when asked', async () => {
    const page = await open(sampleView(500, NOW));
    await until(async () => (await rowsOf(page)) === 100);
    expect(await page.textContent('#more')).toBe('Show 100 more of 400');
    expect(await page.textContent('#attention')).toMatch(/\d+ sessions ensure-sandbox/);
    await page.click('#more');
    await until(async () => (await rowsOf(page)) === 200);
    await page.getByRole('button', { name: /^Asleep/ }).click();
    expect(await page.locator('#rows .stage').allTextContents()).toSatisfy((all: string[]) =>
      all.every((text) => text.includes('Asleep')),
    );
    await page.getByRole('button', { name: /^All/ }).click();
    const wanted = ops?.view.sessions[444]?.sessionId ?? '';
    await page.fill('#filter', wanted.toUpperCase());
    await until(async () => (await rowsOf(page)) === 1);
    await page.fill('#filter', 'no such thing');
    await until(() => page.getByText('No session matches.').isVisible());
    expect(complaints).toEqual([]);
  });

  it('can be used with the keyboard alone, and keeps the focus while it updates', async () => {
    const page = await open(sampleView(5, NOW));
    if (ops === undefined) throw new Error('not open');
    await page.keyboard.press('/');
    expect(await page.evaluate<string>('document.activeElement.id')).toBe('filter');
    await page.keyboard.press('Tab');
    const focused = () => page.evaluate<string>('document.activeElement.textContent');
    const id = await focused();
    await page.keyboard.press('Enter');
    expect(await page.locator('button.open[aria-expanded=true]').count()).toBe(1);
    expect(await page.locator('tr.detail').textContent()).toContain('sandbox asked for');
    const outline = await page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle');
    expect(outline).toBe('solid');
    const more = { ...sampleSession(0, NOW, 'devin-late'), name: 'dvo-late', createdAt: 1 };
    ops.view = { ...ops.view, sessions: [...ops.view.sessions, more] };
    await until(() => page.getByText('devin-late').first().isVisible());
    expect(await focused()).toBe(id);
    await page.keyboard.press('Enter');
    expect(await page.locator('tr.detail').count()).toBe(0);
  });

  it('has landmarks, names and roles for who does not see it, also on a phone', async () => {
    for (const viewport of [
      { width: 1280, height: 800 },
      { width: 360, height: 740 },
    ]) {
      const page = await open(sampleView(5, NOW), { viewport });
      await until(async () => (await rowsOf(page)) === 5);
      expect(await page.getByRole('main').count()).toBe(1);
      expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('dvo');
      expect(await page.getByRole('table', { name: 'Sessions' }).count()).toBe(1);
      expect(await page.getByRole('row').count()).toBeGreaterThanOrEqual(5);
      expect(await page.getByRole('searchbox', { name: /Filter sessions/ }).count()).toBe(1);
      expect(await page.getByRole('img', { name: /Slots in use over the last hour: 4 now/ }).count()).toBe(1);
      expect(await page.getByRole('status').textContent()).toBe('Live');
      expect(await page.locator('[aria-live=polite]').textContent()).toContain('4 slots in use');
      expect(await page.evaluate<boolean>(FITS)).toBe(true);
      await page.context().close();
      await ops?.[Symbol.asyncDispose]();
    }
  });

  it('asks who wants in for the token, and lets them out again', async () => {
    const token = 'correct-horse-battery';
    ops = await openOpsPage(sampleView(2, NOW), token);
    const page = await (await browser.newContext()).newPage();
    await page.goto(ops.server.url);
    expect(new URL(page.url()).pathname).toBe('/login');
    await page.fill('#token', 'wrong-horse-battery');
    await page.keyboard.press('Enter');
    await until(() => page.getByText('That is not the token.').isVisible());
    await page.fill('#token', token);
    await page.keyboard.press('Enter');
    await page.waitForSelector('#connection[data-state=live]');
    expect(page.url()).toBe(`${ops.server.url}/`);
    const cookies = await page.context().cookies();
    expect(cookies).toMatchObject([{ name: 'dvo_ops', httpOnly: true, sameSite: 'Strict' }]);
    expect(JSON.stringify(cookies)).not.toContain(token);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.waitForURL('**/login');
    expect(await page.context().cookies()).toEqual([]);
  });

  it('says to log in again when the login has ended', async () => {
    ops = await openOpsPage(sampleView(2, NOW), 'correct-horse-battery');
    const port = Number(new URL(ops.server.url).port);
    const page = await (await browser.newContext()).newPage();
    await page.clock.install();
    await page.goto(ops.server.url);
    await page.fill('#token', 'correct-horse-battery');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#connection[data-state=live]');
    await ops[Symbol.asyncDispose]();
    ops = await openOpsPage(sampleView(2, NOW), 'another-horse-battery', port);
    const link = page.getByRole('link', { name: 'Log in again' });
    await until(() => link.isVisible());
    // Long enough for the silence to be noticed.
    await page.clock.runFor(30_000);
    expect(await link.isVisible()).toBe(true);
  });
});
