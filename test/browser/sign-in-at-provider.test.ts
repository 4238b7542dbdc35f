/** Sign-in at a real OpenID Connect provider in a real browser, the page Directory, and suspended keys. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { NO_LIMITS } from "../../src/records/limits.ts";
import { insertIdentity } from "../../src/store/identity/external-identities.ts";
import { putUser } from "../../src/store/identity/users.ts";
import { CLIENT, type OpenidProvider, startOpenidProvider } from "../support/openid-provider.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Looks, type Page, PHONE_WIDTH, startConsole } from "./browser.ts";

// The console is built and a browser starts first.
setDefaultTimeout(120_000);

let console: ConsoleUnderTest;
let provider: OpenidProvider;

beforeAll(async () => {
  console = await startConsole();
  provider = await startOpenidProvider([`${console.gateway.url}/console/sign-in/callback`]);
});
afterAll(async () => {
  expect(console.complaints()).toEqual([]);
  await console.stop();
  await provider.stop();
});

async function configure(password: string): Promise<void> {
  await console.gateway.apply(`
groups:
  - { name: engineering, access: members, models: [fast-chat], accounts: [sim] }
sign_in:
  password: ${password}
  providers:
    - name: corp
      issuer: ${provider.issuer}
      client_id: ${CLIENT.id}
      client_secret: ${CLIENT.secret}
      private_network: true
      require_group: [llm-users]
      groups: { engineering: [eng-all] }
`);
}

/** The browser of this person: the provider asks nothing. */
async function signIn(subject: string, groups: readonly string[], page?: Page): Promise<Page> {
  provider.people.set(subject, { email: `${subject}@example.com`, email_verified: true, groups });
  const own = page ?? (await console.open("/sign-in"));
  await own.context().setExtraHTTPHeaders({ "x-test-person": subject });
  if (page !== undefined) await console.goTo(own, "/sign-in");
  await own.getByRole("button", { name: "Sign in with corp" }).click();
  return own;
}

const LOOKS: readonly Looks[] = [
  { scheme: "light" },
  { scheme: "dark" },
  { width: PHONE_WIDTH },
  { width: PHONE_WIDTH, language: "zh" },
];

test("the sign-in page shows only the providers where passwords are off", async () => {
  await configure("off");
  for (const looks of LOOKS) {
    const page = await console.open("/sign-in", looks);
    const name = looks.language === "zh" ? "使用 corp 登录" : "Sign in with corp";
    await page.getByRole("button", { name }).waitFor();
    expect(await page.locator("input").count()).toBe(0);
    expect(await sidewaysScroll(page)).toBe(0);
    expect(await axeFindings(page)).toEqual([]);
    await page.close();
  }
});

test("where passwords are for administrators, their form is behind a button", async () => {
  await configure("admins");
  const page = await console.open("/sign-in");
  expect(await page.locator("input").count()).toBe(0);
  await page.getByRole("button", { name: "Sign in as an administrator" }).click();
  await page.getByLabel("Password", { exact: true }).waitFor();
});

test("a person signs in, and a rejected one reads what to do", async () => {
  const page = await signIn("ada", ["llm-users", "eng-all"]);
  await page.getByRole("navigation").first().waitFor();
  expect(new URL(page.url()).search).toBe("");
  await console.goTo(page, "/profile");
  await page.getByText("with corp, which manages your password").waitFor();
  const rejected = await signIn("eve", []);
  await rejected.getByText("You are not signed in").waitFor();
  await rejected.getByText("is not assigned to this gateway").waitFor();
});

test("a person whose address has an account links it with the password", async () => {
  const password = "correct horse battery staple";
  await console.gateway.apply(`users: [{ email: lea@example.com, password: "${password}" }]`);
  provider.people.set("lea", { email: "lea@example.com", email_verified: true, groups: ["llm-users"] });
  for (const looks of LOOKS) {
    const page = await console.open("/sign-in", looks);
    await page.context().setExtraHTTPHeaders({ "x-test-person": "lea" });
    const isChinese = looks.language === "zh";
    await page.getByRole("button", { name: isChinese ? "使用 corp 登录" : "Sign in with corp" }).click();
    await page.getByRole("heading", { name: isChinese ? "关联账户" : "Link your account" }).waitFor();
    await page.locator("input[type=password]").waitFor();
    expect(await sidewaysScroll(page)).toBe(0);
    expect(await axeFindings(page)).toEqual([]);
    if (looks !== LOOKS[0]) await page.close();
    else {
      await page.locator("input[type=password]").fill("wrong");
      await page.getByRole("button", { name: "Link and sign in" }).click();
      await page.getByText("The password is incorrect.").waitFor();
    }
  }
  const page = await signIn("lea", ["llm-users"]);
  await page.locator("input[type=password]").fill(password);
  await page.getByRole("button", { name: "Link and sign in" }).click();
  await page.getByRole("navigation").first().waitFor();
  expect(new URL(page.url()).pathname).not.toContain("sign-in");
  const late = await console.open("/sign-in/link#token");
  await late.getByText("This sign-in has expired").waitFor();
});

test("the page Directory shows people and rejected sign-ins, and restores many who lost access at once", async () => {
  const { installation } = console.gateway;
  for (let i = 0; i < 12; i++) {
    const user = {
      id: `person-${i}`,
      email: `person-${i}@example.com`,
      role: "user",
      status: "active",
    } as const;
    await putUser(installation.db, {
      ...user,
      passwordHash: null,
      limits: NO_LIMITS,
      groups: [],
      createdAtMs: 0,
    });
    const times = { createdAtMs: 0, signedInAtMs: 0, suspendedAtMs: null };
    const person = { userId: user.id, issuer: provider.issuer, subject: user.id, provider: "corp", ...times };
    await insertIdentity(installation.db, person, "user");
  }
  const nowMs = installation.clock.nowMs();
  await installation.db.sql`
    UPDATE external_identity SET suspended_at_ms = ${nowMs} WHERE signed_in_at_ms = 0`;
  for (const looks of LOOKS) {
    const page = await console.openAs("root@example.com", "admin", "/admin/directory", looks);
    await page.getByText("ada@example.com").first().waitFor();
    await page.getByText("not_assigned").first().waitFor();
    await page.getByText(looks.language === "zh" ? "恢复 12 人" : "Restore 12 people").waitFor();
    expect(await sidewaysScroll(page)).toBe(0);
    expect(await axeFindings(page)).toEqual([]);
    await page.close();
  }
  const page = await console.openAs("root@example.com", "admin", "/admin/directory");
  await page.getByRole("button", { name: "Restore 12 people" }).click();
  await page.getByText("12 people and 0 keys restored.").waitFor();
  await page.getByText("lost many people at once").waitFor({ state: "detached" });
});

test("a suspended key is shown with its reason", async () => {
  const page = await signIn("ada", ["llm-users", "eng-all"]);
  await page.getByRole("navigation").first().waitFor();
  await page.evaluate(`fetch("/api/keys", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name: "editor", group: "engineering" }),
  })`);
  // As from another computer: this browser keeps its session.
  await signIn("ada", ["llm-users"]).then((other) => other.getByRole("navigation").first().waitFor());
  await console.goTo(page, "/keys");
  await page.getByText("Suspended").first().waitFor();
  await page.getByRole("link", { name: "editor" }).click();
  await page.getByText("This key is suspended").waitFor();
  await page.getByText("no longer a member of the group engineering").waitFor();
  expect(await page.getByRole("button", { name: "Rotate" }).count()).toBe(0);
  expect(await axeFindings(page)).toEqual([]);
});

test("while the provider is down, the page says so, and who is signed in continues", async () => {
  const page = await signIn("ada", ["llm-users"]);
  await page.getByRole("navigation").first().waitFor();
  await provider.stop();
  // Without the addresses that were read before.
  await configure("admins");
  await console.gateway.apply(`
sign_in:
  password: admins
  providers:
    - { name: corp, issuer: "${provider.issuer}", client_id: another, client_secret: ${CLIENT.secret}, private_network: true }
`);
  const other = await console.open("/sign-in");
  await other.getByRole("button", { name: "Sign in with corp" }).click();
  await other.getByText("corp does not respond").waitFor();
  await console.goTo(page, "/keys");
  await page.getByRole("heading", { level: 1, name: "API keys" }).waitFor();
});
