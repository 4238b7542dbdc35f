/** The explorer's request editor, addresses and appearance. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { KNOWN_OPERATIONS } from "../../console/explorer/described.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import type { Looks } from "./browser.ts";
import {
  bodyEditor,
  bodyText,
  EXPLORER_MODELS,
  type ExplorerUnderTest,
  type OpenArguments,
  openExplorer,
  setBody,
  setBodyText,
  startExplorer,
} from "./explorer-page.ts";

const NARROW = 360;

let explorer: ExplorerUnderTest;
beforeAll(async () => {
  explorer = await startExplorer({ models: EXPLORER_MODELS });
});
afterEach(() => explorer.closePages());
afterAll(() => explorer.stop());

const openWithKey = (...how: OpenArguments) => openExplorer(explorer, ...how);

/** The editor ignores keys for a moment after its list has opened, so that no choice is made unseen. */
function waitUntilAccepted(): Promise<void> {
  return Bun.sleep(150);
}

describe("the request body", () => {
  test("is the same as a form and as JSON, and suggests the models of the key", async () => {
    const page = await openWithKey("#createChatCompletion");
    await page.getByText("Form", { exact: true }).click();
    const model = page.getByLabel("model", { exact: true });
    expect((await model.locator("option").allInnerTexts()).toSorted()).toEqual(
      Object.keys(EXPLORER_MODELS).toSorted(),
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
