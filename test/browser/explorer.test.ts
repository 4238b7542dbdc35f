/** The explorer: everything a person does with it, and that the key they typed is nowhere afterwards. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { KNOWN_OPERATIONS } from "../../console/explorer/described.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import type { Looks } from "./browser.ts";
import { type ExplorerUnderTest, startExplorer } from "./explorer-page.ts";

const MODELS = { "fast-chat": "sim-fast", broken: "fault/500", "never-ends": "fault/stall@chunk6" };
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const NARROW = 360;

let explorer: ExplorerUnderTest;
beforeAll(async () => {
  explorer = await startExplorer({ models: MODELS });
});
afterEach(() => explorer.closePages());
afterAll(() => explorer.stop());

async function openWithKey(fragment = "", key = TEST_KEY, looks: Looks = {}): Promise<Page> {
  const page = await explorer.open(fragment, looks);
  await page.getByLabel("API key").fill(key);
  await page.getByText(/^(?:This key can call \d|Invalid API key)/).waitFor();
  return page;
}

const facts = (page: Page) => page.locator(".run-facts");
const bodyOf = (page: Page) => page.locator(".json-editor textarea");

/** Runs what is shown, and waits for its end. */
async function run(page: Page): Promise<void> {
  await startRun(page);
  await ended(page);
}

async function startRun(page: Page): Promise<void> {
  await page.getByRole("button", { name: /^(?:Run|Send turn)$/ }).click();
}

async function ended(page: Page): Promise<void> {
  await facts(page).getByText("Total", { exact: true }).waitFor();
}

async function fact(page: Page, name: string): Promise<string> {
  const row = facts(page)
    .locator("div")
    .filter({ has: page.getByText(name, { exact: true }) });
  return row.locator("dd").innerText();
}

async function setBody(page: Page, body: object): Promise<void> {
  await bodyOf(page).fill(JSON.stringify(body, null, 2));
}

/** Of the last picture on the page, once it is drawn; fails for what is no picture. */
const PICTURE_WIDTH = `(async () => {
  const picture = [...document.images].at(-1);
  await picture.decode();
  return picture.naturalWidth;
})()`;

async function pictureWidth(page: Page): Promise<number> {
  await page.getByRole("img").last().waitFor();
  return page.evaluate<number>(PICTURE_WIDTH);
}

describe("a run", () => {
  const response = { model: "fast-chat", input: "Say hello." };
  const chat = { model: "fast-chat", messages: [{ role: "user", content: "Say hello." }] };

  test.each([
    ["createResponse", response],
    ["createChatCompletion", chat],
  ])("of %s shows what the model says, in one piece and as it comes", async (operation, body) => {
    const page = await openWithKey(`#${operation}`);
    await setBody(page, body);
    await run(page);
    const whole = await page.locator(".run-text").innerText();
    expect(whole).toContain("Say hello.");
    expect(await page.getByRole("tab", { name: "Raw", exact: true }).count()).toBe(1);
    await setBody(page, { ...body, stream: true });
    await run(page);
    await page.getByRole("tab", { name: /events$/ }).waitFor();
    expect(await page.locator(".run-text").innerText()).toBe(whole);
    await page.getByRole("tab", { name: /events$/ }).click();
    await page.locator(".run-events summary").first().click();
    expect(await page.locator(".run-events pre").innerText()).toContain("fast-chat");
    expect(explorer.complaints()).toEqual([]);
  });

  test("tells its status, times, tokens, cost and id, and leads to its inspection", async () => {
    const page = await openWithKey("#createResponse");
    await setBody(page, { ...response, stream: true });
    await run(page);
    await facts(page).getByText("Cost", { exact: true }).waitFor();
    expect(await fact(page, "Status")).toBe("200");
    expect(await fact(page, "Queued")).toMatch(/^\d+ ms$/);
    expect(await fact(page, "First token")).toMatch(/^[\d,]+ ms$/);
    expect(await fact(page, "Total")).toMatch(/^[\d,]+ ms$/);
    expect(await fact(page, "Tokens")).toMatch(/^[1-9]\d* in, [1-9]\d* out$/);
    expect(await fact(page, "Cost")).toBe("$0.00");
    const id = await facts(page).locator("code").innerText();
    const inspect = facts(page).getByRole("link");
    expect(await inspect.getAttribute("href")).toBe(`/console/requests/${id}`);
    // In a tab of its own: going back would find a page without its key.
    expect(await inspect.getAttribute("target")).toBe("_blank");
    const rows = await explorer.gateway.usageRows();
    expect(rows.map((row) => row.request_id)).toContain(id);
  });

  test("of embeddings draws each vector", async () => {
    const page = await openWithKey("#createEmbeddings");
    await setBody(page, { model: "fast-chat", input: ["one", "two"], encoding_format: "base64" });
    await run(page);
    expect(await page.getByRole("img", { name: "1536 dimensions" }).count()).toBe(2);
    expect(await page.locator(".vector rect").count()).toBeGreaterThan(100);
  });

  test.each([false, true])("of pictures shows them (stream: %p)", async (stream) => {
    const page = await openWithKey("#generateImages");
    await setBody(page, {
      model: "fast-chat",
      prompt: "A lighthouse",
      stream,
      partial_images: stream ? 1 : 0,
    });
    await run(page);
    expect(await pictureWidth(page)).toBeGreaterThan(0);
    expect(explorer.complaints()).toEqual([]);
  });

  test("of an edit sends the pictures and the mask that were chosen as a form", async () => {
    const page = await openWithKey("#editImages");
    const png = { name: "house.png", mimeType: "image/png", buffer: PNG };
    await page.getByLabel("Images to edit").setInputFiles([png]);
    await page.getByLabel(/^Mask/).setInputFiles([{ ...png, name: "mask.png" }]);
    expect(await page.locator(".code-block").first().innerText()).toContain("mask=@mask.png");
    const [sent] = await Promise.all([page.waitForRequest("**/v1/images/edits"), run(page)]);
    expect(await sent.headerValue("content-type")).toStartWith("multipart/form-data");
    const { ledger } = explorer.gateway.simulator;
    const upstream = Buffer.from(ledger.bodyOf(ledger.last()?.id ?? "") ?? []).toString("latin1");
    expect(upstream).toContain('name="mask"; filename="mask.png"');
    expect(upstream).toContain('name="image"; filename="house.png"');
    expect(await pictureWidth(page)).toBeGreaterThan(0);
  });

  test("of a question shows the answer, with the parameters that were filled in", async () => {
    const page = await openWithKey("#getModel");
    await page.getByLabel("model", { exact: true }).fill("broken");
    await run(page);
    const answer = page.getByRole("region", { name: "Raw", exact: true });
    expect(await answer.innerText()).toContain('"id": "broken"');
  });

  test("starts by Ctrl+Enter from the middle of the body, and can be stopped", async () => {
    const page = await openWithKey("#createResponse");
    await setBody(page, { model: "never-ends", input: "Hi", stream: true });
    await bodyOf(page).press("Control+Enter");
    await page.getByRole("tab", { name: /events$/ }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await facts(page).getByText("Total", { exact: true }).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
  });
});

describe("a refusal", () => {
  test("is told in the gateway's words, with what to do about it", async () => {
    const page = await openWithKey("#createResponse");
    await setBody(page, { model: "nobody-has-it", input: "Hi" });
    await run(page);
    expect(await fact(page, "Status")).toBe("404");
    const alert = page.getByRole("alert");
    expect(await alert.innerText()).toContain("model_not_found");
    expect(await alert.innerText()).toContain("use an id from GET /v1/models");
  });

  test("in the middle of everything else is one as well", async () => {
    const page = await openWithKey("#createChatCompletion");
    await setBody(page, { model: "broken", messages: [{ role: "user", content: "Hi" }] });
    await run(page);
    expect(await page.getByRole("alert").innerText()).toContain("upstream_error");
  });

  test("of the key is told where it is typed, and where it is used", async () => {
    const page = await openWithKey("#createResponse", "gw_wrong");
    expect(await page.getByText("Invalid API key.").count()).toBe(1);
    await run(page);
    expect(await page.getByRole("alert").innerText()).toContain("invalid_api_key");
  });

  test("comes from the page where there is no key", async () => {
    const page = await explorer.open("#createResponse");
    await page.getByRole("button", { name: "Run" }).click();
    expect(await page.getByRole("alert").innerText()).toContain("Enter an API key first");
    expect(explorer.complaints()).toEqual([]);
  });
});

describe("over a WebSocket", () => {
  test("turns follow each other on one connection", async () => {
    const page = await openWithKey("#openResponsesSocket");
    let opened = 0;
    page.on("websocket", () => opened++);
    await run(page);
    expect(await page.locator(".run-text").innerText()).toContain("hello");
    await facts(page).getByText("Cost", { exact: true }).waitFor();
    expect(await facts(page).locator("code").innerText()).toStartWith("req_");
    await page.getByRole("button", { name: "Continue from the last response" }).click();
    expect(await bodyOf(page).inputValue()).toContain('"previous_response_id": "resp_');
    await run(page);
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(opened).toBe(1);
    await page.getByRole("button", { name: "Close connection" }).click();
    expect(await page.getByRole("button", { name: "Close connection" }).count()).toBe(0);
    expect(explorer.complaints()).toEqual([]);
  });

  test("a turn that is refused is told like any other", async () => {
    const page = await openWithKey("#openResponsesSocket");
    await setBody(page, { type: "response.create", model: "nobody-has-it", input: "Hi" });
    await run(page);
    expect(await page.getByRole("alert").innerText()).toContain("model_not_found");
    expect(await facts(page).locator("code").innerText()).toStartWith("req_");
  });

  test("a connection that is refused says why, though browsers do not tell", async () => {
    const page = await openWithKey("#openResponsesSocket", "gw_wrong");
    await run(page);
    expect(await page.getByRole("alert").innerText()).toContain("invalid_api_key");
  });
});

describe("the body", () => {
  test("is the same as a form and as JSON, and offers the models of the key", async () => {
    const page = await openWithKey("#createChatCompletion");
    await page.getByText("Form", { exact: true }).click();
    const model = page.getByLabel("model", { exact: true });
    expect((await model.locator("option").allInnerTexts()).toSorted()).toEqual(
      Object.keys(MODELS).toSorted(),
    );
    await model.selectOption("broken");
    await page.getByLabel("Message 1: Content").fill("Written in the form");
    await page.getByLabel("Add field").selectOption("temperature");
    await page.getByText("JSON", { exact: true }).first().click();
    expect(JSON.parse(await bodyOf(page).inputValue())).toEqual({
      model: "broken",
      messages: [{ role: "user", content: "Written in the form" }],
      temperature: 1,
    });
  });

  test("is completed from the schema, by keyboard alone", async () => {
    const page = await openWithKey("#createChatCompletion");
    await bodyOf(page).fill("");
    await bodyOf(page).pressSequentially('{"mod');
    await bodyOf(page).press("Tab");
    await bodyOf(page).pressSequentially('"fas');
    await bodyOf(page).press("Tab");
    expect(await bodyOf(page).inputValue()).toBe('{"model": "fast-chat"');
  });

  test("is checked against the schema while it is typed", async () => {
    const page = await explorer.open("#createChatCompletion");
    await setBody(page, { model: 7 });
    const problems = page.getByRole("status").filter({ hasText: "model:" });
    expect(await problems.innerText()).toContain("messages:");
    await bodyOf(page).fill("{");
    await page.getByText(/^Not valid JSON/).waitFor();
  });
});

describe("the address", () => {
  test("brings back an endpoint and its body in another window, without the key", async () => {
    const page = await openWithKey("#createResponse");
    await setBody(page, { model: "fast-chat", input: "Linked “§”" });
    await page.waitForURL(/#createResponse\/./);
    const other = await explorer.open(new URL(page.url()).hash);
    expect(JSON.parse(await bodyOf(other).inputValue())).toEqual({ model: "fast-chat", input: "Linked “§”" });
    expect(await other.getByLabel("API key").inputValue()).toBe("");
  });

  test("follows from endpoint to endpoint, back and forth", async () => {
    const page = await explorer.open("#createResponse");
    await page.getByRole("link", { name: "Create embeddings" }).click();
    await page.getByRole("heading", { name: "Create embeddings" }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Create a response" }).waitFor();
    expect(await page.title()).toStartWith("Create a response");
  });

  test("that is nonsense shows the first page", async () => {
    const page = await explorer.open("#nothing/%%%");
    await page.getByRole("heading", { name: "Create a response" }).waitFor();
    expect(explorer.complaints()).toEqual([]);
  });
});

/** Wherever a browser keeps or shows something. */
const EVERYWHERE = `(async () => {
  const databases = await indexedDB.databases();
  const fields = [...document.querySelectorAll("input, textarea, select")].filter(({ type }) => type !== "password");
  return [
    document.documentElement.outerHTML,
    document.title,
    location.href,
    document.referrer,
    JSON.stringify(history.state),
    ...navigation.entries().map(({ url }) => url),
    ...fields.map(({ value }) => value),
    JSON.stringify({ ...localStorage }),
    JSON.stringify({ ...sessionStorage }),
    document.cookie,
    JSON.stringify(databases),
    JSON.stringify(await caches.keys()),
    window.name,
    ...performance.getEntriesByType("resource").map(({ name }) => name),
  ];
})()`;

test("the key is nowhere but in its field: not in the page, its address, storage, history, requests or logs", async () => {
  const page = await openWithKey("#createResponse");
  const seen: string[] = [];
  const look = async () => seen.push(...(await page.evaluate<string[]>(EVERYWHERE)));
  for (const operation of ["createResponse", "createChatCompletion", "createEmbeddings", "generateImages"]) {
    await page.locator(`.explorer-endpoints a[href="#${operation}"]`).click();
    await run(page);
    for (const tab of await page.getByRole("tab").all()) {
      await tab.click();
      await look();
    }
  }
  await page.locator('.explorer-endpoints a[href="#openResponsesSocket"]').click();
  await run(page);
  await look();
  await page.getByText("Form", { exact: true }).click();
  await look();
  await page.getByRole("button", { name: "Copy link to this request" }).click();
  seen.push(await page.evaluate<string>("navigator.clipboard.readText()"));
  const kept = await page.context().storageState({ indexedDB: true });
  const encoded = Buffer.from(TEST_KEY).toString("base64url");
  // What is looked through is what was shown and sent.
  expect(seen.length).toBeGreaterThan(200);
  expect(seen.join("\n")).toContain("Say hello in one word.");
  expect(explorer.said.join("\n")).toContain("Say hello in one word.");
  for (const text of [...seen, ...explorer.said, ...explorer.gateway.log, JSON.stringify(kept)]) {
    expect(text).not.toContain(TEST_KEY);
    expect(text).not.toContain(encoded);
  }
});

describe("going from one endpoint to another", () => {
  const goTo = (page: Page, id: string) => page.locator(`.explorer-endpoints a[href="#${id}"]`).click();

  test("what was typed is there again", async () => {
    const page = await openWithKey("#createResponse");
    await setBody(page, { model: "fast-chat", input: "Kept." });
    await goTo(page, "getModel");
    await page.getByRole("heading", { name: "Retrieve a model" }).waitFor();
    await goTo(page, "createResponse");
    expect(JSON.parse(await bodyOf(page).inputValue())).toEqual({ model: "fast-chat", input: "Kept." });
  });

  test("paths name what this page has made, and a request without a record leads nowhere", async () => {
    const page = await openWithKey("#createResponse", TEST_KEY);
    await setBody(page, { model: "fast-chat", input: "Say hello." });
    await run(page);
    await facts(page).getByRole("link").waitFor();
    const made = await facts(page).locator("code").innerText();
    await goTo(page, "getRequest");
    expect(await page.getByLabel("request_id").inputValue()).toBe(made);
    await run(page);
    expect(await fact(page, "Status")).toBe("200");
    expect(await facts(page).getByRole("link").count()).toBe(0);
    await goTo(page, "getResponse");
    expect(await page.getByLabel("response_id").inputValue()).toStartWith("resp_");
    expect(await page.getByLabel("response_id").inputValue()).not.toBe("resp_0199f3c5");
  });
});

test("a key in its shortened form is told apart from a gateway that is away", async () => {
  const page = await openWithKey("#createResponse", "gwk_…KPlf");
  await startRun(page);
  await page.getByText("It may be the shortened form from the key list").waitFor();
});

describe("looks", () => {
  test.each<Looks>([
    { scheme: "light" },
    { scheme: "dark" },
    { scheme: "light", width: NARROW },
    { scheme: "dark", width: NARROW, language: "zh" },
  ])("can be used by everybody: %o", async (looks) => {
    const page = await explorer.open("#createChatCompletion", looks);
    await page.locator(".explorer-key input").fill(TEST_KEY);
    await page.locator(".explorer-key [role=status]:not(:empty)").waitFor();
    await bodyOf(page).press("Control+Enter");
    await page.locator(".run-text").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    expect(await sidewaysScroll(page)).toBe(0);
    expect(explorer.complaints()).toEqual([]);
  });

  test("no endpoint is wider than a phone, and each is reached by one field there", async () => {
    const page = await explorer.open("", { width: NARROW });
    for (const operation of KNOWN_OPERATIONS) {
      await page.getByLabel("Endpoint", { exact: true }).selectOption(operation.id);
      await page.getByRole("heading", { name: operation.summary }).waitFor();
      for (const tab of await page.getByRole("tablist", { name: "Schema" }).getByRole("tab").all()) {
        await tab.click();
        expect([operation.id, await sidewaysScroll(page)]).toEqual([operation.id, 0]);
      }
    }
    expect(explorer.complaints()).toEqual([]);
  });

  test("the first load is small", async () => {
    expect(explorer.firstLoadBytes).toBeLessThan(250_000);
  });
});
