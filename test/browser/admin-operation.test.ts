/**
 * Tasks of an administrator in a real browser: settings, users, money, redeem codes, plans, alerts and the audit log.
 */

import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { PAYER, paidFile, SIMULATOR } from "../support/paid-gateway.ts";
import { type SmtpServer, startSmtpServer } from "../support/smtp-server.ts";
import { startWebhookListener, type WebhookListener } from "../support/webhook-listener.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Page, PHONE_WIDTH, startConsole } from "./browser.ts";
import { HOSTILE_TEXTS, hostileTraces } from "./hostile-texts.ts";

// The console is built and a browser starts first.
setDefaultTimeout(90_000);

const ADMIN = "root@example.com";
const [HOSTILE] = HOSTILE_TEXTS;

let console: ConsoleUnderTest;
let listener: WebhookListener;
let mailServer: SmtpServer;
beforeAll(async () => {
  listener = startWebhookListener();
  mailServer = await startSmtpServer();
  console = await startConsole({
    tokens: "o200k",
    file: paidFile({
      balance: "10",
      models: { paid: "sim-fast", locked: "fault/401" },
      accounts: [
        {
          name: "sim",
          kind: "openai",
          base_url: SIMULATOR,
          credential: "credential",
          private_network: true,
          models: { paid: "sim-fast" },
        },
        {
          name: "locked out",
          kind: "openai",
          base_url: SIMULATOR,
          credential: "credential",
          private_network: true,
          models: { locked: "fault/401" },
        },
      ],
    }),
  });
});
afterAll(async () => {
  await console.stop();
  await listener.stop();
  await mailServer.stop();
});
afterEach(async () => {
  expect(console.complaints()).toEqual([]);
  await console.closePages();
});

const open = (path: string, looks = {}) => console.openAs(ADMIN, "admin", path, looks);

const chat = async (model: string) => {
  const messages = [{ role: "user", content: "hi" }];
  const response = await console.gateway.call("/v1/chat/completions", { model, messages });
  await response.text();
  return response.status;
};

async function openPayer(page: Page): Promise<void> {
  await console.goTo(page, "/admin/users");
  await page.getByLabel("Search users by address").fill("payer");
  await page.getByRole("link", { name: PAYER }).click();
  await page.getByRole("heading", { level: 1, name: PAYER }).waitFor();
}

/** Every dialog is checked as well, and no hostile text is interpreted as markup. */
async function expectSound(page: Page): Promise<void> {
  expect(await axeFindings(page)).toEqual([]);
  expect(await hostileTraces(page)).toEqual([]);
}

test("registration can be opened and closed in the settings", async () => {
  const visitor = await console.open("/register");
  await visitor.getByText("Registration is closed.").waitFor();
  const page = await open("/admin/settings");
  await page.getByLabel("Registration").selectOption("open");
  await page.getByRole("button", { name: "Save" }).first().click();
  await page.getByText("Saved. The change is active.").first().waitFor();
  await console.goTo(visitor, "/register");
  await visitor.getByLabel("E-mail address").fill("newcomer@example.com");
  await visitor.getByLabel("Password", { exact: true }).fill("a password of some length");
  await visitor.getByRole("button", { name: "Create account" }).click();
  await visitor.getByRole("navigation").first().waitFor();
  await console.goTo(page, "/admin/users");
  await page.getByRole("link", { name: "newcomer@example.com" }).waitFor();
  await console.goTo(page, "/admin/settings");
  await page.getByLabel("Registration").selectOption("closed");
  await page.getByRole("button", { name: "Save" }).first().click();
  await page.getByText("Saved. The change is active.").first().waitFor();
  const late = await console.open("/register");
  await late.getByText("Registration is closed.").waitFor();
});

test("an adjustment of the balance is in the ledger with its reason, and in the audit log", async () => {
  const page = await open("/admin");
  await openPayer(page);
  await page.getByRole("tab", { name: "Billing" }).click();
  await page.getByRole("button", { name: "Adjust balance" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Amount (USD)").fill("lots");
  await dialog.getByLabel("Reason").fill(HOSTILE);
  await dialog.getByRole("button", { name: "Adjust balance" }).click();
  await dialog.getByText('must be an amount in USD like "5.00"').waitFor();
  expect(await dialog.getByLabel("Reason").inputValue()).toBe(HOSTILE);
  await expectSound(page);
  await dialog.getByLabel("Amount (USD)").fill("-2.50");
  await dialog.getByRole("button", { name: "Adjust balance" }).click();
  await page.getByRole("row").filter({ hasText: HOSTILE }).getByText("$2.50").waitFor();
  await page.getByText("$7.50").first().waitFor();
  await expectSound(page);
  await console.goTo(page, "/admin/audit");
  await page.getByLabel("Search by actor").fill("wallet.adjust");
  // The other rows are gone, all but the header: the list is the result of the search.
  await page.getByRole("row").filter({ hasNotText: "wallet.adjust" }).nth(1).waitFor({ state: "detached" });
  const row = page.getByRole("row").filter({ hasText: "wallet.adjust" });
  await row.getByText("fields").click();
  await row.getByText("-$2.50").waitFor();
  await page.getByText("Verified:").waitFor();
  await expectSound(page);
});

test("a user is invited, created, disabled and reset, and errors are shown", async () => {
  const page = await open("/admin/users");
  await page.getByRole("button", { name: "Invite user" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("E-mail address").fill("guest@example.com");
  await dialog.getByRole("button", { name: "Create link" }).click();
  const link = await dialog.locator("code").textContent();
  expect(link).toContain("/console/join#");
  await expectSound(page);
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.getByRole("table", { name: "Active links" }).getByText("guest@example.com").waitFor();

  expect(await chat("no-such-model")).toBe(404);
  await openPayer(page);
  await page.getByRole("tab", { name: "Support view" }).click();
  await page.getByRole("button", { name: "Open support view" }).click();
  await page.getByText("model_not_found").waitFor();
  await page.getByRole("table", { name: "Keys" }).getByText("test").waitFor();
  await expectSound(page);

  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("button", { name: "Disable" }).click();
  await page.getByRole("dialog").getByText("1 key stops working.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click();
  await page.getByText("Disabled").waitFor();
  expect(await chat("paid")).toBe(401);
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("button", { name: "Enable" }).click();
  await page.getByText(`${PAYER} enabled.`).waitFor();
  expect(await chat("paid")).toBe(200);
});

test("redeem codes are shown once and redeemed; a plan is created, granted and cancelled", async () => {
  const page = await open("/admin/plans");
  await page.getByRole("button", { name: "Create plan" }).first().click();
  const plan = page.getByRole("dialog");
  await plan.getByLabel("Name", { exact: true }).fill(HOSTILE);
  await plan.getByLabel("USD per day").fill("5");
  await plan.getByLabel("Time zone").fill("Mars/Base");
  await plan.getByRole("button", { name: "Save" }).click();
  await plan.getByText("the name of a time zone").waitFor();
  await plan.getByLabel("Time zone").fill("UTC");
  await plan.getByRole("button", { name: "Save" }).click();
  await page.getByRole("table", { name: "Plans" }).getByText(HOSTILE).waitFor();
  await page.getByRole("button", { name: "Grant a plan" }).click();
  await page.getByRole("dialog").getByLabel("User e-mail address").fill(PAYER);
  await expectSound(page);
  await page.getByRole("dialog").getByRole("button", { name: "Grant a plan" }).click();
  const subscriptions = page.getByRole("table", { name: "Subscriptions" });
  await subscriptions.getByText("Active").waitFor();
  await subscriptions.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("dialog").locator("button[type=submit]").click();
  await subscriptions.getByText("Cancelled").waitFor();
  await expectSound(page);

  await console.goTo(page, "/admin/codes");
  await page.getByRole("button", { name: "Create codes" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Batch name").fill("spring");
  await dialog.getByLabel("Quantity").fill("2");
  await dialog.getByLabel("Amount per code (USD)").fill("3");
  await dialog.getByRole("button", { name: "Create codes" }).click();
  await dialog.getByText("2 codes created").waitFor();
  const [code = ""] = ((await dialog.locator("pre").textContent()) ?? "").split("\n");
  expect(code).toMatch(/^([0-9A-Z]{4}-){5}[0-9A-Z]{4}$/);
  const download = page.waitForEvent("download");
  await dialog.getByRole("link", { name: "Download CSV" }).click();
  expect((await download).suggestedFilename()).toBe("spring.csv");
  await expectSound(page);
  await dialog.getByRole("button", { name: "I have saved them" }).click();
  const payer = await signInAs(console.gateway, PAYER);
  await payer.call("wallet.redeem", { body: { code } });
  await page.getByRole("link", { name: "spring" }).click();
  await page.getByText("Redeemed").first().waitFor();
  await page.getByRole("button", { name: "Void unused codes" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Void unused codes" }).click();
  await page.getByText("1 code voided.").waitFor();
  expect(await page.content()).not.toContain(code);
});

test("the dashboard updates while requests run, and an alert is sent to a webhook", async () => {
  await console.gateway.apply(
    JSON.stringify({
      alerts: { webhooks: [{ name: "ops", url: listener.url, private_network: true }] },
    }),
  );
  const page = await open("/admin");
  await page.getByText("Connected", { exact: true }).waitFor();
  const requests = page.locator(".stat").filter({ hasText: "Requests per second" }).locator("dd");
  let isRunning = true;
  const traffic = (async () => {
    while (isRunning) await chat("paid");
  })();
  await eventually(async () => Number.parseFloat((await requests.textContent()) ?? "") > 0);
  isRunning = false;
  await traffic;
  await page.getByText(/Live figures cover this process only/).waitFor();
  await chat("locked");
  await page.getByText("Account locked out is parked").first().waitFor();
  await page.getByRole("table", { name: "Accounts" }).getByText("Parked").waitFor();
  expect((await listener.next("alert.firing")).body.text).toContain("locked out");
  await expectSound(page);

  await console.goTo(page, "/admin/settings?part=alerts");
  await page.getByRole("table", { name: "Recent alerts" }).getByText("delivered").waitFor();
  await page.getByRole("button", { name: "Test" }).click();
  await page.getByText("Test delivered (HTTP 200).").waitFor();
  await listener.next("alert.test");
  await page.getByLabel("Daily spend exceeds").check();
  await page.getByLabel("USD per day").fill("12.50");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved. The change is active.").first().waitFor();
  await page.getByRole("button", { name: "Add webhook" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill(HOSTILE);
  await dialog.getByLabel("URL").fill(HOSTILE);
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("must be an http:// or https:// address").waitFor();
  await dialog.getByLabel("URL").fill("https://hooks.example.com/x");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("table", { name: "Webhooks" }).getByText(HOSTILE).waitFor();
  await expectSound(page);
});

test("the usage export is enabled, shows its webhooks, and is disabled after a question", async () => {
  const page = await open("/admin/settings?part=export");
  await page.getByLabel("Append requests to the usage feed").check();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "Pull the feed" }).waitFor();
  await page.getByRole("button", { name: "Add webhook" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("private");
  await dialog.getByLabel("URL").fill("http://127.0.0.1:9/usage");
  await dialog.getByLabel("Signing secret").fill("canary-of-the-webhook");
  await dialog.getByRole("button", { name: "Save" }).click();
  const table = page.getByRole("table", { name: "Webhooks" });
  await table.getByText("signed", { exact: true }).waitFor();
  await chat("fast");
  await table.getByText(/^Failing: the address is in a private network/).waitFor({ timeout: 20_000 });
  expect(await page.content()).not.toContain("canary-of-the-webhook");
  await page.getByRole("button", { name: "Test" }).click();
  await page.getByText(/^Test failed: the address is in a private network/).waitFor();
  await expectSound(page);
  await page.getByLabel("Append requests to the usage feed").uncheck();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click();
  await page.getByRole("heading", { name: "Pull the feed" }).waitFor({ state: "detached" });
  expect(await page.getByLabel("Append requests to the usage feed").isChecked()).toBe(false);
});

test("a mail server is configured and tested, and its password is never shown", async () => {
  await console.gateway.apply(
    JSON.stringify({
      smtp: {
        host: "127.0.0.1",
        port: mailServer.port,
        security: "none",
        from: "gateway@example.com",
        private_network: true,
      },
    }),
  );
  const page = await open("/admin/settings?part=mail");
  await page.getByRole("button", { name: "Send test mail" }).click();
  await page.getByRole("dialog").getByLabel("To", { exact: true }).fill("ops@example.com");
  await page.getByRole("dialog").getByRole("button", { name: "Send test mail" }).click();
  await page.getByText("The mail server accepted the mail to ops@example.com.").waitFor();
  expect(await mailServer.textTo("ops@example.com")).toContain("The mail settings work");
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await page.getByLabel("Host").fill("smtp.example.com");
  await page.getByLabel("User name").fill("gateway");
  await page.locator("input[name=password]").fill("canary-of-the-mail-server");
  await page.getByLabel("Encryption").selectOption("starttls");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved and not shown.").waitFor();
  expect(await page.content()).not.toContain("canary-of-the-mail-server");
  await page.getByLabel("Host").fill("smtp.evil.example");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("must be entered again").waitFor();
  expect(await page.getByLabel("Host").inputValue()).toBe("smtp.evil.example");
  await expectSound(page);
});

test("the form of the alert rules has the stored values, saves changes, and shows a problem at its field", async () => {
  await console.gateway.apply("alerts: {}");
  const page = await open("/admin/settings?part=alerts");
  const admin = await signInAs(console.gateway, ADMIN, "admin");
  const empty = page.getByLabel("For at least (seconds)");
  await empty.waitFor();
  expect(await empty.inputValue()).toBe("60");
  expect(await page.getByLabel("Percent").first().inputValue()).toBe("20");
  expect(await page.getByRole("checkbox", { name: /^Daily spend exceeds/ }).isChecked()).toBe(false);
  await empty.fill("90");
  await page.getByRole("checkbox", { name: /^Daily spend exceeds/ }).check();
  await page.getByLabel("USD per day").fill("12.50");
  await page.getByLabel("Window (minutes)").last().fill("10");
  const save = page.getByRole("button", { name: "Save" });
  await save.click();
  await page.getByText("Saved. The change is active.").first().waitFor();
  const { webhooks: _, ...rules } = (await admin.call("admin.settings.get")).alerts;
  expect(rules).toEqual({
    account_parked: { enabled: true },
    pool_empty: { enabled: true, for: "90s" },
    spend: { enabled: true, usd_per_day: "12.50" },
    error_rate: { enabled: true, percent: 20, over: "5m", min_requests: 20 },
    fallback_rate: { enabled: true, percent: 50, over: "5m", min_requests: 20 },
    overruns: { enabled: true, count: 3, over: "10m" },
  });
  await page.getByLabel("Percent").first().fill("0");
  await save.click();
  await page.locator("[aria-invalid=true]").waitFor();
  expect(await page.getByLabel("Percent").first().getAttribute("aria-invalid")).toBe("true");
});

test("every page fits a phone, in Chinese too", async () => {
  const page = await open("/admin", { width: PHONE_WIDTH, language: "zh" });
  for (const path of ["/admin", "/admin/users", "/admin/plans", "/admin/codes", "/admin/audit"]) {
    await console.goTo(page, path);
    expect([path, await sidewaysScroll(page)]).toEqual([path, 0]);
  }
  await console.gateway.apply(`users: [{ email: ${"long-".repeat(10)}@${"sub.".repeat(20)}example.com }]`);
  await console.goTo(page, "/admin/users");
  await page.getByRole("link", { name: /^long-/ }).click();
  await page.getByRole("heading", { level: 1, name: /^long-/ }).waitFor();
  expect(await sidewaysScroll(page)).toBe(0);
  for (const part of ["general", "mail", "alerts", "export"]) {
    await console.goTo(page, `/admin/settings?part=${part}`);
    await page.getByRole("tabpanel").waitFor();
    expect([part, await sidewaysScroll(page)]).toEqual([part, 0]);
  }
  expect(await hostileTraces(page)).toEqual([]);
});
