/** Service accounts and the auditor in a real browser. */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { PAYER, paidFile } from "../support/paid-gateway.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, PHONE_WIDTH, startConsole } from "./browser.ts";

// The console is built and a browser starts first.
setDefaultTimeout(90_000);

let console: ConsoleUnderTest;
beforeAll(async () => {
  console = await startConsole({ file: paidFile({ balance: "10" }) });
});
afterAll(() => console.stop());
afterEach(async () => {
  expect(console.complaints()).toEqual([]);
  await console.closePages();
});

test("a service account is created, its token is shown once and works, and it is deleted", async () => {
  const page = await console.openAs("root@example.com", "admin", "/admin/service-accounts");
  await page.getByRole("button", { name: "Create service account" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("billing");
  await dialog.getByLabel("wallet.top_up").check();
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("must be").first().waitFor();
  await dialog.getByLabel("Top-up per call, at most (USD)").fill("5");
  await dialog.getByLabel("Top-ups per day (UTC), at most (USD)").fill("50");
  expect(await axeFindings(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByRole("button", { name: "Create token" }).click();
  await dialog.getByText("shown only once").waitFor();
  const secret = ((await dialog.locator("pre").textContent()) ?? "").trim();
  const response = await fetch(`${console.gateway.url}/api/admin/users/${encodeURIComponent(PAYER)}/top-up`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${secret}`,
      "content-type": "application/json",
      "idempotency-key": "1",
    },
    body: JSON.stringify({ amount: "2.00", provider: "stripe", reason: "test" }),
  });
  expect(response.status).toBe(200);
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.reload();
  await page.getByText("$2.00").waitFor();
  expect(await page.content()).not.toContain(secret);
  await page.getByRole("button", { name: "Delete billing" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("No service accounts yet").waitFor();
});

test("an auditor sees users, ledgers, prices and the audit log, and no button that changes them", async () => {
  const page = await console.openAs("auditor@example.com", "auditor", "/admin/users");
  await page.getByRole("link", { name: PAYER }).waitFor();
  const navigation = page.getByRole("navigation");
  expect(await navigation.getByRole("link", { name: "Accounts" }).count()).toBe(0);
  expect(await page.getByRole("button", { name: "Add user" }).count()).toBe(0);
  await page.getByRole("link", { name: PAYER }).click();
  await page.getByRole("table", { name: "Ledger" }).waitFor();
  expect(await page.getByRole("button", { name: "Top up" }).count()).toBe(0);
  await console.goTo(page, "/admin/models");
  await page.getByRole("table").waitFor();
  expect(await page.getByRole("button", { name: /^Edit / }).count()).toBe(0);
  await console.goTo(page, "/admin/audit");
  await page.getByRole("table").waitFor();
  await console.goTo(page, "/usage?whose=everybody");
  await page.getByLabel("User", { exact: false }).first().waitFor();
  await console.goTo(page, "/admin/captures");
  await page.getByRole("heading", { name: "No access" }).waitFor();
});

test("the role of a user is changed in its menu", async () => {
  const page = await console.openAs("root@example.com", "admin", "/admin/users");
  await page.getByRole("link", { name: PAYER }).click();
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("button", { name: "Change role" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Role").selectOption("auditor");
  await dialog.getByText("An auditor reads usage").waitFor();
  await dialog.getByRole("button", { name: "Change role" }).click();
  await page.getByText("Auditor").first().waitFor();
});

test("the page fits a phone, in Chinese too", async () => {
  const looks = { width: PHONE_WIDTH, language: "zh" } as const;
  const page = await console.openAs("root@example.com", "admin", "/admin/service-accounts", looks);
  await page.getByText("还没有服务账号").waitFor();
  expect(await sidewaysScroll(page)).toBe(0);
  expect(await axeFindings(page)).toEqual([]);
});
