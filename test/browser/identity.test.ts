/** Sign-up, sign-in, authentication and sign-out in a real browser. */

import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { offerAdminClaim } from "../../src/config/first-run/admin-claim.ts";
import { totpCode, totpStep } from "../../src/secrets/totp.ts";
import { signInAs } from "../support/console-client.ts";
import { type SmtpServer, startSmtpServer } from "../support/smtp-server.ts";
import { axeFindings, sidewaysScroll } from "./axe.ts";
import { type ConsoleUnderTest, type Page, PHONE_WIDTH, startConsole } from "./browser.ts";
import { readQrCode } from "./qr-reader.ts";

setDefaultTimeout(60_000);

const PASSWORD = "correct horse battery";
const NEW_PASSWORD = "staple of a new one";

let site: ConsoleUnderTest;
let mailbox: SmtpServer;

beforeAll(async () => {
  [site, mailbox] = await Promise.all([startConsole(), startSmtpServer()]);
});
afterEach(() => site.closePages());
afterAll(async () => {
  expect(site.complaints()).toEqual([]);
  await site.stop();
  await mailbox.stop();
});

const heading = (page: Page, name: string) => page.getByRole("heading", { level: 1, name }).waitFor();
const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click();
const fill = (page: Page, label: string, text: string) => page.getByLabel(label, { exact: true }).fill(text);

async function signIn(page: Page, email: string, password: string): Promise<void> {
  await site.goTo(page, "/sign-in");
  await fill(page, "E-mail address", email);
  await fill(page, "Password", password);
  await press(page, "Sign in");
}

async function makeUser(email: string): Promise<void> {
  await site.gateway.apply(`users: [{ email: ${email}, password: ${JSON.stringify(PASSWORD)} }]`);
}

/** The part of a link after `/console`. */
const pathIn = (text: string) => /\/console(\/\w+#\w+)/.exec(text)?.[1] ?? "";

test("no password field is shown over an unencrypted connection", async () => {
  const page = await site.open("/sign-in");
  // What a browser reports for http:// on any host but localhost.
  await page.addInitScript("Object.defineProperty(window, 'isSecureContext', { value: false })");
  for (const path of ["/sign-in", "/claim#token"]) {
    await page.goto("about:blank");
    await site.goTo(page, path);
    await page.getByText("This connection is not encrypted").waitFor();
    expect(await page.getByLabel("Password", { exact: true }).count()).toBe(0);
  }
});

describe("the first administrator", () => {
  test("opens the link of the first start, chooses a password, and is signed in", async () => {
    const link = await offerAdminClaim(site.gateway.installation, site.gateway.url);
    const stranger = await site.open("/");
    await stranger.getByText("No administrator yet").waitFor();
    const page = await site.open(pathIn(link ?? ""));
    await heading(page, "Create the administrator account");
    await fill(page, "E-mail address", "boss@example.com");
    await fill(page, "Password", "short");
    await press(page, "Create administrator");
    await page.getByText("must have 12 to 256 characters").waitFor();
    expect(await page.getByLabel("E-mail address").inputValue()).toBe("boss@example.com");
    await fill(page, "Password", PASSWORD);
    await press(page, "Create administrator");
    await page.getByText("Administration").first().waitFor();
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ name: "__Host-session", httpOnly: true, secure: true, sameSite: "Lax" });
    expect(await page.evaluate("document.cookie")).toBe("");
    const again = await site.open(pathIn(link ?? ""));
    await fill(again, "E-mail address", "eve@example.com");
    await fill(again, "Password", PASSWORD);
    await press(again, "Create administrator");
    await again.getByText("An administrator already exists").waitFor();
  });

  test("can sign in under the name localhost as well", async () => {
    const page = await site.open("/sign-in");
    await page.goto(`${site.gateway.url.replace("127.0.0.1", "localhost")}/console/sign-in`);
    await fill(page, "E-mail address", "boss@example.com");
    await fill(page, "Password", PASSWORD);
    await press(page, "Sign in");
    await page.getByText("Administration").first().waitFor();
  });
});

describe("signing in", () => {
  test("returns to the requested page; a wrong password keeps the address", async () => {
    await makeUser("ada@example.com");
    const page = await site.open("/wallet");
    await heading(page, "Sign in");
    await fill(page, "E-mail address", "ada@example.com");
    await fill(page, "Password", "wrong");
    await press(page, "Sign in");
    await page.getByText("The address or the password is incorrect.").waitFor();
    expect(await page.getByLabel("E-mail address").inputValue()).toBe("ada@example.com");
    await fill(page, "Password", PASSWORD);
    await press(page, "Sign in");
    await heading(page, "Wallet");
  });

  test("and out leads to the sign-in page, and going back does not show the previous page", async () => {
    const page = await site.open("/sign-in");
    await signIn(page, "ada@example.com", PASSWORD);
    await heading(page, "API keys");
    await press(page, "Account");
    await press(page, "Sign out");
    await heading(page, "Sign in");
    await page.goBack();
    await heading(page, "Sign in");
  });
});

describe("registration", () => {
  test("that is closed or by invitation shows that", async () => {
    const page = await site.open("/register");
    await page.getByText("Registration is closed.").waitFor();
    expect(await page.getByLabel("E-mail address").count()).toBe(0);
    await site.gateway.apply("registration: invite");
    await site.goTo(page, "/register");
    await page.getByText("Registration requires an invitation.").waitFor();
  });

  test("that is open creates a user who is not an administrator", async () => {
    await site.gateway.apply("registration: open");
    const page = await site.open("/sign-in");
    await page.getByRole("link", { name: "No account yet? Create one" }).click();
    await heading(page, "Create an account");
    await fill(page, "E-mail address", "new@example.com");
    await fill(page, "Password", PASSWORD);
    await press(page, "Create account");
    await heading(page, "API keys");
    expect(await page.getByText("Administration").count()).toBe(0);
  });

  test("an invitation creates an account for its address, once", async () => {
    const boss = await signInAs(site.gateway, "boss@example.com", "admin");
    const made = await boss.call("admin.links.create", {
      body: { purpose: "invite", email: "guest@example.com" },
    });
    const page = await site.open(pathIn(made.url));
    await page.getByText("This invitation is for guest@example.com.").waitFor();
    await fill(page, "Password", PASSWORD);
    await press(page, "Create account");
    await heading(page, "API keys");
    const again = await site.open(pathIn(made.url));
    await again.getByText("This link is no longer valid").waitFor();
  });
});

describe("the second factor", () => {
  test("is enabled, requested, replaced by a recovery code, and disabled", async () => {
    await makeUser("two@example.com");
    const page = await site.open("/sign-in");
    await signIn(page, "two@example.com", PASSWORD);
    await heading(page, "API keys");
    await site.goTo(page, "/profile");
    await press(page, "Enable");
    await fill(page, "Password", PASSWORD);
    await press(page, "Continue");
    const code = page.getByRole("img", { name: "QR code of the secret" });
    const link = await page.getByRole("dialog").locator("a[href^='otpauth:']").getAttribute("href");
    expect(await readQrCode(code)).toBe(link ?? "");
    const secret = (await page.getByRole("dialog").locator("code").first().textContent()) ?? "";
    await page.getByLabel("Code", { exact: true }).fill(totpCode(secret, totpStep(Date.now())));
    await page.getByRole("dialog").getByRole("button", { name: "Enable" }).click();
    const codes = page.getByRole("region", { name: "Recovery codes" });
    const [first = "", second = ""] = ((await codes.locator("code").textContent()) ?? "").split("\n");
    expect(first).toMatch(/^\w{4}-\w{4}-\w{4}$/);
    await press(page, "I have saved them");
    await page.getByText("Enabled since").waitFor();

    const other = await site.open("/sign-in");
    await signIn(other, "two@example.com", PASSWORD);
    await heading(other, "Two-factor authentication");
    await fill(other, "Code", "000000");
    await press(other, "Sign in");
    await other.getByText("The code is incorrect").waitFor();
    await fill(other, "Code", first);
    await press(other, "Sign in");
    await heading(other, "API keys");

    await press(page, "Disable");
    await fill(page, "Password", PASSWORD);
    await fill(page, "Authenticator or recovery code", second);
    await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click();
    await page.getByText("Two-factor authentication disabled.").waitFor();
    await page.getByRole("button", { name: "Enable" }).waitFor();
  });
});

describe("active sessions", () => {
  test("are listed, and a session that is ended is signed out at its next request", async () => {
    await makeUser("sessions@example.com");
    const [mine, theirs] = await Promise.all([site.open("/sign-in"), site.open("/sign-in")]);
    for (const page of [mine, theirs]) {
      await signIn(page, "sessions@example.com", PASSWORD);
      await heading(page, "API keys");
    }
    await site.goTo(mine, "/profile");
    const list = mine.getByRole("table", { name: "Active sessions" });
    await list.getByText("Chrome on Linux").first().waitFor();
    expect(await list.getByRole("row").count()).toBe(3);
    await list.getByRole("button", { name: "Sign out" }).click();
    await mine.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
    await mine.getByText("Signed out.").waitFor();
    await theirs.getByRole("link", { name: "Usage" }).click();
    await heading(theirs, "Sign in");
    await site.goTo(mine, "/profile");
    await list.getByText("This session").waitFor();
  });

  test("end with a change of the password, except the one that changed it", async () => {
    await makeUser("change@example.com");
    const [mine, theirs] = await Promise.all([site.open("/sign-in"), site.open("/sign-in")]);
    for (const page of [mine, theirs]) {
      await signIn(page, "change@example.com", PASSWORD);
      await heading(page, "API keys");
    }
    await site.goTo(mine, "/profile");
    await fill(mine, "Current password", PASSWORD);
    await fill(mine, "New password", NEW_PASSWORD);
    await press(mine, "Change password");
    await mine.getByText("Password changed.").waitFor();
    await site.goTo(mine, "/profile");
    await heading(mine, "Profile and security");
    await site.goTo(theirs, "/profile");
    await heading(theirs, "Sign in");
    await signIn(theirs, "change@example.com", NEW_PASSWORD);
    await heading(theirs, "API keys");
  });
});

describe("a personal access token", () => {
  test("is created, shown once, used, and revoked", async () => {
    const page = await site.openAs("robot@example.com", "user", "/profile");
    await press(page, "Create token");
    await fill(page, "Name", "ci <b>job</b>");
    await page.getByLabel("Scope").selectOption("keys");
    await page.getByRole("dialog").getByRole("button", { name: "Create token" }).click();
    const secret = (await page.getByRole("region", { name: "Token" }).locator("code").textContent()) ?? "";
    expect(secret).toMatch(/^gwp_/);
    await press(page, "I have saved it");
    await page.getByText("ci <b>job</b>").waitFor();
    expect(await page.content()).not.toContain(secret);
    const ask = () =>
      fetch(`${site.gateway.url}/api/session`, { headers: { authorization: `Bearer ${secret}` } });
    expect((await ask()).status).toBe(200);
    await press(page, "Revoke");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("Token revoked.").waitFor();
    expect((await ask()).status).toBe(401);
  });
});

describe("with a mail server", () => {
  beforeAll(async () => {
    await site.gateway.apply(`
registration: open
smtp: { host: 127.0.0.1, port: ${mailbox.port}, security: none, from: gateway@example.com, private_network: true }`);
  });

  test("a forgotten password is replaced with a link in an e-mail", async () => {
    await makeUser("lost@example.com");
    const page = await site.open("/sign-in");
    await page.getByRole("link", { name: "Forgot your password?" }).click();
    await fill(page, "E-mail address", "lost@example.com");
    await press(page, "Send link");
    await heading(page, "Check your e-mail");
    await site.goTo(page, pathIn(await mailbox.textTo("lost@example.com")));
    await page.getByText("For lost@example.com.").waitFor();
    await fill(page, "Password", NEW_PASSWORD);
    await press(page, "Save password");
    await heading(page, "Password changed");
    await page.getByRole("link", { name: "Sign in" }).click();
    await fill(page, "E-mail address", "lost@example.com");
    await fill(page, "Password", NEW_PASSWORD);
    await press(page, "Sign in");
    await heading(page, "API keys");
  });

  test("registration sends a link, with which the user chooses the password", async () => {
    const page = await site.open("/register");
    await page.getByText("We send a link to your address.").waitFor();
    expect(await page.getByLabel("Password", { exact: true }).count()).toBe(0);
    await fill(page, "E-mail address", "fresh@example.com");
    await press(page, "Send link");
    await heading(page, "Check your e-mail");
    const link = pathIn(await mailbox.textTo("fresh@example.com"));
    await site.goTo(page, link);
    await page.getByText("Choose a password for fresh@example.com to create your account.").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await fill(page, "Password", "short");
    await press(page, "Verify and sign in");
    await page.getByText("must have 12 to 256 characters").waitFor();
    await fill(page, "Password", PASSWORD);
    await press(page, "Verify and sign in");
    await heading(page, "API keys");
    const again = await site.open(link);
    await again.getByText("This link is no longer valid").waitFor();
    await signIn(again, "fresh@example.com", PASSWORD);
    await heading(again, "API keys");
  });

  test("a reset shows the keys, marks the new ones, and revokes the selected ones", async () => {
    const email = "hijacked@example.com";
    await makeUser(email);
    const owner = await signInAs(site.gateway, email);
    for (const name of ["mine", "not mine"]) {
      await owner.call("keys.create", { body: { name, group: "default" } });
    }
    const boss = await signInAs(site.gateway, "boss@example.com", "admin");
    const made = await boss.call("admin.links.create", { body: { purpose: "reset", email } });
    for (const language of ["en", "zh"] as const) {
      const look = await site.open(pathIn(made.url), { width: PHONE_WIDTH, language });
      await look.getByText("not mine").waitFor();
      expect(await axeFindings(look)).toEqual([]);
      expect(await sidewaysScroll(look)).toBe(0);
    }
    const page = await site.open(pathIn(made.url));
    await page.getByText("New · created").first().waitFor();
    await page.getByText("1 session will end").click();
    await page.getByText("127.0.0.1").waitFor();
    await page.getByLabel(/^not mine/).check();
    await fill(page, "Password", NEW_PASSWORD);
    await press(page, "Save password");
    await page.getByText("1 API key was revoked.").waitFor();
    const back = await signInAs(site.gateway, email);
    expect((await back.call("keys.list")).data.map(({ name }) => name)).toEqual(["mine"]);
  });

  test("an administrator resets all access of a user and gets a link for the user", async () => {
    const email = "taken@example.com";
    await makeUser(email);
    const owner = await signInAs(site.gateway, email);
    await owner.call("keys.create", { body: { name: "old", group: "default" } });
    const page = await site.openAs("boss@example.com", "admin", `/admin/users/${owner.user.id}`);
    await heading(page, email);
    await press(page, "More");
    await page.getByText("Reset access", { exact: true }).click();
    await page.getByText("1 key stops working.").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("dialog").getByRole("button", { name: "Reset access" }).click();
    await page.getByText("The link was also sent by e-mail.").waitFor();
    expect((await owner.call("session.current")).user).toBeNull();
    expect(pathIn(await mailbox.textTo(email))).toMatch(/^\/reset#/);
  });
});

test("the form of a link has no accessibility findings and fits a phone", async () => {
  const page = await site.open("/claim#x", { width: PHONE_WIDTH, scheme: "dark" });
  expect(await axeFindings(page)).toEqual([]);
  expect(await sidewaysScroll(page)).toBe(0);
});
