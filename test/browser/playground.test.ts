/** The playground in a real browser: models side by side, their bills, and conversations that stay in the browser. */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { endTemporarySecrets } from "../../src/store/policy/temporary-secrets.ts";
import { eventually } from "../support/eventually.ts";
import { paidFile } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Page, PHONE_WIDTH, startConsole } from "./browser.ts";

// The console is built and a browser starts first.
setDefaultTimeout(90_000);

/** Slow enough for a rate, also where a busy browser reads several events at once. */
const PACED = "sim-fast@events=20,interval=20ms";
const FOUR = { one: PACED, two: PACED, three: PACED, four: PACED };
const MODELS = {
  ...FOUR,
  unhurried: "sim-fast@events=600,interval=100ms,bytes=6000",
  "with-tools": "sim-tools",
};

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
afterEach(async () => {
  expect(console_.complaints()).toEqual([]);
  await console_.closePages();
});

/** The figures of a reply with its tokens, which are known when the whole reply has arrived. */
const COMPLETE = /^First token.* in, .* out$/;

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
  for (const model of Object.keys(FOUR)) {
    const reply = page.getByRole("article", { name: model, exact: true });
    await reply.getByText(/^First token .* tokens\/s · .* in, .* out$/).waitFor();
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
  await chooseModel(page, "one");
  await ask(page, "First");
  await turn(1).getByText(COMPLETE).waitFor();
  await ask(page, "Second");
  await turn(2).getByText(COMPLETE).waitFor();
  expect(bodies().at(-1)).toMatch(/First.*assistant.*Second/);
  const sent = bodies().length;
  await page.getByRole("button", { name: "Repeat" }).click();
  await eventually(() => bodies().length > sent);
  expect(bodies().at(-1)).toBe(bodies().at(-2) ?? "");
  await turn(2).getByText(COMPLETE).waitFor();

  await chooseModel(page, "unhurried");
  await ask(page, "Third");
  const reply = turn(3).getByRole("article", { name: "unhurried" });
  await reply.locator(".reply-text").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await reply.getByText("Stopped.").waitFor();
  // What has arrived stays, and the request is billed.
  const text = await reply.locator(".reply-text").innerText();
  await reply.locator("summary", { hasText: "Cost" }).waitFor();
  expect(await reply.locator(".reply-text").innerText()).toBe(text);
  await page.getByRole("button", { name: "Repeat" }).waitFor();
});

async function chooseModel(page: Page, model: string): Promise<void> {
  await page.getByRole("combobox", { name: "Model 1" }).selectOption(model);
}

test("system text, temperature and effort are sent, and the code of a reply sends the same request", async () => {
  const page = await openPlayground();
  await chooseModel(page, "one");
  await page.getByText("Options").click();
  await page.getByRole("textbox", { name: "System text" }).fill("Answer in one word.");
  await page.getByRole("spinbutton", { name: "Temperature" }).fill("0.3");
  await page.getByRole("combobox", { name: "Effort" }).selectOption("low");
  await ask(page, "Capital of Norway?");
  await page.getByText(COMPLETE).waitFor();
  const sent = JSON.parse(bodies().at(-1) ?? "{}");
  expect(sent).toMatchObject({
    messages: [
      { role: "system", content: "Answer in one word." },
      { role: "user", content: "Capital of Norway?" },
    ],
    temperature: 0.3,
    reasoning_effort: "low",
  });
  await page.getByRole("button", { name: "Code" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("tab", { name: "curl" }).click();
  const command = await dialog.getByRole("region", { name: "curl" }).locator("code").innerText();
  const env = { PATH: process.env.PATH ?? "", MODEL_GATEWAY_KEY: TEST_KEY };
  const run = Bun.spawn(["sh", "-c", `${command} --silent`], { env, stdout: "pipe" });
  expect(await new Response(run.stdout).text()).toContain("chat.completion.chunk");
  expect(JSON.parse(bodies().at(-1) ?? "{}")).toMatchObject({ ...sent, model: expect.any(String) });
  const copy = dialog.getByRole("region", { name: "curl" }).getByRole("button", { name: /Copy/ });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await copy.click();
  expect(await page.evaluate("navigator.clipboard.readText()")).toBe(command);
});

test("images and tools are sent, and a tool call is shown", async () => {
  const page = await openPlayground();
  await chooseModel(page, "with-tools");
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
  const turn = page.getByRole("region", { name: "Turn 1" });
  await turn.getByText(COMPLETE).waitFor();
  const body = bodies().at(-1) ?? "";
  expect(body).toContain("data:image/png;base64,");
  expect(body).toContain("get_weather");
  const call = await turn.getByRole("region", { name: "Call of get_weather" }).locator("code").innerText();
  expect(call).toMatch(/^get_weather\(\{.*\}\)$/);
  await page.getByRole("textbox", { name: "Result of the tool" }).fill("Sunny");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Turn 2" }).getByText(COMPLETE).waitFor();
  expect(JSON.parse(bodies().at(-1) ?? "{}").messages.at(-1)).toMatchObject({
    role: "tool",
    content: "Sunny",
  });
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
  await page.getByText(COMPLETE).waitFor();
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

test("after a rejection of the temporary secret, Repeat uses a new one", async () => {
  const page = await openPlayground();
  const sent = page.waitForRequest((request) => request.url().includes("/v1/"));
  await ask(page, "Hello");
  const { authorization = "" } = await (await sent).allHeaders();
  await page.getByText(COMPLETE).waitFor();
  // As after a rotation of the key in another window.
  const { db } = console_.gateway.installation;
  const rows = await db.sql`SELECT session_id FROM temporary_secret`;
  await endTemporarySecrets(
    db,
    rows.map((row) => String(row.session_id)),
  );
  await eventually(() => listModels(authorization), { equals: 401 });
  await ask(page, "Again");
  await page.getByText(/Incorrect API key/).waitFor();
  await page.getByRole("button", { name: "Repeat" }).click();
  await page.getByRole("region", { name: "Turn 2" }).getByText(COMPLETE).waitFor();
});

async function listModels(authorization: string): Promise<number> {
  const { status } = await fetch(`${console_.gateway.url}/v1/models`, { headers: { authorization } });
  return status;
}

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
  await page.getByText(COMPLETE).waitFor();
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
