/** The explorer in a real Chromium, against a real gateway. Everything a page logs or sends is recorded. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { buildExplorer } from "../../console/build.ts";
import {
  type GatewayOptions,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
} from "../support/running-gateway.ts";
import { closeContexts, contextOptions, type Looks, launchBrowser } from "./browser.ts";

export const EXPLORER_MODELS = {
  "fast-chat": "sim-fast",
  broken: "fault/500",
  "never-ends": "fault/stall@chunk6",
};

export interface ExplorerUnderTest {
  gateway: RunningGateway;
  browser: Browser;
  /** `fragment` like `#createResponse`. */
  open(fragment?: string, looks?: Looks): Promise<Page>;
  closePages(): Promise<void>;
  /** Errors of pages and violations of the content policy, since the last call. */
  complaints(): string[];
  /** Addresses and bodies that pages sent, and what they wrote into the browser's console. */
  readonly logged: string[];
  /** As they are sent. */
  readonly firstLoadBytes: number;
  stop(): Promise<void>;
}

export async function startExplorer(options: GatewayOptions = {}): Promise<ExplorerUnderTest> {
  const dir = mkdtempSync(join(tmpdir(), "model-gateway-explorer-"));
  const { firstLoad } = await buildExplorer(join(dir, "explorer"));
  const [gateway, browser] = await Promise.all([
    startTestGateway({ ...options, builtDir: dir }),
    launchBrowser(),
  ]);
  const pageErrors: string[] = [];
  const logged: string[] = [];
  return {
    gateway,
    browser,
    logged,
    firstLoadBytes: firstLoad.reduce((sum, { bytes }) => sum + bytes, 0),
    async open(fragment = "", looks = {}) {
      const context = await browser.newContext(contextOptions(looks));
      const page = await context.newPage();
      page.on("pageerror", (error) => pageErrors.push(error.message));
      page.on("console", (message) => {
        logged.push(message.text());
        // A rejection that a test provokes is shown on the page; the browser logs it as well.
        const isNote = /^(?:Failed to load resource|WebSocket connection to)/.test(message.text());
        if (message.type() === "error" && !isNote) pageErrors.push(message.text());
      });
      page.on("request", (request) => logged.push(request.url(), request.postData() ?? ""));
      page.on("websocket", (socket) => {
        logged.push(socket.url());
        socket.on("framesent", ({ payload }) => logged.push(String(payload)));
      });
      await page.goto(`${gateway.url}/explorer/${fragment}`);
      await page.locator("h1").waitFor();
      return page;
    },
    closePages: () => closeContexts(browser),
    complaints: () => pageErrors.splice(0),
    async stop() {
      await browser.close();
      await gateway.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** The text editor of the body, once it is loaded. */
export const bodyEditor = (page: Page) => page.locator(".json-editor .cm-content");

export async function bodyText(page: Page): Promise<string> {
  await bodyEditor(page).waitFor();
  return (await page.locator(".json-editor .cm-line").allTextContents()).join("\n");
}

/** Empties the editor first: text inserted over coloured text gets an inline style from Chromium, which the policy rejects. */
export async function setBodyText(page: Page, text: string): Promise<void> {
  await bodyEditor(page).press("Control+a");
  await bodyEditor(page).press("Delete");
  await page.keyboard.insertText(text);
}

export type OpenArguments = [fragment?: string, key?: string, looks?: Looks];

/** Opens the explorer and enters a key. */
export async function openExplorer(
  explorer: ExplorerUnderTest,
  ...[fragment = "", key = TEST_KEY, looks = {}]: OpenArguments
): Promise<Page> {
  const page = await explorer.open(fragment, looks);
  await page.getByLabel("API key").fill(key);
  await page.getByText(/^(?:This key can call \d|Invalid API key)/).waitFor();
  return page;
}

export const facts = (page: Page) => page.locator(".run-facts");

/** Runs the shown request and waits for its end. */
export async function run(page: Page): Promise<void> {
  await startRun(page);
  await ended(page);
}

export async function startRun(page: Page): Promise<void> {
  await page.getByRole("button", { name: /^(?:Run|Send turn)$/ }).click();
}

export async function ended(page: Page): Promise<void> {
  await facts(page).getByText("Total", { exact: true }).waitFor();
}

export async function fact(page: Page, name: string): Promise<string> {
  const row = facts(page)
    .locator("div")
    .filter({ has: page.getByText(name, { exact: true }) });
  return row.locator("dd").innerText();
}

export async function setBody(page: Page, body: object): Promise<void> {
  await setBodyText(page, JSON.stringify(body, null, 2));
}
