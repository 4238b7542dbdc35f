/**
 * The console in a real Chromium, on a real gateway. One browser and one gateway a file; each person gets a context, so
 * cookies are never shared. Whatever the page complains of (an error, a refusal by the content policy) fails the test.
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
import { type Built, buildConsole } from "../../console/build.ts";
import type { Role } from "../../src/records.ts";
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
  /** A page of somebody who is signed in; the user is made if there is none. `path` begins after `/console`. */
  openAs(email: string, role: Role, path: string, looks?: Looks): Promise<Page>;
  /** A page of somebody who is not. */
  open(path: string, looks?: Looks): Promise<Page>;
  /** Of a page that was opened: to another address, until it is drawn. */
  goTo(page: Page, path: string): Promise<void>;
  /** What pages complained of since the last time. */
  complaints(): string[];
  stop(): Promise<void>;
}

let building: Promise<Built> | null = null;

/** Once a process, into a folder of its own: tests that run beside it have theirs. */
export function builtConsole(): Promise<Built> {
  building ??= buildApart();
  return building;
}

function buildApart(): Promise<Built> {
  const dir = mkdtempSync(join(tmpdir(), "model-gateway-console-"));
  process.on("exit", () => rmSync(dir, { recursive: true, force: true }));
  return buildConsole(join(dir, "console"));
}

/** As root, as in a container, Chromium has no sandbox of its own. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: Bun.which("chromium") ?? "/usr/bin/chromium",
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
}

export async function startConsole(options: GatewayOptions = {}): Promise<ConsoleUnderTest> {
  const { dir } = await builtConsole();
  const [gateway, browser] = await Promise.all([
    startTestGateway({ ...options, builtDir: dirname(dir) }),
    launchBrowser(),
  ]);
  const heard: string[] = [];

  async function openPage(context: BrowserContext, path: string): Promise<Page> {
    const page = await context.newPage();
    page.on("pageerror", (error) => heard.push(`${path}: ${error.message}`));
    page.on("console", (message) => {
      // A refusal that a test provokes is shown on the page; the browser notes it as well.
      const isNote = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isNote) heard.push(`${path}: ${message.text()}`);
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
    complaints: () => heard.splice(0),
    async stop() {
      await browser.close();
      await gateway.stop();
    },
  };
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
