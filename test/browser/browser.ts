/**
 * The console in a real Chromium, on a real gateway. Each file has one browser and one gateway; each user gets a
 * context, so cookies are never shared. An error of a page or a violation of its content policy fails the test.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";
import { type BuiltApp, buildConsole } from "../../console/build.ts";
import type { Role } from "../../src/records/user.ts";
import { findChromium } from "../support/chromium.ts";
import { signInAs } from "../support/console-client.ts";
import { type GatewayOptions, type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

export type { Page } from "playwright-core";

export interface Looks {
  scheme?: "light" | "dark";
  /** In pixels. */
  width?: number;
  language?: "en" | "zh";
  /** Device pixels for one CSS pixel. */
  scale?: number;
}

export const PHONE_WIDTH = 390;

export interface ConsoleUnderTest {
  gateway: RunningGateway;
  browser: Browser;
  /** Opens a page as a signed-in user, who is created if necessary. `path` begins after `/console`. */
  openAs(email: string, role: Role, path: string, looks?: Looks): Promise<Page>;
  /** Opens a page without signing in. */
  open(path: string, looks?: Looks): Promise<Page>;
  /** Opens another address on the page, and waits until it is drawn. */
  goTo(page: Page, path: string): Promise<void>;
  /** The errors of all pages since the last call. */
  complaints(): string[];
  /** Open pages keep reading live data. */
  closePages(): Promise<void>;
  stop(): Promise<void>;
}

let building: Promise<BuiltApp> | null = null;

/** Once for each process, into its own folder, so that tests can run in parallel. */
export function builtConsole(): Promise<BuiltApp> {
  building ??= buildApart();
  return building;
}

function buildApart(): Promise<BuiltApp> {
  const dir = mkdtempSync(join(tmpdir(), "model-gateway-console-"));
  process.on("exit", () => rmSync(dir, { recursive: true, force: true }));
  return buildConsole(join(dir, "console"));
}

/** As root, as in a container, Chromium has no sandbox. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: findChromium() ?? "/usr/bin/chromium-headless-shell",
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
}

export async function startConsole(options: GatewayOptions = {}): Promise<ConsoleUnderTest> {
  const { dir } = await builtConsole();
  const [gateway, browser] = await Promise.all([
    startTestGateway({ ...options, builtDir: dirname(dir) }),
    launchBrowser(),
  ]);
  const pageErrors: string[] = [];

  async function openPage(context: BrowserContext, path: string): Promise<Page> {
    const page = await context.newPage();
    page.on("pageerror", (error) => pageErrors.push(`${path}: ${error.message}`));
    page.on("console", (message) => {
      // A rejection that a test provokes is shown on the page; the browser logs it as well.
      const isNote = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isNote) pageErrors.push(`${path}: ${message.text()}`);
    });
    await goTo(page, path);
    return page;
  }

  async function goTo(page: Page, path: string): Promise<void> {
    await page.goto(`${gateway.url}/console${path}`);
    await page.locator("h1").first().waitFor();
  }

  return {
    gateway,
    browser,
    async openAs(email, role, path, looks = {}) {
      const { cookie } = await signInAs(gateway, email, role);
      const context = await browser.newContext(contextOptions(looks));
      const [name = "", value = ""] = cookie.split("=");
      const { hostname } = new URL(gateway.url);
      await context.addCookies([
        { name, value, domain: hostname, path: "/", secure: true, httpOnly: true, sameSite: "Lax" },
      ]);
      return openPage(context, path);
    },
    async open(path, looks = {}) {
      return openPage(await browser.newContext(contextOptions(looks)), path);
    },
    goTo,
    complaints: () => pageErrors.splice(0),
    closePages: () => closeContexts(browser),
    async stop() {
      await browser.close();
      await gateway.stop();
    },
  };
}

export async function closeContexts(browser: Browser): Promise<void> {
  await Promise.all(browser.contexts().map((context) => context.close()));
}

export function contextOptions({
  scheme = "light",
  width = 1360,
  language = "en",
  scale = 1,
}: Looks): BrowserContextOptions {
  return {
    viewport: { width, height: 900 },
    deviceScaleFactor: scale,
    colorScheme: scheme,
    locale: language === "zh" ? "zh-CN" : "en-US",
    timezoneId: "UTC",
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  };
}
