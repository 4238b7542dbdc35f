/** The explorer: runs of all kinds, and a check that the typed key is stored nowhere. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { TEST_KEY } from "../support/running-gateway.ts";
import {
  bodyEditor,
  bodyText,
  EXPLORER_MODELS,
  type ExplorerUnderTest,
  fact,
  facts,
  type OpenArguments,
  openExplorer,
  run,
  setBody,
  startExplorer,
  startRun,
} from "./explorer-page.ts";

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

let explorer: ExplorerUnderTest;
beforeAll(async () => {
  explorer = await startExplorer({ models: EXPLORER_MODELS });
});
afterEach(() => explorer.closePages());
afterAll(() => explorer.stop());

const openWithKey = (...how: OpenArguments) => openExplorer(explorer, ...how);

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
