/** The explorer in a real Chromium, against a real gateway. Everything a page logs or sends is recorded. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { buildExplorer } from "../../console/build.ts";
import { type GatewayOptions, type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { closeContexts, contextOptions, type Looks, launchBrowser } from "./browser.ts";

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
