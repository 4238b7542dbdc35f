/** The playground in a real browser: models side by side, their bills, and conversations that stay in the browser. */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { paidFile } from "../support/paid-gateway.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Page, PHONE_WIDTH, startConsole } from "./browser.ts";

// The console is built and a browser starts first.
setDefaultTimeout(90_000);

const MODELS = { one: "sim-fast", two: "sim-fast", three: "sim-fast", four: "sim-fast" };

let console_: ConsoleUnderTest;

beforeAll(async () => {
  console_ = await startConsole({
    tokens: "o200k",
    file: paidFile({
      models: MODELS,
      balance: "5.00",
      groups: [{ name: "free", models: Object.keys(MODELS), accounts: ["sim"] }],
    }),
  });
});
afterAll(() => console_.stop());
afterEach(() => expect(console_.complaints()).toEqual([]));

const FIRST_TOKEN = /^First token/;

let people = 0;
async function openPlayground(looks = {}): Promise<Page> {
  people += 1;
  const page = await console_.openAs(`player-${people}@example.com`, "user", "/playground", looks);
  // The group that costs nothing is selected, because the balance is empty.
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByRole("textbox", { name: "Message" }).waitFor();
  return page;
}

async function addModels(page: Page, count: number): Promise<void> {
  for (let added = 0; added < count; added++) await page.getByRole("button", { name: "Add model" }).click();
}

async function ask(page: Page, text: string): Promise<void> {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.keyboard.press("Enter");
}

test("four models respond side by side, without long tasks, and their bills are the usage rows", async () => {
  const page = await openPlayground();
  await addModels(page, 3);
  expect(await page.getByRole("button", { name: "Add model" }).count()).toBe(0);
  await page.evaluate(`
    window.longTasks = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
    }).observe({ entryTypes: ["longtask"] });`);
  await ask(page, "Write forty lines about gateways. ".repeat(20));
  for (const model of Object.keys(MODELS)) {
    const reply = page.getByRole("article", { name: model, exact: true });
    await reply.getByText(/First token .* tokens\/s · .* in, .* out/).waitFor();
    await reply.locator("summary", { hasText: "Cost" }).click();
    const total = await reply.locator("tfoot td").innerText();
    const href = await reply.getByRole("link", { name: "Request" }).getAttribute("href");
    const id = href?.split("/").at(-1) ?? "";
    const [row] = (await console_.gateway.usageRows()).filter((one) => one.request_id === id);
    expect(total).toBe(`$${formatNano(Number(row?.cost_nano))}`);
  }
  expect(await page.evaluate("window.longTasks.filter((ms) => ms > 50)")).toEqual([]);
});

function formatNano(nano: number): string {
  return (nano / 1e9).toFixed(9).replace(/0+$/, "").replace(/\.$/, "");
}

/** The requests that reached the upstream. */
function bodies(): string[] {
  const { ledger } = console_.gateway.simulator;
  return ledger.entries().map(({ id }) => new TextDecoder().decode(ledger.findBody(id) ?? undefined));
}

test("a conversation is continued with its own replies, repeated, and stopped", async () => {
  const page = await openPlayground();
  const turn = (number: number) => page.getByRole("region", { name: `Turn ${number}` });
  await ask(page, "First");
  await turn(1).getByText(FIRST_TOKEN).waitFor();
  await ask(page, "Second");
  await turn(2).getByText(FIRST_TOKEN).waitFor();
  expect(bodies().at(-1)).toMatch(/First.*assistant.*Second/);
  const sent = bodies().length;
  await page.getByRole("button", { name: "Repeat" }).click();
  await eventually(() => bodies().length > sent);
  expect(bodies().at(-1)).toBe(bodies().at(-2) ?? "");
  await turn(2).getByText(FIRST_TOKEN).waitFor();
});

test("images and tools are sent, and a tool call is shown", async () => {
  const page = await openPlayground();
  await page.getByText("Options").click();
  await page.getByRole("textbox", { name: "Tools (JSON)" }).fill("[{}]");
  await page.getByText("This is not a JSON array of functions with names.").waitFor();
  await page.getByRole("textbox", { name: "Tools (JSON)" }).fill('[{"name": "get_weather"}]');
  await page.getByLabel("Add images").setInputFiles({
    name: "dot.png",
    mimeType: "image/png",
    buffer: Buffer.from(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
      "base64",
    ),
  });
  await page.getByRole("img", { name: "Image 1" }).waitFor();
  await ask(page, "What is this?");
  await page.getByRole("region", { name: "Turn 1" }).getByText(FIRST_TOKEN).waitFor();
  const body = bodies().at(-1) ?? "";
  expect(body).toContain("data:image/png;base64,");
  expect(body).toContain("get_weather");
});

test("the temporary secret is in memory only, and no cookie is sent with a model request", async () => {
  const page = await openPlayground();
  const sent: { authorization: string; cookie: string | undefined }[] = [];
  page.on("request", async (request) => {
    if (!request.url().includes("/v1/")) return;
    const headers = await request.allHeaders();
    sent.push({ authorization: headers.authorization ?? "", cookie: headers.cookie });
  });
  await ask(page, "Hello");
  await page.getByText(FIRST_TOKEN).waitFor();
  await eventually(() => sent.length > 0);
  const [first] = sent;
  expect(first?.cookie).toBeUndefined();
  const secret = first?.authorization.replace("Bearer ", "") ?? "";
  expect(secret).toStartWith("gwk_");
  await page.getByRole("button", { name: "Code" }).click();
  await page.getByRole("dialog").getByText("MODEL_GATEWAY_KEY").first().waitFor();
  expect(await page.content()).not.toContain(secret);
  expect(await page.evaluate(STORED)).not.toContain(secret);
});

/** Everything that the page has stored in the browser. */
const STORED = `(async () => {
  const opening = indexedDB.open("playground");
  await new Promise((resolve) => { opening.onsuccess = resolve; });
  const reading = opening.result.transaction("conversations").objectStore("conversations").getAll();
  await new Promise((resolve) => { reading.onsuccess = resolve; });
  return JSON.stringify([reading.result, { ...localStorage }, { ...sessionStorage }]);
})()`;

test("conversations are kept in the browser, opened again, and deleted", async () => {
  const page = await openPlayground();
  await ask(page, "Remember this");
  await page.getByText(FIRST_TOKEN).waitFor();
  await eventually(async () => String(await page.evaluate(STORED)).includes("Remember this"));
  await console_.goTo(page, "/playground");
  await page.getByRole("textbox", { name: "Message" }).waitFor();
  expect(await page.getByRole("region", { name: "Turn 1" }).count()).toBe(0);
  await page.getByRole("button", { name: "Conversations" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remember this" }).click();
  await page.getByRole("region", { name: "Turn 1" }).getByText("Remember this", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Conversations" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete all" }).click();
  await page.getByRole("dialog").getByText("No conversations yet.").waitFor();
  expect(await page.evaluate(STORED)).not.toContain("Remember this");
});

test.each([
  { width: 1360, scheme: "light" },
  { width: PHONE_WIDTH, scheme: "dark" },
] as const)("the page is accessible at $width px, $scheme", async (looks) => {
  const page = await openPlayground(looks);
  await addModels(page, 1);
  await ask(page, "Hello");
  await page.locator("summary", { hasText: "Cost" }).first().waitFor();
  expect(await axeFindings(page)).toEqual([]);
  expect(await sidewaysScroll(page)).toBe(0);
});
