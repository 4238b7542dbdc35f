/** An administrator edits accounts, models, groups and the configuration file in a real browser. */

import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readPolicy } from "../../src/store/policy/policy.ts";
import { eventually } from "../support/eventually.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Page, PHONE_WIDTH, startConsole } from "./browser.ts";
import { HOSTILE_TEXTS, hostileTraces } from "./hostile-texts.ts";

// The console is built and a browser starts first.
setDefaultTimeout(90_000);

let console: ConsoleUnderTest;

beforeAll(async () => {
  console = await startConsole();
});

afterAll(() => console.stop());

afterEach(async () => {
  expect(console.complaints()).toEqual([]);
  await console.closePages();
});

const open = (path: string, looks = {}) => console.openAs("ops@example.com", "admin", path, looks);

async function chat(model: string): Promise<number> {
  const response = await console.gateway.call("/v1/chat/completions", {
    model,
    messages: [{ role: "user", content: "hi" }],
  });
  await response.text();
  return response.status;
}

async function addSimulator(page: Page, name: string, priority: string): Promise<void> {
  await console.goTo(page, "/admin/accounts");
  await page.getByRole("button", { name: "Add account" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill(name);
  await dialog.getByLabel("Type").selectOption("simulator");
  await dialog.getByRole("button", { name: "Test connection" }).click();
  await dialog.getByText("The simulator is built in and always available.").waitFor();
  await dialog.getByLabel("Priority").fill(priority);
  await dialog.getByRole("button", { name: "Add account" }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

test("accounts are added, a model is published and mapped, and one account fails over to the other", async () => {
  const page = await open("/admin/accounts");
  await addSimulator(page, "first", "1");
  await addSimulator(page, "second", "2");

  await console.goTo(page, "/admin/models");
  await page.getByRole("button", { name: "Create model" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Name", { exact: true }).fill("shared");
  await form.getByRole("group", { name: "Publish in" }).getByLabel("default").check();
  await form.getByRole("button", { name: "Create" }).click();
  await page.getByText("shared created.").waitFor();

  await page.getByLabel("Select shared").check();
  await page.getByRole("button", { name: "Map to accounts" }).click();
  const mapping = page.getByRole("dialog");
  await mapping.getByLabel("Upstream name of shared at first").fill("fault/500");
  await mapping.getByLabel("Upstream name of shared at second").fill("sim-fast");
  await mapping.getByRole("button", { name: "Save" }).click();
  await page.getByText("Accounts updated.").waitFor();

  await console.goTo(page, "/admin/groups/default");
  const preview = page.getByRole("complementary", { name: "Preview" });
  await preview.getByText("Unavailable to keys").waitFor();
  expect(await chat("shared")).toBe(404);
  await page.getByRole("button", { name: "Add accounts" }).click();
  const pool = page.getByRole("dialog");
  await pool.getByLabel("first").check();
  await pool.getByLabel("second").check();
  await pool.getByRole("button", { name: "Add", exact: true }).click();
  await preview.getByText("Served by first and second").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Group saved. The change is active.").waitFor();

  expect(await chat("shared")).toBe(200);
  expect(await chat("shared")).toBe(200);
  await console.goTo(page, "/admin/accounts/first");
  await page.getByRole("cell", { name: "fault/500" }).waitFor();
  await page.getByRole("row", { name: "fault/500" }).getByText("cooling down").waitFor();
  await page.getByRole("button", { name: "Retry now" }).click();
  await page.getByText("first receives requests again.").waitFor();
});

test("a connection test reports a wrong address before the account is saved", async () => {
  const page = await open("/admin/accounts/sim");
  await page.getByRole("button", { name: "Test connection" }).click();
  await page.getByText("Connected. The credential is valid").waitFor();

  await console.goTo(page, "/admin/accounts");
  await page.getByRole("button", { name: "Add account" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Base URL").fill(console.gateway.simulator.url);
  await dialog.getByLabel("Credential", { exact: true }).fill("sk-typed");
  await dialog.getByRole("button", { name: "Test connection" }).click();
  await dialog.getByText("The address is in a private network").waitFor();
  await dialog.getByRole("button", { name: "Add account" }).click();
  // Without a name the form is rejected, and all input is kept.
  await dialog.getByText("must be a name of 1 to 64 characters").waitFor();
  expect(await dialog.getByLabel("Base URL").inputValue()).toBe(console.gateway.simulator.url);
  expect(await dialog.getByLabel("Credential", { exact: true }).inputValue()).toBe("sk-typed");
});

test("an invalid group field is marked with its error, and the input is kept", async () => {
  const page = await open("/admin/groups/default");
  const factor = page.getByLabel("Price multiplier");
  await factor.fill("one and a half");
  await page.getByLabel("Maximum queue time").fill("soon");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText('must be a non-negative decimal number like "0.15"').first().waitFor();
  expect(await factor.getAttribute("aria-invalid")).toBe("true");
  expect(await factor.inputValue()).toBe("one and a half");
  expect(await page.getByLabel("Maximum queue time").getAttribute("aria-invalid")).toBe("true");
  await page.getByRole("button", { name: "Discard" }).click();
  expect(await factor.inputValue()).toBe("1");
});

test("an invalid number is reported and never saved as no limit", async () => {
  const page = await open("/admin/groups/default");
  const rpm = page.getByLabel("Requests per minute").first();
  await rpm.fill("600");
  await rpm.press("End");
  await rpm.pressSequentially("e");
  await page.getByLabel("Maximum queue time").fill("9s");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Enter a number without separators").waitFor();
  expect(await rpm.evaluate((field: { matches(selector: string): boolean }) => field.matches(":focus"))).toBe(
    true,
  );
  await rpm.press("End");
  await rpm.press("Backspace");
  await page.getByText("Enter a number without separators").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Group saved. The change is active.").waitFor();
  const { groups } = await readPolicy(console.gateway.installation.db);
  expect(groups.find(({ name }) => name === "default")?.limits.rpm).toBe(600);
});

test("leaving with unsaved changes requires confirmation, by a link and by going back", async () => {
  const page = await open("/admin/groups");
  await page.getByRole("link", { name: "default" }).click();
  await page.getByLabel("Maximum queue time").fill("7s");
  const asked: string[] = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.message());
    void (asked.length < 3 ? dialog.dismiss() : dialog.accept());
  });
  await page.getByRole("link", { name: "Accounts", exact: true }).click();
  await page.evaluate("history.back()");
  await eventually(() => asked.length, { equals: 2 });
  expect(await page.getByLabel("Maximum queue time").inputValue()).toBe("7s");
  await page.getByRole("link", { name: "Accounts", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Accounts" }).waitFor();
  expect(asked).toEqual(Array(3).fill("Leave this page? You have unsaved changes."));
});

test("a group can be opened by any name", async () => {
  const page = await open("/admin/groups/-/new");
  for (const name of ["a/b?c#d %41", "100%25"]) {
    await console.goTo(page, "/admin/groups/-/new");
    await page.getByLabel("Name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Create group" }).click();
    await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
    await page.reload();
    await page.getByRole("button", { name: "Delete group" }).waitFor();
    await console.goTo(page, `/usage?whose=everybody&group=${encodeURIComponent(name)}`);
    expect(await page.locator("label.filter", { hasText: "Group" }).locator("select").inputValue()).toBe(
      name,
    );
  }
});

test("a concurrent change of another user is not overwritten", async () => {
  const mine = await open("/admin/groups/default");
  const theirs = await open("/admin/groups/default");
  await theirs.getByLabel("Maximum queue length").fill("7");
  await theirs.getByRole("button", { name: "Save" }).click();
  await theirs.getByText("Group saved. The change is active.").waitFor();
  await mine.getByLabel("Maximum queue length").fill("8");
  await mine.getByRole("button", { name: "Save" }).click();
  const rejection = mine
    .getByRole("alert")
    .getByText("This group was changed by another user after you opened it");
  await rejection.waitFor();
  const { y } = (await rejection.boundingBox()) ?? { y: -1 };
  expect(y).toBeWithin(0, mine.viewportSize()?.height ?? 0);
  const { groups } = await readPolicy(console.gateway.installation.db);
  expect(groups.find(({ name }) => name === "default")?.queue.maxWaiting).toBe(7);
});

test("deleting a group lists the keys that stop working and requires the group's name", async () => {
  const page = await open("/admin/groups/-/new");
  await page.getByLabel("Name", { exact: true }).fill("passing");
  await page.getByRole("button", { name: "Create group" }).click();
  await page.getByRole("heading", { level: 1, name: "passing" }).waitFor();
  await page.getByRole("button", { name: "Delete group" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("The group has no keys.").waitFor();
  await dialog.getByText("Not used in the last 24 hours.").waitFor();
  const confirm = dialog.getByRole("button", { name: "Delete group" });
  expect(await confirm.getAttribute("aria-disabled")).toBe("true");
  await dialog.getByLabel("Type passing to confirm").fill("passing");
  await confirm.click();
  await page.getByText("Group passing deleted.").waitFor();
});

describe("importing a configuration", () => {
  test("shows the difference and applies only that difference", async () => {
    const page = await open("/admin/config");
    const text = page.getByLabel("gateway.yaml", { exact: true });
    await text.fill("groups:\n  - name: imported\n    models: [fast-chat]\n    accounts: [sim]\n");
    await page.getByRole("button", { name: "Show diff" }).click();
    await page.getByText("1 to create, 0 to update, 0 to delete").waitFor();
    const names = async () =>
      (await readPolicy(console.gateway.installation.db)).groups.map(({ name }) => name);
    expect(await names()).not.toContain("imported");
    await text.press("End");
    await text.pressSequentially(" ");
    await page.getByText("The text has changed.").waitFor();
    await page.getByRole("button", { name: "Show diff" }).click();
    await page.getByRole("button", { name: "Apply 1 change" }).click();
    await page.getByText("1 change applied.").waitFor();
    expect(await names()).toContain("imported");
  });

  test("reports the line of a problem and jumps to it", async () => {
    const page = await open("/admin/config");
    const text = page.getByLabel("gateway.yaml", { exact: true });
    await text.fill("models:\n  - id: x\n    interfaces: [telepathy]\n");
    await page.getByRole("button", { name: "Show diff" }).click();
    await page.getByRole("button", { name: "Line 3, column 18" }).click();
    // The types of the page are not available here, so the script is a string.
    const chosen = "(({ value, selectionStart }) => value.slice(selectionStart))(document.activeElement)";
    expect(await page.evaluate(chosen)).toStartWith("telepathy]");
  });
});

test("hostile names are shown as text", async () => {
  const [hostile] = HOSTILE_TEXTS;
  const name = hostile.slice(0, 64).trim();
  const model = hostile.replaceAll(/\s/g, "-");
  const page = await open("/admin/groups/-/new");
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByRole("button", { name: "Create group" }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  expect(await hostileTraces(page)).toEqual([]);
  await addSimulator(page, name, "1");
  expect(await hostileTraces(page)).toEqual([]);
  await console.goTo(page, "/admin/models");
  await page.getByRole("button", { name: "Create model" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill(model);
  await dialog.getByRole("group", { name: "Publish in" }).getByLabel(name).check();
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByText(`${model} created.`).waitFor();
  for (const path of ["/admin/models", "/admin/groups", "/admin/accounts", "/admin/config"]) {
    await console.goTo(page, path);
    if (path === "/admin/config") {
      await page
        .getByLabel("gateway.yaml", { exact: true })
        .fill(`groups: [{ name: ${JSON.stringify(name)} }]`);
      await page.getByRole("button", { name: "Show diff" }).click();
    }
    await page.getByText(name.slice(0, 20)).first().waitFor();
    expect(await hostileTraces(page)).toEqual([]);
  }
});

test("every page has no serious accessibility findings and fits a phone", async () => {
  const paths = [
    "/admin/groups",
    "/admin/groups/default",
    "/admin/groups/-/new",
    "/admin/accounts",
    "/admin/accounts/sim",
    "/admin/models",
    "/admin/config",
  ];
  const page = await open("/admin/groups", { width: PHONE_WIDTH });
  for (const path of paths) {
    await console.goTo(page, path);
    await page.locator("[aria-busy=true]").waitFor({ state: "detached" });
    expect(await axeFindings(page)).toEqual([]);
    expect(await sidewaysScroll(page)).toBe(0);
  }
  // The preview of a key scrolls separately if the window is wide and low.
  await page.setViewportSize({ width: 1360, height: 300 });
  await console.goTo(page, "/admin/groups/default");
  await page.locator("[aria-busy=true]").waitFor({ state: "detached" });
  expect(await axeFindings(page)).toEqual([]);
});
