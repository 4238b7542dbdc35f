/**
 * The first hour in a real browser: from the claim link over a vendor account to an answer in the playground, with every
 * click and input counted; and a tool whose first request is shown.
 */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { startSimulator } from "../../simulator/simulator.ts";
import { VENDOR_PRESETS } from "../../src/accounts/vendors.ts";
import { offerAdminClaim } from "../../src/config/first-run/admin-claim.ts";
import { createDemo } from "../../src/config/first-run/demo.ts";
import { parsePriceList } from "../../src/config/parse/price-list-file.ts";
import { writePriceList } from "../../src/store/policy/price-list.ts";

import { UPSTREAM_CREDENTIAL } from "../support/running-gateway.ts";
import { addVendorAddress, removeVendorAddress, VENDOR_ADDRESS } from "../support/vendor-address.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Page, PHONE_WIDTH, startConsole } from "./browser.ts";

// The console is built and a browser starts first.
setDefaultTimeout(90_000);

const CLICKS_MAX = 12;
const INPUTS_MAX = 3;

const vendorUrl = VENDOR_PRESETS.openai.baseUrl;

let console_: ConsoleUnderTest;
let vendor: ReturnType<typeof startSimulator>;

beforeAll(async () => {
  addVendorAddress();
  vendor = startSimulator({ hostname: VENDOR_ADDRESS, credential: UPSTREAM_CREDENTIAL, tokens: "words" });
  VENDOR_PRESETS.openai.baseUrl = vendor.url;
  console_ = await startConsole({ file: "users: []" });
  const { db } = console_.gateway.installation;
  await createDemo(console_.gateway.installation);
  const prices = "date: 2026-11-01\nmodels: { sim-fast: { price: { input: '1', output: '2' } } }";
  const parsed = parsePriceList(prices, { fileName: "prices" }, null);
  if (parsed.ok) await writePriceList(db, parsed.list);
});
afterAll(async () => {
  VENDOR_PRESETS.openai.baseUrl = vendorUrl;
  await console_.stop();
  await vendor.stop();
  removeVendorAddress();
});
afterEach(async () => {
  expect(console_.complaints()).toEqual([]);
  await console_.closePages();
});

/** Requests that reached a model of the vendor, not its list of models. */
function modelCalls() {
  return vendor.ledger.entries().filter(({ model }) => model !== "");
}

/** Counts what a person does. */
class Person {
  readonly page: Page;
  clicks = 0;
  inputs = 0;

  constructor(page: Page) {
    this.page = page;
  }

  async press(name: string): Promise<void> {
    this.clicks++;
    await this.page.getByRole("button", { name }).first().click();
  }

  async follow(name: string): Promise<void> {
    this.clicks++;
    await this.page.getByRole("link", { name }).first().click();
  }

  async enter(label: string, text: string): Promise<void> {
    this.inputs++;
    await this.page.getByLabel(label, { exact: true }).fill(text);
  }
}

test("from the claim link to an answer of a vendor's model in few clicks and inputs", async () => {
  const link = (await offerAdminClaim(console_.gateway.installation, console_.gateway.url)) ?? "";
  const page = await console_.open(link.slice(`${console_.gateway.url}/console`.length));
  const person = new Person(page);
  await person.enter("E-mail address", "root@example.com");
  await person.enter("Password", "correct horse battery staple");
  await person.press("Create administrator");
  await page.getByRole("heading", { name: "Setup checklist" }).waitFor();
  expect(await page.getByText("Done").count()).toBe(0);
  await person.follow("Add account");
  await person.enter("API key of the vendor", UPSTREAM_CREDENTIAL);
  await person.press("List models");
  await page.getByText("Models with a list price").waitFor();
  expect(await page.getByRole("checkbox", { name: /^sim-fast/ }).isChecked()).toBe(true);
  expect(await page.getByRole("checkbox", { name: /^sim-embed/ }).isChecked()).toBe(false);
  expect(await axeFindings(page)).toEqual([]);
  await person.press("Add account and publish");
  await page.getByText("The account openai was added. The group team publishes 1 model.").waitFor();
  await page.getByRole("button", { name: "Send one request to sim-fast, at most $0.000712" }).waitFor();
  await person.follow("Open the playground");
  await person.press("Create key");
  await person.press("Say hello in one sentence.");
  const reply = page.getByRole("article", { name: "sim-fast" });
  await reply.getByText("built-in simulator").waitFor();
  expect(modelCalls().map(({ model }) => model)).toEqual(["sim-fast"]);
  expect(person.clicks).toBeLessThanOrEqual(CLICKS_MAX);
  expect(person.inputs).toBeLessThanOrEqual(INPUTS_MAX);
  await console_.goTo(page, "/admin");
  const done = page.locator(".setup-steps .done");
  await done.nth(4).waitFor();
  expect(await done.allInnerTexts()).not.toContain("Invite a person");
});

test("the real call is a button of its own", async () => {
  const page = await console_.openAs("root@example.com", "admin", "/admin/setup");
  const person = new Person(page);
  const before = modelCalls().length;
  await person.enter("API key of the vendor", UPSTREAM_CREDENTIAL);
  await person.press("List models");
  await person.press("Add account and publish");
  await page.getByRole("button", { name: /^Send one request to sim-fast/ }).waitFor();
  // Listing models calls none.
  expect(modelCalls().length).toBe(before);
  await person.press("Send one request to sim-fast");
  await page.getByText(/built-in simulator/).waitFor();
  expect(modelCalls().length).toBe(before + 1);
  expect(modelCalls().at(-1)?.outputTokens).toBeLessThanOrEqual(256);
  await page.locator(".setup-steps .done", { hasText: "See the first request" }).waitFor();
  await page.setViewportSize({ width: PHONE_WIDTH, height: 800 });
  expect(await sidewaysScroll(page)).toBe(0);
  await page.setViewportSize({ width: 1360, height: 900 });
  await page.locator("section").getByRole("link", { name: "Connect a tool" }).click();
  await page.getByRole("button", { name: "Create key" }).waitFor();
  expect(await page.getByLabel("Group", { exact: true }).inputValue()).toBe("team");
});

test("a wrong credential is named, and creates nothing", async () => {
  const page = await console_.openAs("root@example.com", "admin", "/admin/setup");
  const person = new Person(page);
  await person.enter("API key of the vendor", "wrong");
  await person.press("List models");
  await page.getByText(/rejected the credential/).waitFor();
});

test("the checklist is closed, and comes back from Help", async () => {
  const page = await console_.openAs("root@example.com", "admin", "/admin");
  const person = new Person(page);
  await person.press("Close the checklist. Help shows it again.");
  await console_.goTo(page, "/admin");
  await page.getByRole("heading", { level: 1 }).waitFor();
  expect(await page.getByRole("heading", { name: "Setup checklist" }).count()).toBe(0);
  await person.press("Show keyboard shortcuts");
  await person.follow("Show the setup checklist");
  await page.getByRole("heading", { name: "Setup checklist" }).waitFor();
  await console_.goTo(page, "/admin");
  await page.getByRole("heading", { name: "Setup checklist" }).waitFor();
});

test("a tool is connected with a new key, and its first request is shown", async () => {
  const page = await console_.openAs("tool@example.com", "user", "/connect");
  const person = new Person(page);
  await person.press("Create key");
  const secret = await page.getByRole("region", { name: "Secret key" }).locator("code").innerText();
  await page.getByText("Waiting for the first request…").waitFor();
  await page.getByRole("tab", { name: "curl" }).click();
  const command = await page.getByRole("region", { name: "curl" }).locator("code").innerText();
  expect(command).not.toContain(secret);
  const env = { PATH: process.env.PATH ?? "", MODEL_GATEWAY_KEY: secret };
  const run = Bun.spawn(["sh", "-c", `${command} --silent`], { env, stdout: "pipe" });
  expect(await new Response(run.stdout).text()).toContain("chat.completion");
  await page.getByText("The first request has arrived.").waitFor();
  await person.follow("Open request");
  await page.getByRole("heading", { level: 1, name: "Request" }).waitFor();
  // Names of keys are unique, so the next key has another one.
  await console_.goTo(page, "/connect");
  await person.press("Create key");
  await page.getByRole("region", { name: "Secret key" }).waitFor();
});
