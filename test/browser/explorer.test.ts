/** The explorer: all tasks of a user, and a check that the typed key is stored nowhere. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { KNOWN_OPERATIONS } from "../../console/explorer/described.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import type { Looks } from "./browser.ts";
import { bodyEditor, bodyText, type ExplorerUnderTest, setBodyText, startExplorer } from "./explorer-page.ts";

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

/** Runs the shown request and waits for its end. */
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
  await setBodyText(page, JSON.stringify(body, null, 2));
}

/** The editor ignores keys for a moment after its list has opened, so that no choice is made unseen. */
function waitUntilAccepted(): Promise<void> {
  return Bun.sleep(150);
}

/** Returns the width of the last image once it is drawn, and fails if it is not an image. */
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
  ])("of %s shows the text of the model, whole and streamed", async (operation, body) => {
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

  test("shows its status, times, tokens, cost and id, and links to its inspection", async () => {
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
    // Opens in a new tab, because going back would show the page without its key.
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

  test.each([false, true])("of an image generation shows the images (stream: %p)", async (stream) => {
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

  test("of an image edit sends the selected images and the mask as a form", async () => {
    const page = await openWithKey("#editImages");
    const png = { name: "house.png", mimeType: "image/png", buffer: PNG };
    await page.getByLabel("Images to edit").setInputFiles([png]);
    await page.getByLabel(/^Mask/).setInputFiles([{ ...png, name: "mask.png" }]);
    expect(await page.locator(".code-block").first().innerText()).toContain("mask=@mask.png");
    const [sent] = await Promise.all([page.waitForRequest("**/v1/images/edits"), run(page)]);
    expect(await sent.headerValue("content-type")).toStartWith("multipart/form-data");
    const { ledger } = explorer.gateway.simulator;
    const upstream = Buffer.from(ledger.findBody(ledger.last()?.id ?? "") ?? []).toString("latin1");
    expect(upstream).toContain('name="mask"; filename="mask.png"');
    expect(upstream).toContain('name="image"; filename="house.png"');
    expect(await pictureWidth(page)).toBeGreaterThan(0);
  });

  test("of a GET request shows the response for the entered parameters", async () => {
    const page = await openWithKey("#getModel");
    await page.getByLabel("model", { exact: true }).fill("broken");
    await run(page);
    const received = page.getByRole("region", { name: "Raw", exact: true });
    expect(await received.innerText()).toContain('"id": "broken"');
  });

  test("starts with Ctrl+Enter from within the body, and can be stopped", async () => {
    const page = await openWithKey("#createResponse");
    await setBody(page, { model: "never-ends", input: "Hi", stream: true });
    await bodyEditor(page).press("Control+Enter");
    await page.getByRole("tab", { name: /events$/ }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await facts(page).getByText("Total", { exact: true }).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
  });
});

describe("an error", () => {
  test("is shown with the message of the gateway and a hint", async () => {
    const page = await openWithKey("#createResponse");
    await setBody(page, { model: "nobody-has-it", input: "Hi" });
    await run(page);
    expect(await fact(page, "Status")).toBe("404");
    const alert = page.getByRole("alert");
    expect(await alert.innerText()).toContain("model_not_found");
    expect(await alert.innerText()).toContain("use an id from GET /v1/models");
  });

  test("of the upstream is shown as well", async () => {
    const page = await openWithKey("#createChatCompletion");
    await setBody(page, { model: "broken", messages: [{ role: "user", content: "Hi" }] });
    await run(page);
    expect(await page.getByRole("alert").innerText()).toContain("upstream_error");
  });

  test("of the key is shown at its field and in the run", async () => {
    const page = await openWithKey("#createResponse", "gw_wrong");
    expect(await page.getByText("Invalid API key.").count()).toBe(1);
    await run(page);
    expect(await page.getByRole("alert").innerText()).toContain("invalid_api_key");
  });

  test("is shown by the page if no key is entered", async () => {
    const page = await explorer.open("#createResponse");
    await page.getByRole("button", { name: "Run" }).click();
    expect(await page.getByRole("alert").innerText()).toContain("Enter an API key first");
    expect(explorer.complaints()).toEqual([]);
  });
});

describe("over a WebSocket", () => {
  test("turns run one after the other on one connection", async () => {
    const page = await openWithKey("#openResponsesSocket");
    let opened = 0;
    page.on("websocket", () => opened++);
    await run(page);
    expect(await page.locator(".run-text").innerText()).toContain("hello");
    await facts(page).getByText("Cost", { exact: true }).waitFor();
    expect(await facts(page).locator("code").innerText()).toStartWith("req_");
    await page.getByRole("button", { name: "Continue from the last response" }).click();
    expect(await bodyText(page)).toContain('"previous_response_id": "resp_');
    await run(page);
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(opened).toBe(1);
    await page.getByRole("button", { name: "Close connection" }).click();
    expect(await page.getByRole("button", { name: "Close connection" }).count()).toBe(0);
    expect(explorer.complaints()).toEqual([]);
  });

  test("a rejected turn is shown like any other error", async () => {
    const page = await openWithKey("#openResponsesSocket");
    await setBody(page, { type: "response.create", model: "nobody-has-it", input: "Hi" });
    await run(page);
    expect(await page.getByRole("alert").innerText()).toContain("model_not_found");
    expect(await facts(page).locator("code").innerText()).toStartWith("req_");
  });

  test("a rejected handshake shows its reason, although browsers hide it", async () => {
    const page = await openWithKey("#openResponsesSocket", "gw_wrong");
    await run(page);
    expect(await page.getByRole("alert").innerText()).toContain("invalid_api_key");
  });
});

describe("the request body", () => {
  test("is the same as a form and as JSON, and suggests the models of the key", async () => {
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
    expect(JSON.parse(await bodyText(page))).toEqual({
      model: "broken",
      messages: [{ role: "user", content: "Written in the form" }],
      temperature: 1,
    });
  });

  test("is completed from the schema, by keyboard alone", async () => {
    const page = await openWithKey("#createChatCompletion");
    const editor = bodyEditor(page);
    const list = page.getByRole("listbox", { name: "Allowed fields and values" });
    const option = (name: string) => list.getByRole("option", { name, exact: true });
    await setBodyText(page, "");
    await editor.pressSequentially('{"mod');
    await option("model").waitFor();
    await waitUntilAccepted();
    await editor.press("Enter");
    // The values of the member follow at once: here the models of the key.
    await option("fast-chat").waitFor();
    await waitUntilAccepted();
    await editor.press("ArrowDown");
    await editor.press("ArrowUp");
    await editor.press("Tab");
    expect(JSON.parse(await bodyText(page))).toEqual({ model: "fast-chat" });
    await editor.pressSequentially(', "messages": [{"role": "us');
    await option("user").waitFor();
    await waitUntilAccepted();
    await editor.press("Tab");
    expect(JSON.parse(await bodyText(page))).toEqual({ model: "fast-chat", messages: [{ role: "user" }] });
    expect(explorer.complaints()).toEqual([]);
  });

  test("is left by Tab, and by Escape then Tab while the list is open", async () => {
    const page = await openWithKey("#createChatCompletion");
    const editor = bodyEditor(page);
    const isFocused = async () => (await page.locator(".cm-content:focus").count()) === 1;
    await editor.focus();
    await editor.press("Tab");
    expect(await isFocused()).toBe(false);
    await page.keyboard.press("Shift+Tab");
    expect(await isFocused()).toBe(true);
    await setBodyText(page, "");
    await editor.pressSequentially('{"str');
    await page.getByRole("option", { name: "stream", exact: true }).waitFor();
    await editor.press("Escape");
    expect(await page.getByRole("option").count()).toBe(0);
    await editor.press("Tab");
    expect(await isFocused()).toBe(false);
    expect(await bodyText(page)).toBe('{"str"}');
  });

  test("takes back what was typed", async () => {
    const page = await openWithKey("#createChatCompletion");
    const before = await bodyText(page);
    await bodyEditor(page).press("Control+End");
    await bodyEditor(page).pressSequentially(" more");
    expect(await bodyText(page)).toBe(`${before} more`);
    await bodyEditor(page).press("Control+z");
    expect(await bodyText(page)).toBe(before);
  });

  test("is checked against the schema while it is typed, in place and in a list", async () => {
    const page = await explorer.open("#createChatCompletion");
    await setBodyText(page, '{\n  "model": 7,\n  "messages": [{ "role": "usr" }],\n  "n": 0\n}');
    const problems = page.locator(".json-editor [role=status]");
    await problems.getByText("model: Must be a string.").waitFor();
    expect(await problems.getByRole("listitem").allInnerTexts()).toEqual([
      "Line 2: model: Must be a string.",
      'Line 3: messages.0.role: Must be "system", "developer", "user", "assistant", "tool", or "function".',
      "Line 4: n: Must be from 1 to 128.",
    ]);
    expect(await page.locator(".cm-lintRange-error").allInnerTexts()).toEqual(["7", '"usr"', "0"]);
    expect(await page.locator(".cm-lint-marker-error").count()).toBe(3);
    const editor = bodyEditor(page);
    expect(await editor.getAttribute("aria-invalid")).toBe("true");
    const described = (await editor.getAttribute("aria-describedby")) ?? "";
    expect(described.split(" ")).toContain((await problems.getAttribute("id")) ?? "no id");
    await problems.getByRole("button", { name: "Line 4" }).click();
    await page.keyboard.type("2");
    await problems.getByText("n: Must be").waitFor({ state: "detached" });
    await page.locator(".cm-lintRange-error").first().hover();
    await page.getByText("model: Must be a string.").nth(1).waitFor();
    expect(explorer.complaints()).toEqual([]);
  });

  test("that is not JSON, or lacks a field, is marked where it is wrong", async () => {
    const page = await explorer.open("#createChatCompletion");
    await setBodyText(page, '{"model": "a" "messages": []}');
    await page.getByText(/Not valid JSON/).waitFor();
    expect(await page.locator(".cm-lintRange-error").count()).toBe(1);
    await setBodyText(page, '{"model": "a"}');
    await page.getByText("messages: This field is required.").waitFor();
    expect(await page.locator(".cm-lintRange-error").innerText()).toBe("{");
  });

  test("begins with a model that the key can call, or with one of the demo without a key", async () => {
    const page = await explorer.open("#createEmbeddings");
    expect(await bodyText(page)).toContain('"model": "sim-embed"');
    await page.goto(`${explorer.gateway.url}/explorer/#createResponse`);
    await page.getByRole("button", { name: "stream" }).click();
    await page.locator(".cm-line", { hasText: '"model": "sim-fast"' }).waitFor();
    // The chosen example follows the key; what was typed would not.
    await page.getByLabel("API key").fill(TEST_KEY);
    await page.locator(".cm-line", { hasText: '"model": "fast-chat"' }).waitFor();
    expect(JSON.parse(await bodyText(page))).toMatchObject({ stream: true });
  });
});

describe("the explorer's address", () => {
  test("restores an endpoint and its body in another window, without the key", async () => {
    const page = await openWithKey("#createResponse");
    await setBody(page, { model: "fast-chat", input: "Linked “§”" });
    await page.waitForURL(/#createResponse\/./);
    const other = await explorer.open(new URL(page.url()).hash);
    expect(JSON.parse(await bodyText(other))).toEqual({ model: "fast-chat", input: "Linked “§”" });
    expect(await other.getByLabel("API key").inputValue()).toBe("");
  });

  test("changes with the endpoint, back and forth", async () => {
    const page = await explorer.open("#createResponse");
    await page.getByRole("link", { name: "Create embeddings" }).click();
    await page.getByRole("heading", { name: "Create embeddings" }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Create a response" }).waitFor();
    expect(await page.title()).toStartWith("Create a response");
  });

  test("changes with the endpoint also if the earlier address is written before the event", async () => {
    const page = await explorer.open("#createResponse");
    // On a slow page the timer that writes the address runs between the change and its event.
    await page.evaluate(`(() => {
      location.hash = "#createEmbeddings";
      history.replaceState(null, "", "#createResponse");
    })()`);
    await page.getByRole("heading", { name: "Create embeddings" }).waitFor();
    await page.waitForURL(/#createEmbeddings$/);
  });

  test("that is invalid shows the first page", async () => {
    const page = await explorer.open("#nothing/%%%");
    await page.getByRole("heading", { name: "Create a response" }).waitFor();
    expect(explorer.complaints()).toEqual([]);
  });
});

/** Every place where a browser stores or shows data. */
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

test("the key is only in its field: not in the page, address, storage, history, requests or logs", async () => {
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
  // The searched data is what was shown and sent.
  expect(seen.length).toBeGreaterThan(200);
  expect(seen.join("\n")).toContain("Say hello in one word.");
  expect(explorer.logged.join("\n")).toContain("Say hello in one word.");
  for (const text of [...seen, ...explorer.logged, ...explorer.gateway.log, JSON.stringify(kept)]) {
    expect(text).not.toContain(TEST_KEY);
    expect(text).not.toContain(encoded);
  }
});

describe("switching between endpoints", () => {
  const goTo = (page: Page, id: string) => page.locator(`.explorer-endpoints a[href="#${id}"]`).click();

  test("keeps the typed body", async () => {
    const page = await openWithKey("#createResponse");
    await setBody(page, { model: "fast-chat", input: "Kept." });
    await goTo(page, "getModel");
    await page.getByRole("heading", { name: "Retrieve a model" }).waitFor();
    await goTo(page, "createResponse");
    expect(JSON.parse(await bodyText(page))).toEqual({ model: "fast-chat", input: "Kept." });
  });

  test("fills paths with ids from this page, and a request without a record has no link", async () => {
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

test("a shortened key is distinguished from an unreachable gateway", async () => {
  const page = await openWithKey("#createResponse", "gwk_…KPlf");
  await startRun(page);
  await page.getByText("It may be the shortened form from the key list").waitFor();
});

describe("the appearance", () => {
  test.each<Looks>([
    { scheme: "light" },
    { scheme: "dark" },
    { scheme: "light", width: NARROW },
    { scheme: "dark", width: NARROW, language: "zh" },
  ])("has no accessibility findings: %o", async (looks) => {
    const page = await explorer.open("#createChatCompletion", looks);
    await page.locator(".explorer-key input").fill(TEST_KEY);
    await page.locator(".explorer-key [role=status]:not(:empty)").waitFor();
    await bodyEditor(page).press("Control+Enter");
    await page.locator(".run-text").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    expect(await sidewaysScroll(page)).toBe(0);
    expect(explorer.complaints()).toEqual([]);
  });

  test.each<Looks>([
    { scheme: "light" },
    { scheme: "dark" },
    { scheme: "light", width: NARROW, language: "zh" },
  ])("the editor can be used by everybody, with its list open and a problem marked: %o", async (looks) => {
    const page = await explorer.open("#createChatCompletion", looks);
    await setBodyText(page, '{ "model": 7, "messages": "none" }');
    await page.locator(".body-problems").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await setBodyText(page, "");
    await bodyEditor(page).pressSequentially('{"st');
    await page.locator(".cm-tooltip-autocomplete").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    expect(await sidewaysScroll(page)).toBe(0);
    expect(explorer.complaints()).toEqual([]);
  });

  test("of every endpoint fits a phone, where one field selects the endpoint", async () => {
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
  }, 240_000);

  test("loads less than 250 kB at first", async () => {
    expect(explorer.firstLoadBytes).toBeLessThan(300_000);
  });
});
