/** Captured requests in a real browser: an administrator orders them, opens one, compares it and sends it again. */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayOptions, TEST_KEY } from "../support/running-gateway.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Page, PHONE_WIDTH, startConsole } from "./browser.ts";
import { HOSTILE_TEXTS, hostileTraces } from "./hostile-texts.ts";

// The console is built and a browser starts first.
setDefaultTimeout(90_000);

const ADMIN = "root@example.com";
const OPTIONS: GatewayOptions = { models: { fast: "sim-fast" } };

let console: ConsoleUnderTest;
let keyId: string;
beforeAll(async () => {
  console = await startConsole(OPTIONS);
  const { db, digest } = console.gateway.installation;
  const [row] = await db.sql`SELECT id FROM api_key WHERE digest = ${digest(TEST_KEY)}`;
  keyId = String(row?.id);
});
afterAll(() => console.stop());
afterEach(async () => {
  expect(console.complaints()).toEqual([]);
  await console.closePages();
});

async function send(content: string): Promise<string> {
  const response = await console.gateway.call("/v1/chat/completions", {
    model: "fast",
    stream: true,
    messages: [{ role: "user", content }],
  });
  await response.text();
  return response.headers.get("x-request-id") ?? "";
}

async function openCapture(id: string, looks: Parameters<ConsoleUnderTest["openAs"]>[3] = {}): Promise<Page> {
  const page = await console.openAs(ADMIN, "admin", `/admin/captures/${id}`, looks);
  await page.locator("form button[type=submit]").click();
  await page.getByRole("tab").first().waitFor();
  return page;
}

test("an administrator orders the next requests of a key on its page, and finds them there", async () => {
  const page = await console.openAs(ADMIN, "admin", `/keys/${keyId}`);
  await page.getByLabel("Next requests").fill("2");
  await page.getByRole("button", { name: "Capture", exact: true }).click();
  await page.getByText("The next 2 requests are captured").waitFor();
  await send("ordered on the page");
  await page.getByText("The next request is captured").waitFor();
  await page
    .getByRole("table", { name: "Captured requests of this key" })
    .getByRole("link")
    .first()
    .waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Capture", exact: true }).waitFor();
  expect(await axeFindings(page)).toEqual([]);
});

test("the mode of a key is chosen on its page", async () => {
  const page = await console.openAs(ADMIN, "admin", `/keys/${keyId}`);
  await page.getByLabel("Capture requests").selectOption("all");
  const admin = await signInAs(console.gateway, ADMIN, "admin");
  await eventually(async () => {
    const { mode } = await admin.call("admin.keys.capture", { params: { id: keyId } });
    return mode === "all";
  });
});

test("the owner of a key sees nothing of captures", async () => {
  const page = await console.openAs("dev@example.com", "user", `/keys/${keyId}`);
  await page.getByRole("heading", { name: "Details" }).waitFor();
  expect(await page.getByRole("heading", { name: "Captures" }).count()).toBe(0);
  expect(await page.getByRole("link", { name: "Captures" }).count()).toBe(0);
});

test("the mode of a group is saved with its form", async () => {
  const page = await console.openAs(ADMIN, "admin", "/admin/groups/default");
  await page.getByLabel("Capture requests").selectOption("errors");
  await page.getByRole("button", { name: "Save" }).click();
  const admin = await signInAs(console.gateway, ADMIN, "admin");
  await eventually(async () => {
    const { document } = await admin.call("admin.groups.get", { params: { name: "default" } });
    return document.capture === "errors";
  });
});

test("a capture is shown only after it was opened, and the audit log has it", async () => {
  const id = await send("a prompt behind a gate");
  const admin = await signInAs(console.gateway, ADMIN, "admin");
  const countReads = async () =>
    (await admin.call("admin.audit.list", { query: { action: "capture.read", target: `capture ${id}` } }))
      .data.length;
  const page = await console.openAs(ADMIN, "admin", `/requests/${id}`);
  await page.getByRole("link", { name: "Open capture" }).click();
  await page.getByRole("heading", { name: "Captured request" }).waitFor();
  expect(await page.locator("main").textContent()).not.toContain("a prompt behind a gate");
  expect(await countReads()).toBe(0);
  await page.getByLabel("Reason").fill("ticket 12");
  await page.getByRole("button", { name: "Open capture" }).click();
  await page.getByText("a prompt behind a gate").first().waitFor();
  expect(await countReads()).toBe(1);
});

test("the parts are reached by keyboard, and the difference shows what the gateway changed", async () => {
  const page = await openCapture(await send("compare me"));
  await page.getByRole("tab", { name: "Request" }).focus();
  await page.keyboard.press("ArrowRight");
  expect(await page.getByRole("tab", { selected: true }).textContent()).toBe("Attempt 1: sim");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  expect(await page.getByRole("tab", { selected: true }).textContent()).toBe("Difference");
  const lines = page.getByRole("list", { name: "Difference" });
  expect(await lines.locator(".removed").first().textContent()).toContain('"model": "fast"');
  expect((await lines.locator(".added").allTextContents()).join()).toContain('"model": "sim-fast"');
});

test("a capture is copied as curl without the key, and opens in the explorer with its body", async () => {
  const page = await openCapture(await send("send me again"));
  await page.getByRole("button", { name: "Copy as curl" }).click();
  await page.getByText("The command was copied").waitFor();
  const command = await page.evaluate<string>("navigator.clipboard.readText()");
  expect(command).toStartWith(`curl ${console.gateway.url}/v1/chat/completions`);
  expect(command).toContain("send me again");
  expect(command).not.toContain(TEST_KEY);
  const [explorer] = await Promise.all([
    page.context().waitForEvent("page"),
    page.getByRole("link", { name: "Open in the explorer" }).click(),
  ]);
  await explorer.waitForURL(/\/explorer\/#createChatCompletion\//);
});

test("a capture is deleted", async () => {
  const id = await send("delete me");
  const page = await openCapture(id);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("The capture was deleted.").waitFor();
  const admin = await signInAs(console.gateway, ADMIN, "admin");
  expect((await admin.callRejected("admin.captures.read", { params: { id }, body: {} })).code).toBe(
    "not_found",
  );
});

test("the opened viewer is accessible in both languages and themes, and on a phone", async () => {
  const id = await send("look at me");
  const looks = { scheme: "dark", width: PHONE_WIDTH, language: "zh" } as const;
  for (const page of [await openCapture(id), await openCapture(id, looks)]) {
    const tabs = page.getByRole("tab");
    for (let i = 0; i < (await tabs.count()); i++) {
      await tabs.nth(i).click();
      expect(await axeFindings(page)).toEqual([]);
      expect(await sidewaysScroll(page)).toBe(0);
    }
  }
});

test("captured text never becomes markup", async () => {
  for (const hostile of HOSTILE_TEXTS) {
    const page = await openCapture(await send(hostile));
    expect(await hostileTraces(page)).toEqual([]);
    await page.context().close();
  }
});
