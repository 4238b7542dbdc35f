/** Checks that apply to every page of the console. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { builtConsole } from "./browser.ts";
import { everyPage, startWorld, type World } from "./demo-data.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.stop());

/** All differences from the default appearance at once. */
const OTHER_LOOKS = { scheme: "dark", width: 360, language: "zh" } as const;

for (const entry of await everyPage()) {
  test(`${entry.path} is accessible in light, wide and English, and in dark, narrow and Chinese`, async () => {
    const [page, other] = await Promise.all([world.visit(entry), world.visit(entry, OTHER_LOOKS)]);
    expect(await page.title()).toContain("Model Gateway");
    expect(await other.locator("main").textContent()).toMatch(/\p{Script=Han}/u);
    expect(await Promise.all([axeFindings(page), axeFindings(other)])).toEqual([[], []]);
    expect(await sidewaysScroll(other)).toBe(0);
    expect(world.complaints()).toEqual([]);
  });
}

test("the first load is less than 250 kB", async () => {
  const { firstLoad, pages } = await builtConsole();
  const largest = Math.max(...pages.map(({ bytes }) => bytes));
  const bytes = firstLoad.reduce((sum, file) => sum + file.bytes, 0);
  expect(bytes).toBeLessThan(150_000);
  expect(bytes + largest).toBeLessThan(250_000);
});
