/** The usage page and the request inspector. */

import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { PAYER, paidFile } from "../support/paid-gateway.ts";
import { type ConsoleUnderTest, type Page, startConsole } from "./browser.ts";
import { HOSTILE_TEXTS, hostileTraces } from "./hostile-texts.ts";

const LIMITED_SECRET = "limited-key-0123456789-0123456789-0123456";

let console: ConsoleUnderTest;
beforeAll(async () => {
  console = await startConsole({
    tokens: "o200k",
    file: paidFile({
      balance: "5",
      models: { first: "sim-fast", second: "sim-fast" },
      keys: [{ name: "limited", user: PAYER, group: "paying", secret: LIMITED_SECRET, limits: { rpm: 1 } }],
    }),
  });
});
afterAll(() => console.stop());
afterEach(async () => {
  expect(console.complaints()).toEqual([]);
  await console.closePages();
});

async function ask(model: string, secret?: string): Promise<string> {
  const headers = secret === undefined ? {} : { headers: { authorization: `Bearer ${secret}` } };
  const messages = [{ role: "user", content: "Hello" }];
  const response = await console.gateway.call("/v1/chat/completions", { model, messages }, headers);
  await response.text();
  return response.headers.get("x-request-id") ?? "";
}

const requests = (page: Page) => page.getByRole("table", { name: "Requests" }).locator("tbody tr");

test("before the first request the page shows how to send one", async () => {
  const page = await console.openAs(PAYER, "user", "/usage");
  await page.getByText("No usage yet").waitFor();
  expect(await page.locator(".code-block").textContent()).toContain("/v1/chat/completions");
});

test("a new request appears automatically in the figures and in the list", async () => {
  const page = await console.openAs(PAYER, "user", "/usage");
  await ask("first");
  // A row without text stands for one that is being loaded.
  await requests(page).first().filter({ hasText: "first" }).waitFor();
  await page.locator(".stat", { hasText: "Requests" }).getByText("1", { exact: true }).waitFor();
});

test("any of 501 keys is found by its name", async () => {
  const email = "many@example.com";
  const keys = Array.from({ length: 501 }, (_, i) => ({
    name: `key-${String(i).padStart(3, "0")}`,
    user: email,
    group: "paying",
    secret: `many-key-${String(i).padStart(3, "0")}-0123456789-0123456789-012345`,
  }));
  await console.gateway.apply(JSON.stringify({ users: [{ email }], keys }));
  const page = await console.openAs(email, "user", "/usage");
  await page.getByRole("searchbox", { name: "Search your keys" }).fill("key-000");
  const choice = page.locator("label.filter", { hasText: "Key" }).locator("select");
  await choice.locator("option", { hasText: "key-000" }).waitFor({ state: "attached" });
  await choice.selectOption({ label: "key-000" });
  await page.waitForURL(/key=key_/);
});

test("filters and the range are in the address and can be cleared", async () => {
  await ask("second");
  const page = await console.openAs(PAYER, "user", "/usage");
  await page.getByLabel("Model", { exact: true }).first().waitFor();
  await page.locator("label.filter", { hasText: "Model" }).locator("select").selectOption("second");
  await page.waitForURL(/model=second/);
  await requests(page).filter({ hasText: "first" }).first().waitFor({ state: "detached" });
  expect(await requests(page).count()).toBe(1);
  await page.getByRole("button", { name: "Clear filters" }).click();
  await requests(page).filter({ hasText: "first" }).first().waitFor();
  await page.getByText("24 hours").click();
  await page.waitForURL(/range=day/);
});

test("the chart can be read by keyboard", async () => {
  const page = await console.openAs(PAYER, "user", "/usage?by=total");
  const chart = page.getByRole("slider");
  await chart.focus();
  await page.keyboard.press("End");
  expect(await chart.getAttribute("aria-valuetext")).toMatch(/Requests [1-9]/);
  await page.keyboard.press("ArrowLeft");
  expect(await chart.getAttribute("aria-valuetext")).toMatch(/Requests 0/);
});

test("a pasted request id opens its timeline and its price lines, without the account", async () => {
  const id = await ask("first");
  const page = await console.openAs(PAYER, "user", "/usage");
  await page.keyboard.press("/");
  await page.keyboard.type(id);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Timeline" }).waitFor();
  const content = (await page.locator("main").textContent()) ?? "";
  for (const part of [
    id,
    "Admitted",
    "Attempt 1",
    "Response",
    "Input tokens",
    "Output tokens",
    "from the balance",
  ]) {
    expect(content).toContain(part);
  }
  expect(content).not.toContain("sim-fast");
});

test("a request over a limit shows which limit it was", async () => {
  await ask("first", LIMITED_SECRET);
  await ask("first", LIMITED_SECRET);
  const page = await console.openAs(PAYER, "user", "/usage?outcome=refused");
  await requests(page).first().getByRole("link").click();
  await page.getByText("1 requests per minute").waitFor();
  await page.getByText("rate_limit_exceeded").waitFor();
});

test("an administrator sees the requests of all users and the accounts that served them", async () => {
  await ask("first");
  const page = await console.openAs("admin@example.com", "admin", "/usage");
  await page.getByText("All users").click();
  await requests(page).filter({ hasText: PAYER }).first().getByRole("link").click();
  await page.getByText("sim-fast").first().waitFor();
});

test("the CSV file has the rows of the list", async () => {
  const page = await console.openAs(PAYER, "user", "/usage?model=second");
  await requests(page).first().waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "Download CSV" }).click(),
  ]);
  const file = await Bun.file(await download.path()).text();
  expect(file.trim().split("\r\n")).toHaveLength(1 + (await requests(page).count()));
});

test("model names with markup are shown as text", async () => {
  for (const text of HOSTILE_TEXTS) await ask(text);
  const page = await console.openAs(PAYER, "user", "/usage?metric=errors");
  await page.getByText(HOSTILE_TEXTS[0]).first().waitFor();
  expect(await hostileTraces(page)).toEqual([]);
  await requests(page).first().getByRole("link").click();
  await page.getByRole("heading", { name: "Timeline" }).waitFor();
  expect(await hostileTraces(page)).toEqual([]);
});
