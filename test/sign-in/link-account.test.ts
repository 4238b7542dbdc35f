/** A person of a provider whose address has an account: only the owner links it, with the password or a mailed link. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { limits } from "../../src/config/limits/product-limits.ts";

import { totpCode, totpStep } from "../../src/secrets/totp.ts";
import { findIdentityOfUser } from "../../src/store/identity/external-identities.ts";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type EngineUnderTest, eachEngine } from "../support/each-engine.ts";
import { CLIENT, type OpenidProvider, startOpenidProvider } from "../support/openid-provider.ts";
import { ProviderBrowser, type SignInReply } from "../support/provider-browser.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type SmtpServer, startSmtpServer } from "../support/smtp-server.ts";

// Passwords are hashed slowly, and the machine may be busy.
setDefaultTimeout(60_000);

const PASSWORD = "correct horse battery staple";
const COOKIE = "__Host-pending-link";
const EXPIRED = { status: 400, code: "sign_in_expired" };

let gateway: RunningGateway;
let provider: OpenidProvider;
let smtp: SmtpServer;
let admin: SignedInClient;
let offsetMs = 0;
const clock = {
  nowMs: () => systemClock.nowMs() + offsetMs,
  monotonicMs: () => systemClock.monotonicMs(),
};

async function configure({ provider: fields = "", more = "", password = "allowed" } = {}): Promise<void> {
  await gateway.apply(`
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
      roles: { auditor: [finance] }
      groups: { engineering: [eng-all] }
${fields}
${more}`);
}

const withMail = (port: number | string) =>
  `smtp: { host: 127.0.0.1, port: ${port}, security: none, from: gateway@example.com, private_network: true }`;

function useGateway(engine: EngineUnderTest): void {
  beforeAll(async () => {
    smtp = await startSmtpServer();
    gateway = await startTestGateway({
      databaseUrl: await engine.emptyUrl(),
      clock,
      limits: { emailsPerHour: 50 },
    });
    provider = await startOpenidProvider([`${gateway.url}/console/sign-in/callback`]);
    await configure({ more: withMail(smtp.port) });
    admin = await signInAs(gateway, "root@example.com", "admin");
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
    await smtp.stop();
  });
}

const createEmail = (name: string) => `${name}@example.com`;

async function createLocal(name: string, fields = ""): Promise<void> {
  await gateway.apply(`users: [{ email: ${createEmail(name)}, password: "${PASSWORD}"${fields} }]`);
}

async function signInLocally(name: string): Promise<ProviderBrowser> {
  const browser = new ProviderBrowser(gateway);
  const signedIn = await browser.post("/api/session", { email: createEmail(name), password: PASSWORD });
  expect(signedIn.status).toBe(200);
  return browser;
}

/** Returns a recovery code. */
async function enableSecondFactor(name: string): Promise<string> {
  const browser = await signInLocally(name);
  const { body } = await browser.post("/api/second-factor", { password: PASSWORD });
  const code = totpCode(String(body.secret), totpStep(clock.nowMs()));
  const confirmed = await browser.post("/api/second-factor/confirm", { code });
  return String((confirmed.body.recovery_codes as string[])[0]);
}

async function signIn(
  name: string,
  { subject = `subject-of-${name}`, groups = [] as string[], browser = new ProviderBrowser(gateway) } = {},
): Promise<{ browser: ProviderBrowser; reply: SignInReply }> {
  provider.people.set(subject, { email: createEmail(name), email_verified: true, groups });
  const url = await browser.start("corp", { next: "/keys" });
  return { browser, reply: await browser.finish(await provider.visit(url, subject)) };
}

/** A browser whose person has the address of a local account. */
async function begin(name: string, more: Parameters<typeof signIn>[1] = {}): Promise<ProviderBrowser> {
  const { browser, reply } = await signIn(name, more);
  expect(reply).toMatchObject({ status: 409, code: "account_exists" });
  expect([...browser.cookies.keys()]).toContain(COOKIE);
  expect(browser.cookies.has("__Host-session")).toBe(false);
  return browser;
}

const finish = (
  browser: ProviderBrowser,
  proof: Readonly<Record<string, unknown>> = { password: PASSWORD },
) => browser.post("/api/sign-in/link", proof);

async function readIdentity(name: string) {
  const user = await findUserByEmail(gateway.installation.db, createEmail(name));
  if (user === null) throw new Error(`${name} does not exist.`);
  return findIdentityOfUser(gateway.installation.db, user.id);
}

async function requestMail(browser: ProviderBrowser, name: string, skipped = 0): Promise<string> {
  expect((await browser.post("/api/sign-in/link/mail", undefined)).status).toBe(200);
  return tokenIn(await smtp.textTo(createEmail(name), skipped));
}

const tokenIn = (text: string) => /\/console\/sign-in\/link#([\w-]+)/.exec(text)?.[1] ?? "";

eachEngine((engine) => {
  useGateway(engine);

  describe("the password", () => {
    test("links the person, applies the claims, keeps the local role and signs in", async () => {
      await createLocal("ada", ", role: auditor");
      const browser = await begin("ada", { groups: ["eng-all"] });
      expect(await (await browser.get("/api/sign-in/link")).json()).toMatchObject({
        provider: "corp",
        email: "ada@example.com",
        mail: true,
      });
      const reply = await finish(browser);
      expect(reply).toMatchObject({
        status: 200,
        body: { next: "/keys", user: { email: "ada@example.com", role: "auditor", provider: "corp" } },
      });
      expect([...browser.cookies.keys()]).toEqual(["__Host-session"]);
      expect(await readIdentity("ada")).toMatchObject({ issuer: provider.issuer, subject: "subject-of-ada" });
      const { db } = gateway.installation;
      const [row] = await db.sql`
        SELECT local_role, granted_role FROM external_identity WHERE subject = 'subject-of-ada'`;
      expect(row).toMatchObject({ local_role: "auditor", granted_role: null });
      const { id } = (await findUserByEmail(db, "ada@example.com")) ?? { id: "" };
      expect((await admin.call("admin.users.get", { params: { id } })).directory).toMatchObject({
        provider: "corp",
        groups: ["engineering"],
      });
      expect((await signIn("ada")).reply).toMatchObject({ status: 200, body: { user: { role: "auditor" } } });
      const typed = await new ProviderBrowser(gateway).post("/api/session", {
        email: "ada@example.com",
        password: PASSWORD,
      });
      expect(typed).toMatchObject({ status: 401, code: "wrong_credentials" });
    });

    test("is in the audit log with the proof, and the chain is intact", async () => {
      const links = (await admin.call("admin.audit.list")).data.filter(
        ({ action, target }) => action === "directory.link" && target === "user ada@example.com",
      );
      expect(links[0]?.changes).toContainEqual({ field: "proof", from: null, to: "password" });
      expect((await admin.call("admin.audit.verify", { query: { fresh: true } })).broken).toEqual([]);
    });

    test("needs the second factor of the account, once", async () => {
      await createLocal("bea");
      const code = await enableSecondFactor("bea");
      const browser = await begin("bea");
      expect(await finish(browser, { password: "wrong", code })).toMatchObject({ code: "wrong_credentials" });
      expect(await finish(browser)).toMatchObject({ status: 401, code: "second_factor_required" });
      expect(await finish(browser, { password: PASSWORD, code: "000000" })).toMatchObject({
        code: "wrong_credentials",
      });
      expect(await readIdentity("bea")).toBeNull();
      expect(await finish(browser, { password: PASSWORD, code })).toMatchObject({ status: 200 });
      expect(await readIdentity("bea")).not.toBeNull();
    });

    test("proves the ownership also where passwords do not sign in", async () => {
      await createLocal("cleo");
      await configure({ password: "off" });
      expect(await finish(await begin("cleo"))).toMatchObject({ status: 200 });
      await configure();
    });

    test("that is wrong links nothing, is recorded and is throttled, also in a new sign-in", async () => {
      await createLocal("dan");
      const { accountTries } = limits.signIn;
      for (let i = 0; i < accountTries; i++) {
        const browser = await begin("dan");
        expect(await finish(browser, { password: `guess ${i}` })).toMatchObject({
          status: 401,
          code: "wrong_credentials",
        });
      }
      expect(await finish(await begin("dan"))).toMatchObject({ status: 429, code: "rate_limit_exceeded" });
      // The budget is that of the sign-in with a password.
      const typed = { email: "dan@example.com", password: PASSWORD };
      expect((await new ProviderBrowser(gateway).post("/api/session", typed)).status).toBe(429);
      expect(await readIdentity("dan")).toBeNull();
      const { data } = await admin.call("admin.directory.rejected");
      expect(data.filter(({ email }) => email === "dan@example.com").map(({ code }) => code)).toContain(
        "wrong_credentials",
      );
    });

    test("of an account without one does not exist: an empty or missing proof is rejected", async () => {
      await gateway.apply("users: [{ email: emma@example.com }]");
      const browser = await begin("emma");
      for (const proof of [{}, { password: "" }, { password: "null" }, { code: "000000" }, { token: "" }])
        expect((await finish(browser, proof)).status).toBeOneOf([400, 401, 410]);
      expect(await readIdentity("emma")).toBeNull();
    });
  });

  describe("administrators", () => {
    test("link with password and second factor, not by mail, and the last one with a password stays", async () => {
      await createLocal("keeper", ", role: admin");
      await createLocal("fred", ", role: admin");
      const code = await enableSecondFactor("fred");
      const browser = await begin("fred");
      const before = smtp.mails.length;
      expect((await browser.post("/api/sign-in/link/mail", undefined)).status).toBe(200);
      expect(await finish(browser)).toMatchObject({ code: "second_factor_required" });
      expect(await finish(browser, { password: PASSWORD, code })).toMatchObject({
        status: 200,
        body: { user: { role: "admin" } },
      });
      expect(smtp.mails.length).toBe(before);
      const last = await begin("keeper");
      expect(await finish(last)).toMatchObject({
        status: 409,
        message: expect.stringContaining("the only administrator with a password"),
      });
      // The failure has not used up the pending link.
      await createLocal("successor", ", role: admin");
      expect(await finish(last)).toMatchObject({ status: 200 });
    });

    test("do not become linked by a mail that was sent before the promotion", async () => {
      await createLocal("gus");
      const browser = await begin("gus");
      const token = await requestMail(browser, "gus");
      await gateway.apply("users: [{ email: gus@example.com, role: admin }]");
      expect(await finish(browser, { token })).toMatchObject({ status: 403, code: "forbidden" });
      expect(await readIdentity("gus")).toBeNull();
    });
  });

  describe("a mailed link", () => {
    test("links in the browser of the sign-in, once, and ends other sessions and tokens", async () => {
      await createLocal("hana");
      const other = await signInLocally("hana");
      const created = await other.post("/api/tokens", { name: "t", scope: "read", expires_at: null });
      const token = { authorization: `Bearer ${created.body.secret}` };
      expect((await fetch(`${gateway.url}/api/keys`, { headers: token })).status).toBe(200);
      const browser = await begin("hana");
      const mailed = await requestMail(browser, "hana");
      const kept = browser.cookies.get(COOKIE) ?? "";
      expect(await finish(browser, { token: mailed })).toMatchObject({
        status: 200,
        body: { user: { email: "hana@example.com", provider: "corp" } },
      });
      expect((await browser.get("/api/keys")).status).toBe(200);
      expect((await other.get("/api/keys")).status).toBe(401);
      expect((await fetch(`${gateway.url}/api/keys`, { headers: token })).status).toBe(401);
      const again = new ProviderBrowser(gateway);
      again.cookies.set(COOKIE, kept);
      expect(await finish(again, { token: mailed })).toMatchObject(EXPIRED);
    });

    test("needs the second factor too", async () => {
      await createLocal("iris");
      const code = await enableSecondFactor("iris");
      const browser = await begin("iris");
      const token = await requestMail(browser, "iris");
      expect(await finish(browser, { token })).toMatchObject({ code: "second_factor_required" });
      expect(await finish(browser, { token, code })).toMatchObject({ status: 200 });
    });

    test("works for the newest request only, and signs in nowhere else", async () => {
      await createLocal("jane");
      const browser = await begin("jane");
      const first = await requestMail(browser, "jane");
      const second = await requestMail(browser, "jane", 1);
      expect(await finish(browser, { token: first })).toMatchObject({ status: 410, code: "link_used_up" });
      const stranger = new ProviderBrowser(gateway);
      expect((await stranger.post("/api/session/link", { token: second })).code).toBe("link_used_up");
      expect(await finish(stranger, { token: second })).toMatchObject(EXPIRED);
      expect(await finish(browser, { token: second })).toMatchObject({ status: 200 });
    });

    test("is not sent without a mail server", async () => {
      await createLocal("kate");
      const smtpOff = { host: "127.0.0.1", from: "gateway@example.com", enabled: false };
      await admin.call("admin.settings.save", { body: { smtp: smtpOff } });
      const browser = await begin("kate");
      expect(await (await browser.get("/api/sign-in/link")).json()).toMatchObject({ mail: false });
      expect(await browser.post("/api/sign-in/link/mail", undefined)).toMatchObject({ code: "conflict" });
      expect(await finish(browser)).toMatchObject({ status: 200 });
      await gateway.apply(withMail(smtp.port));
    });
  });

  describe("a pending link", () => {
    test("expires after ten minutes", async () => {
      await createLocal("lena");
      const browser = await begin("lena");
      offsetMs = limits.companySignIn.pendingLinkMs + 1;
      try {
        expect(await finish(browser)).toMatchObject(EXPIRED);
        expect((await browser.get("/api/sign-in/link")).status).toBe(400);
      } finally {
        offsetMs = 0;
      }
      expect(await readIdentity("lena")).toBeNull();
    });

    test("works once, also of two requests at the same time", async () => {
      await createLocal("mona");
      const browser = await begin("mona");
      const kept = browser.cookies.get(COOKIE) ?? "";
      const browsers = [new ProviderBrowser(gateway), new ProviderBrowser(gateway)];
      for (const one of browsers) one.cookies.set(COOKIE, kept);
      const statuses = (await Promise.all(browsers.map((one) => finish(one)))).map(({ status }) => status);
      expect(statuses.toSorted()).toEqual([200, 400]);
      // Also after an administrator has removed the link.
      const { id } = (await findUserByEmail(gateway.installation.db, "mona@example.com")) ?? { id: "" };
      await admin.call("admin.directory.unlink", { params: { id } });
      expect(await finish(browser)).toMatchObject(EXPIRED);
      expect(await readIdentity("mona")).toBeNull();
    });

    test("that is missing, damaged or another sealed cookie is rejected", async () => {
      await createLocal("nora");
      const browser = await begin("nora");
      const sealed = browser.cookies.get(COOKIE) ?? "";
      await browser.start("corp");
      const flow = browser.cookies.get("__Host-sign-in") ?? "";
      expect(flow).not.toBe("");
      const damaged = sealed.slice(0, -2) + (sealed.endsWith("AA") ? "BB" : "AA");
      for (const cookie of ["", "x", damaged, flow, sealed.replace(/^v1:[^:]+/, "v1:unknown")]) {
        browser.cookies.set(COOKIE, cookie);
        expect(await finish(browser)).toMatchObject(EXPIRED);
        expect((await browser.get("/api/sign-in/link")).status).toBe(400);
        expect(await browser.post("/api/sign-in/link/mail", undefined)).toMatchObject(EXPIRED);
      }
      expect(await readIdentity("nora")).toBeNull();
    });

    test("is not completed in the session of another person", async () => {
      await createLocal("olga");
      await createLocal("paul");
      const browser = await begin("olga");
      const paul = await signInLocally("paul");
      paul.cookies.set(COOKIE, browser.cookies.get(COOKIE) ?? "");
      expect(await finish(paul)).toMatchObject(EXPIRED);
      expect((await paul.get("/api/sign-in/link")).status).toBe(400);
      expect(await readIdentity("olga")).toBeNull();
      expect(await readIdentity("paul")).toBeNull();
    });

    test("links no account that was disabled, linked or deleted meanwhile", async () => {
      await createLocal("quin");
      const disabled = await begin("quin");
      await gateway.apply("users: [{ email: quin@example.com, status: disabled }]");
      expect(await finish(disabled)).toMatchObject({ status: 403, code: "forbidden" });
      expect(await finish(disabled, { password: "wrong" })).toMatchObject({ code: "wrong_credentials" });
      expect(await readIdentity("quin")).toBeNull();

      await createLocal("rita");
      const slow = await begin("rita", { subject: "slow-rita" });
      expect((await finish(await begin("rita", { subject: "fast-rita" }))).status).toBe(200);
      expect(await finish(slow)).toMatchObject({ status: 409, code: "conflict" });
      expect(await readIdentity("rita")).toMatchObject({ subject: "fast-rita" });

      await createLocal("sven");
      const gone = await begin("sven");
      const { id } = (await findUserByEmail(gateway.installation.db, "sven@example.com")) ?? { id: "" };
      await admin.call("admin.users.delete", { params: { id } });
      await createLocal("sven");
      expect(await finish(gone)).toMatchObject(EXPIRED);
      expect(await readIdentity("sven")).toBeNull();
    });

    test("does not survive another client at the provider", async () => {
      await createLocal("tess");
      const browser = await begin("tess");
      const other = { id: "another-client", secret: CLIENT.secret };
      await gateway.apply(`
sign_in:
  providers: [{ name: corp, issuer: "${provider.issuer}", client_id: ${other.id}, client_secret: ${other.secret}, private_network: true }]`);
      expect(await finish(browser)).toMatchObject(EXPIRED);
      await configure();
    });

    test("is not begun for a linked account, nor with more groups than a cookie holds", async () => {
      const linked = await signIn("rita", { subject: "third-rita" });
      expect(linked.reply).toMatchObject({ status: 409, code: "conflict" });
      expect(linked.browser.cookies.has(COOKIE)).toBe(false);
      await createLocal("uma");
      const names = Array.from({ length: 70 }, (_, i) => `${"g".repeat(40)}-${i}`);
      const list = names.map((name) => `  - { name: ${name}, models: [fast-chat], accounts: [sim] }`);
      const mapped = names.map((name) => `${name}: [all]`).join(", ");
      await gateway.apply(`
groups:
${list.join("\n")}
sign_in:
  providers: [{ name: corp, issuer: "${provider.issuer}", client_id: ${CLIENT.id}, client_secret: ${CLIENT.secret}, private_network: true, groups: { ${mapped} } }]`);
      const many = await signIn("uma", { groups: ["all"] });
      expect(many.reply).toMatchObject({
        status: 409,
        code: "conflict",
        message: expect.stringContaining("Profile and security"),
      });
      expect(many.browser.cookies.has(COOKIE)).toBe(false);
      await configure();
    });
  });

  test("an attacker with the address of the victim at the provider, but without the password, links nothing", async () => {
    await createLocal("victim");
    const victim = await signInLocally("victim");
    const attacker = await begin("victim", { subject: "attacker" });
    // The mail goes to the victim. Its link does nothing in another browser than that of the attacker.
    const mailed = await requestMail(attacker, "victim");
    expect(await finish(victim, { token: mailed })).toMatchObject(EXPIRED);
    expect(await finish(new ProviderBrowser(gateway), { token: mailed })).toMatchObject(EXPIRED);
    // Nor in a browser in which the victim signs in at the provider, too.
    const own = await begin("victim", { subject: "real-victim" });
    expect(await finish(own, { token: mailed })).toMatchObject({ code: "link_used_up" });
    for (const proof of [{ password: "guess" }, { token: "x".repeat(43) }, { token: mailed.slice(1) }])
      expect((await finish(attacker, proof)).status).toBeOneOf([400, 401, 410]);
    // An account of the attacker, with a known password, does not help with the pending link of the victim.
    await createLocal("attackers-own");
    const session = await signInLocally("attackers-own");
    session.cookies.set(COOKIE, attacker.cookies.get(COOKIE) ?? "");
    expect(await finish(session)).toMatchObject(EXPIRED);
    expect(await readIdentity("victim")).toBeNull();
    expect((await victim.get("/api/keys")).status).toBe(200);
    expect((await signIn("victim", { subject: "attacker" })).reply.code).toBe("account_exists");
  });

  test("`create_users` decides about new users only: an existing account is linked under each rule", async () => {
    for (const rule of ["invited", "scim"]) {
      await configure({ provider: `      create_users: ${rule}`, more: "scim: { provider: corp }" });
      expect((await signIn(`new-${rule}`)).reply).toMatchObject({ status: 403, code: "not_assigned" });
      await createLocal(`old-${rule}`);
      expect(await finish(await begin(`old-${rule}`))).toMatchObject({ status: 200 });
    }
  });
});
