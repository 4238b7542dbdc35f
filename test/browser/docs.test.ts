/** The documentation site in a real Chromium: accessible in both themes, with highlighted code and its pictures. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { writeDocs } from "../../console/docs/build.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { contextOptions, type Looks, launchBrowser, type Page, PHONE_WIDTH } from "./browser.ts";

const LOOKS: readonly Looks[] = [{ scheme: "light" }, { scheme: "dark", width: PHONE_WIDTH }];

let dir: string;
let gateway: RunningGateway;
let browser: Browser;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "model-gateway-docs-"));
  mkdirSync(join(dir, "docs"));
  await writeDocs(join(dir, "docs"), "data:,");
  [gateway, browser] = await Promise.all([startTestGateway({ builtDir: dir }), launchBrowser()]);
});
afterAll(async () => {
  await browser.close();
  await gateway.stop();
  rmSync(dir, { recursive: true });
});

async function open(slug: string, looks: Looks): Promise<Page> {
  const context = await browser.newContext(contextOptions(looks));
  const page = await context.newPage();
  await page.goto(`${gateway.url}/docs/${slug}`);
  await page.locator("h1").waitFor();
  return page;
}

test.each(["clients", "console", "configuration"])(
  "%s is accessible and fits, in both themes",
  async (slug) => {
    for (const looks of LOOKS) {
      const page = await open(slug, looks);
      expect(await page.locator("[class^=syntax-]").count()).toBeGreaterThan(0);
      expect(await axeFindings(page)).toEqual([]);
      expect(await sidewaysScroll(page)).toBe(0);
    }
  },
);

test.each(["light", "dark"] as const)("pictures are those of the %s theme", async (scheme) => {
  const page = await open("console", { scheme });
  const pictures = page.locator("main img:visible");
  expect(await pictures.count()).toBeGreaterThan(0);
  for (const picture of await pictures.all()) {
    expect(await picture.getAttribute("src")).toEndWith(`-${scheme}.webp`);
    await picture.scrollIntoViewIfNeeded();
    await picture.evaluate("(image) => image.decode()");
  }
});
