/** Request policies in a real browser: an owner chooses one for a new key, and a captured request is tried. */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { signInAs } from "../support/console-client.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, PHONE_WIDTH, startConsole } from "./browser.ts";

// The console is built and a browser starts first.
setDefaultTimeout(90_000);

const ADMIN = "root@example.com";

let console: ConsoleUnderTest;
beforeAll(async () => {
  console = await startConsole({ models: { fast: "sim-fast" } });
  await console.gateway.apply(`request_policies:
  - { name: short, self_service: true, output_tokens: { max: 100 } }
  - { name: enforced, output_tokens: { max: 50 } }`);
});
afterAll(() => console.stop());
afterEach(async () => {
  expect(console.complaints()).toEqual([]);
  await console.closePages();
});

test("an owner creates a key with a policy that is offered, and sees no other", async () => {
  const page = await console.openAs("ada@example.com", "user", "/keys");
  await page.getByRole("button", { name: "Create key" }).first().click();
  const dialog = page.getByRole("dialog");
  const policy = dialog.getByLabel("Request policy");
  await policy.waitFor();
  expect(await policy.locator("option").allInnerTexts()).toEqual(["None", "short"]);
  await policy.selectOption("short");
  await dialog.getByLabel("Name").fill("laptop");
  expect(await axeFindings(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Create key" }).click();
  await dialog.getByText("gwk_").first().waitFor();
  const owner = await signInAs(console.gateway, "ada@example.com", "user");
  const { data } = await owner.call("keys.list");
  expect(data).toMatchObject([{ name: "laptop", request_policy: "short" }]);
});

test("a captured request is loaded and tried, which the audit log has", async () => {
  const admin = await signInAs(console.gateway, ADMIN, "admin");
  const { document: group } = await admin.call("admin.groups.get", { params: { name: "default" } });
  await admin.call("admin.groups.save", {
    params: { name: "default" },
    body: { document: { ...group, capture: "all" } },
  });
  const messages = [{ role: "user", content: "Captured text" }];
  await (
    await console.gateway.call("/v1/chat/completions", { model: "fast", max_tokens: 900, messages })
  ).text();
  const page = await console.openAs(ADMIN, "admin", "/admin/policies/enforced", { width: PHONE_WIDTH });
  await page.getByRole("button", { name: "Load the request" }).click();
  await page.getByLabel("Body of the request").filter({ hasText: "Captured text" }).waitFor();
  expect(await page.getByLabel("Interface").inputValue()).toBe("chat");
  await page.getByRole("button", { name: "Try the request" }).click();
  await page.getByText("x-gateway-policy: output_tokens=50").waitFor();
  expect(await axeFindings(page)).toEqual([]);
  expect(await sidewaysScroll(page)).toBe(0);
  const { data } = await admin.call("admin.audit.list", { query: { action: "capture.read" } });
  expect(JSON.stringify(data)).toContain("trial of a request policy");
});
