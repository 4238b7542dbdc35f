/** Self-service tasks: keys, models and the wallet, in a real browser with a real gateway. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { createCodes } from "../../src/billing/operations/redeem.ts";
import { parseUsd } from "../../src/money/nano.ts";
import { paidFile } from "../support/paid-gateway.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Page, startConsole } from "./browser.ts";
import { fillHostile, HOSTILE_TEXTS, hostileTraces } from "./hostile-texts.ts";

const [HOSTILE_NAME] = HOSTILE_TEXTS;
const HOSTILE_MODEL = `"><script/class="hostile">window.hostileRan=true</script>`;
const NARROW = 360;

let console_: ConsoleUnderTest;

beforeAll(async () => {
  console_ = await startConsole({
    tokens: "o200k",
    file: paidFile({
      models: { paid: "sim-fast", [HOSTILE_MODEL]: "sim-fast" },
      balance: "5.00",
      plans: [{ name: "pro", windows: [{ per: "day", usd: "1.00" }] }],
      subscriptions: [{ plan: "pro" }],
      groups: [
        { name: "free", models: ["paid"], accounts: ["sim"], limits: { rpm: 60 } },
        {
          name: HOSTILE_NAME,
          models: ["paid", HOSTILE_MODEL],
          accounts: ["sim"],
          billing: { charge: "balance" },
        },
        { name: "inner", access: "members", models: ["paid"], accounts: ["sim"] },
      ],
    }),
  });
});
afterAll(() => console_.stop());
afterEach(async () => {
  expect(console_.complaints()).toEqual([]);
  await console_.closePages();
});

let people = 0;
/** A new user for each test, so that tests do not share state. */
function openAsUser(path: string, width?: number): Promise<Page> {
  people += 1;
  return console_.openAs(`person-${people}@example.com`, "user", path, width === undefined ? {} : { width });
}

function chat(secret: string, model = "paid"): Promise<Response> {
  const body = { model, messages: [{ role: "user", content: "Hello" }] };
  const headers = { authorization: `Bearer ${secret}` };
  return console_.gateway.call("/v1/chat/completions", body, { headers });
}

interface Wanted {
  name: string;
  group?: string;
  rpm?: string;
}

/** Creates a key with the dialog, as a user does. The dialog with the secret stays open. */
async function createKey(page: Page, { name, group = "free", rpm }: Wanted): Promise<string> {
  await page.getByRole("button", { name: "Create key" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Name" }).fill(name);
  await dialog.getByRole("radio", { name: new RegExp(`^${RegExp.escape(group)}`) }).check();
  if (rpm !== undefined) {
    await dialog.getByText("Key limits").click();
    await dialog.getByRole("spinbutton", { name: "Requests per minute" }).fill(rpm);
  }
  await dialog.getByRole("button", { name: "Create key" }).click();
  return page.getByRole("region", { name: "Secret key" }).locator("code").innerText();
}

async function closeSecret(page: Page): Promise<void> {
  await page.getByRole("button", { name: "I have copied it" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

async function openKey(page: Page, name: string): Promise<void> {
  await page.getByRole("link", { name: new RegExp(RegExp.escape(name)) }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

describe("a key", () => {
  test("is created, used with its own snippet, and its use is shown", async () => {
    const page = await openAsUser("/keys");
    await page.getByText("No keys yet").waitFor();
    const secret = await createKey(page, { name: "laptop" });
    expect(secret).toStartWith("gwk_");
    const example = await page.getByRole("region", { name: "curl" }).locator("code").innerText();
    expect(example).not.toContain(secret);
    const env = { PATH: process.env.PATH ?? "", MODEL_GATEWAY_KEY: secret };
    const run = Bun.spawn(["sh", "-c", `${example} --silent`], { env, stdout: "pipe" });
    expect(await new Response(run.stdout).text()).toContain('"chat.completion"');
    await closeSecret(page);
    await console_.goTo(page, "/keys");
    const row = page.getByRole("row", { name: /laptop/ });
    await row.getByRole("img", { name: "1 request in 30 days" }).waitFor();
    expect(await row.innerText()).toMatch(/now|ago/);
    await openKey(page, "laptop");
    await page.getByRole("meter", { name: "This key: requests per minute" }).waitFor();
    expect(
      await page.getByRole("meter", { name: "This key: requests per minute" }).getAttribute("aria-valuenow"),
    ).toBe("1");
  });

  test("shows its secret once: neither the page nor the browser stores it", async () => {
    const page = await openAsUser("/keys");
    const secret = await createKey(page, { name: "once" });
    for (const _ of ["first", "second", "third"]) await page.keyboard.press("Escape");
    expect(await page.getByRole("region", { name: "Secret key" }).isVisible()).toBe(true);
    await closeSecret(page);
    expect(await page.content()).not.toContain(secret);
    await openKey(page, "once");
    expect(await page.content()).not.toContain(secret);
    expect(await page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }])")).not.toContain(
      secret,
    );
  });

  test("that was submitted while offline is not created later", async () => {
    const page = await openAsUser("/keys");
    await page.getByRole("button", { name: "Create key" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Name" }).fill("late");
    await page.context().setOffline(true);
    await dialog.getByRole("button", { name: "Create key" }).click();
    await dialog.getByText("Your input is kept").waitFor();
    await page.keyboard.press("Escape");
    await page.context().setOffline(false);
    await createKey(page, { name: "in time" });
    await closeSecret(page);
    await page.getByRole("link", { name: /in time/ }).waitFor();
    expect(await page.getByRole("link", { name: /late/ }).count()).toBe(0);
  });

  test("is preselected in a group that can be used at once, and an empty balance shows a warning", async () => {
    const page = await openAsUser("/keys");
    await page.getByRole("button", { name: "Create key" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("radio", { checked: true, name: /^free/ }).waitFor();
    await dialog.getByRole("radio", { name: /^paying/ }).check();
    await dialog.getByText("Your available balance is zero").waitFor();
  });

  test("with too high limits is rejected at the field, and the input is kept", async () => {
    const page = await openAsUser("/keys");
    await page.getByRole("button", { name: "Create key" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Name" }).fill("greedy");
    await dialog.getByRole("radio", { name: /^free/ }).check();
    await dialog.getByText("Key limits").click();
    await dialog.getByRole("spinbutton", { name: "Requests per minute" }).fill("61");
    await dialog.getByRole("button", { name: "Create key" }).click();
    await dialog.getByText("allows each key at most 60").waitFor();
    expect(await dialog.getByRole("textbox", { name: "Name" }).inputValue()).toBe("greedy");
    expect(
      await dialog.getByRole("spinbutton", { name: "Requests per minute" }).getAttribute("aria-invalid"),
    ).toBe("true");
    await dialog.getByRole("spinbutton", { name: "Requests per minute" }).fill("60");
    await dialog.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("region", { name: "Secret key" }).waitFor();
  });

  test("can only use the groups that are available to its owner", async () => {
    const page = await openAsUser("/keys");
    await page.keyboard.press("n");
    await page.getByRole("radio", { name: /^free/ }).waitFor();
    expect(await page.getByRole("radio", { name: /^inner/ }).count()).toBe(0);
    expect(await axeFindings(page)).toEqual([]);
  });

  test("is edited, and the change is active at once", async () => {
    const page = await openAsUser("/keys");
    const secret = await createKey(page, { name: "draft" });
    await closeSecret(page);
    await openKey(page, "draft");
    await page.getByRole("button", { name: "Edit" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Name" }).fill("final");
    await dialog.getByText("Key limits").click();
    await dialog.getByRole("spinbutton", { name: "Requests per minute" }).fill("1");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { level: 1, name: "final" }).waitFor();
    expect([(await chat(secret)).status, (await chat(secret)).status]).toEqual([200, 429]);
  });

  test("is rotated: both secrets work during the overlap, and only the new one without an overlap", async () => {
    const page = await openAsUser("/keys");
    const first = await createKey(page, { name: "turning" });
    await closeSecret(page);
    await openKey(page, "turning");
    const rotate = async (overlap: string) => {
      await page.getByRole("button", { name: "Rotate" }).click();
      await page.getByLabel("Old secret remains valid for").selectOption({ label: overlap });
      await page.getByRole("button", { name: "Rotate key" }).click();
      const secret = await page.getByRole("region", { name: "Secret key" }).locator("code").innerText();
      await closeSecret(page);
      return secret;
    };
    const second = await rotate("1 day");
    expect([(await chat(first)).status, (await chat(second)).status]).toEqual([200, 200]);
    await page.getByText(`…${first.slice(-4)}, until`).waitFor();
    const third = await rotate("not at all");
    expect((await chat(second)).status).toBe(401);
    expect((await chat(third)).status).toBe(200);
  });

  test("is revoked: the dialog shows its recent use, and then it is rejected", async () => {
    const page = await openAsUser("/keys");
    const secret = await createKey(page, { name: "leaving" });
    await closeSecret(page);
    expect([(await chat(secret)).status, (await chat(secret)).status]).toEqual([200, 200]);
    await openKey(page, "leaving");
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByText("2 requests in the last 24 hours.").waitFor();
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect((await chat(secret)).status).toBe(401);
    await page.getByRole("link", { name: "All keys" }).click();
    await page.getByText("No keys yet").waitFor();
    await page.getByText("Revoked", { exact: true }).click();
    await page.getByRole("link", { name: /leaving/ }).waitFor();
  });

  test("is found by its name", async () => {
    const page = await openAsUser("/keys");
    for (const name of ["alpha", "beta"]) {
      await createKey(page, { name });
      await closeSecret(page);
    }
    await page.keyboard.press("/");
    await page.keyboard.type("ALPH");
    await page.getByRole("link", { name: /beta/ }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: /alpha/ }).waitFor();
    expect(await page.getByRole("link", { name: /alpha|beta/ }).count()).toBe(1);
    await page.keyboard.type("zzz");
    await page.getByText("No keys found").waitFor();
  });
});

describe("models", () => {
  test("an exhausted limit is explained step by step, with the exact reason", async () => {
    const page = await openAsUser("/keys");
    const secret = await createKey(page, { name: "limited", rpm: "1" });
    await closeSecret(page);
    await openKey(page, "limited");
    expect([(await chat(secret)).status, (await chat(secret)).status]).toEqual([200, 429]);
    await page.getByRole("link", { name: "Check model access" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Model" }).fill("paid");
    await dialog.getByRole("button", { name: "Check" }).click();
    await dialog.getByText("Requests are rejected.").waitFor();
    const steps = await dialog.getByRole("listitem").allInnerTexts();
    expect(steps.at(0)).toContain("The key is active.");
    expect(steps.at(-1)).toContain("The limit of this key is exhausted: 1 requests per minute.");
    expect(await axeFindings(page)).toEqual([]);
  });

  test("an empty balance is explained, and a mistyped model is corrected", async () => {
    const page = await openAsUser("/keys");
    await createKey(page, { name: "poor", group: "paying" });
    await closeSecret(page);
    await console_.goTo(page, "/models");
    await page.getByRole("button", { name: "Check model access" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Model" }).fill("paid");
    await dialog.getByRole("button", { name: "Check" }).click();
    await dialog.getByText("Your available balance is zero").first().waitFor();
    await dialog.getByRole("textbox", { name: "Model" }).fill("piad");
    await dialog.getByRole("button", { name: "Check" }).click();
    await dialog.getByText("Did you mean paid?").first().waitFor();
  });

  test("are listed with price and status, and link to creating a key", async () => {
    const page = await openAsUser("/models");
    const row = page.getByRole("row", { name: /paid.*paying/ });
    await row.getByText("$2.50").waitFor();
    await row.getByText("Available").waitFor();
    await row.getByRole("link", { name: "Create key" }).click();
    await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
  });
});

describe("the wallet", () => {
  test("a redeem code is redeemed, and an invalid one stays in the field with its error", async () => {
    const page = await openAsUser("/wallet");
    const [code = ""] = await createCodes(console_.gateway.installation, {
      name: "browser",
      count: 1,
      value: { kind: "money", amountNano: parseUsd("2.50") },
      expiresAtMs: null,
      actor: "test",
    });
    const field = page.getByRole("textbox", { name: "Code" });
    await field.fill("nonsense");
    await page.getByRole("button", { name: "Redeem" }).click();
    await page.getByText("Check it for a mistyped character").waitFor();
    expect(await field.inputValue()).toBe("nonsense");
    await field.fill(code);
    await page.getByRole("button", { name: "Redeem" }).click();
    await page.getByText("$2.50 was added to your balance.").waitFor();
    await page.getByRole("table", { name: "Ledger" }).getByText("Redeemed code").waitFor();
    expect(await field.inputValue()).toBe("");
  });

  test("shows plans with their remaining quota, what pays for which group, and each paid request", async () => {
    const page = await console_.openAs("payer@example.com", "user", "/keys");
    const secret = await createKey(page, { name: "paying", group: "paying" });
    await closeSecret(page);
    await (await chat(secret)).text();
    await console_.goTo(page, "/wallet");
    await page.getByRole("meter", { name: "Today" }).waitFor();
    await page.getByRole("row", { name: /paying.*Your balance/ }).waitFor();
    await page
      .getByRole("table", { name: "Ledger" })
      .getByRole("link", { name: "Request" })
      .first()
      .waitFor();
  });
});

describe("hostile texts", () => {
  test("are shown as text in the names of keys, groups and models", async () => {
    const page = await openAsUser("/keys");
    await createKey(page, { name: HOSTILE_NAME, group: HOSTILE_NAME });
    expect(await hostileTraces(page)).toEqual([]);
    await closeSecret(page);
    await page
      .getByRole("link", { name: /hostile/ })
      .first()
      .click();
    await page.getByRole("heading", { level: 1, name: /hostile/ }).waitFor();
    for (const path of [null, "/models", "/wallet"]) {
      if (path !== null) await console_.goTo(page, path);
      await page.getByText(HOSTILE_NAME).first().waitFor();
      if (path === "/models") await page.getByText(HOSTILE_MODEL).first().waitFor();
      expect(await hostileTraces(page)).toEqual([]);
    }
  });

  test("are shown as text in every field, also when they are rejected", async () => {
    const page = await openAsUser("/keys");
    for (const text of HOSTILE_TEXTS) {
      await page.getByRole("searchbox", { name: "Search by name or ID" }).fill(text);
      await page.getByText("No keys found").waitFor();
      await page.getByRole("button", { name: "Create key" }).first().click();
      await page.getByText("Key limits").click();
      await page.getByText("Add window").click();
      const dialog = page.getByRole("dialog");
      expect(await fillHostile(dialog, text)).toBeGreaterThanOrEqual(2);
      await dialog.getByRole("button", { name: "Create key" }).click();
      await dialog.locator(".field-problem, .notice").first().waitFor();
      expect(await hostileTraces(page)).toEqual([]);
      await page.keyboard.press("Escape");
    }
    await console_.goTo(page, "/wallet");
    for (const text of HOSTILE_TEXTS) {
      await page.getByRole("textbox", { name: "Code" }).fill(text);
      await page.getByRole("button", { name: "Redeem" }).click();
      await page.getByText("Check it for a mistyped character").waitFor();
      expect(await hostileTraces(page)).toEqual([]);
    }
  });
});

test("keys, model access and the wallet work on a phone without horizontal scrolling", async () => {
  const page = await openAsUser("/keys", NARROW);
  await createKey(page, { name: "from the train, with a name that needs two lines" });
  expect(await sidewaysScroll(page)).toBe(0);
  expect(await axeFindings(page)).toEqual([]);
  await closeSecret(page);
  expect(await sidewaysScroll(page)).toBe(0);
  await openKey(page, "from the train, with a name that needs two lines");
  await page.getByRole("region", { name: "curl" }).waitFor();
  expect(await sidewaysScroll(page)).toBe(0);
  for (const path of ["/models", "/wallet"]) {
    await console_.goTo(page, path);
    await page.getByRole("table").first().waitFor();
    expect(await sidewaysScroll(page)).toBe(0);
  }
});
