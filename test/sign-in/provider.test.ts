/** Sign-in at a real OpenID Connect provider: users, roles, groups and keys follow the claims of each sign-in. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { totpCode, totpStep } from "../../src/secrets/totp.ts";
import { findIdentityOfUser } from "../../src/store/identity/external-identities.ts";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type EngineUnderTest, eachEngine } from "../support/each-engine.ts";
import { CLIENT, type OpenidProvider, startOpenidProvider } from "../support/openid-provider.ts";
import { ProviderBrowser, type SignInReply } from "../support/provider-browser.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

// Passwords are hashed slowly, and the machine may be busy.
setDefaultTimeout(60_000);

let gateway: RunningGateway;
let provider: OpenidProvider;
let admin: SignedInClient;

function signInFile(fields = "", password = "allowed"): string {
  return `
groups:
  - { name: engineering, access: members, models: [fast-chat], accounts: [sim] }
  - { name: research, access: members, models: [fast-chat], accounts: [sim] }
sign_in:
  password: ${password}
  providers:
    - name: corp
      issuer: ${provider.issuer}
      client_id: ${CLIENT.id}
      client_secret: ${CLIENT.secret}
      private_network: true
      roles: { admin: [llm-admins], auditor: [finance] }
      groups: { engineering: [eng-all], research: [ml] }
${fields}`;
}

const REQUIRE = "      require_group: [llm-users, llm-admins]";

function useGateway(engine: EngineUnderTest): void {
  beforeAll(async () => {
    gateway = await startTestGateway({ databaseUrl: await engine.emptyUrl() });
    provider = await startOpenidProvider([`${gateway.url}/console/sign-in/callback`]);
    await gateway.apply(signInFile());
    admin = await signInAs(gateway, "root@example.com", "admin");
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });
}

function setPerson(subject: string, groups: readonly string[], more: Record<string, unknown> = {}): void {
  provider.people.set(subject, {
    email: `${subject}@example.com`,
    email_verified: true,
    groups,
    ...more,
  });
}

async function signIn(subject: string, browser = new ProviderBrowser(gateway)): Promise<SignInReply> {
  return browser.finish(await provider.visit(await browser.start("corp"), subject));
}

async function requireUser(email: string) {
  const user = await findUserByEmail(gateway.installation.db, email);
  if (user === null) throw new Error(`${email} does not exist.`);
  return user;
}

function callModel(secret: string): Promise<Response> {
  return fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "fast-chat", messages: [{ role: "user", content: "hi" }] }),
  });
}

eachEngine((engine) => {
  useGateway(engine);

  describe("a first sign-in", () => {
    test("creates the user, begins a session and returns to the requested page", async () => {
      setPerson("ada", ["eng-all"]);
      const browser = new ProviderBrowser(gateway);
      const url = new URL(await browser.start("corp", { next: "/keys" }));
      expect(url.searchParams.get("code_challenge_method")).toBe("S256");
      expect(url.searchParams.get("response_mode")).toBe("query");
      expect(url.searchParams.get("redirect_uri")).toBe(`${gateway.url}/console/sign-in/callback`);
      const reply = await browser.finish(await provider.visit(url.href, "ada"));
      expect(reply).toMatchObject({
        status: 200,
        body: { next: "/keys", user: { email: "ada@example.com", role: "user", provider: "corp" } },
      });
      expect([...browser.cookies.keys()]).toEqual(["__Host-session"]);
      expect(await (await browser.get("/api/session")).json()).toMatchObject({
        user: { email: "ada@example.com", has_password: false },
      });
      const user = await requireUser("ada@example.com");
      expect(await findIdentityOfUser(gateway.installation.db, user.id)).toMatchObject({
        issuer: provider.issuer,
        subject: "ada",
      });
    });

    test("is in the audit log, whose chain is intact", async () => {
      const actions = (await admin.call("admin.audit.list")).data.map(({ action }) => action);
      expect(actions).toContain("directory.link");
      expect(actions).toContain("session.create");
      expect((await admin.call("admin.audit.verify", { query: { fresh: true } })).broken).toEqual([]);
    });

    test("with an address of an existing user links nothing", async () => {
      await signInAs(gateway, "taken@example.com");
      setPerson("taken", []);
      expect(await signIn("taken")).toMatchObject({ status: 409, code: "account_exists" });
      const user = await requireUser("taken@example.com");
      expect(await findIdentityOfUser(gateway.installation.db, user.id)).toBeNull();
    });

    test("a person is the subject, not the address: a recycled address does not inherit the account", async () => {
      setPerson("old-eve", [], { email: "eve@example.com" });
      expect((await signIn("old-eve")).status).toBe(200);
      setPerson("new-eve", [], { email: "eve@example.com" });
      expect(await signIn("new-eve")).toMatchObject({ status: 409 });
      // The old person with another address is still the same user.
      setPerson("old-eve", [], { email: "eve.married@example.com" });
      expect((await signIn("old-eve")).body).toMatchObject({ user: { email: "eve@example.com" } });
    });

    test("of two concurrent first sign-ins of a person, both succeed with one user", async () => {
      setPerson("twin", []);
      const browsers = [new ProviderBrowser(gateway), new ProviderBrowser(gateway)];
      const returned = await Promise.all(
        browsers.map(async (browser) => provider.visit(await browser.start("corp"), "twin")),
      );
      const replies = await Promise.all(returned.map((url, i) => browsers[i]?.finish(url)));
      expect(replies.map((reply) => reply?.status)).toEqual([200, 200]);
    });
  });

  describe("roles and groups", () => {
    test("follow the claims of each sign-in, and only what the directory granted is removed", async () => {
      setPerson("bob", ["finance", "eng-all"]);
      expect((await signIn("bob")).body).toMatchObject({ user: { role: "auditor" } });
      const bob = await requireUser("bob@example.com");
      expect(bob).toMatchObject({
        role: "user",
        groups: [],
        directory: { provider: "corp", role: "auditor" },
      });
      // An administrator grants `research`, and `engineering` too.
      await admin.call("admin.users.change", {
        params: { id: bob.id },
        body: { groups: ["research", "engineering"] },
      });
      setPerson("bob", ["llm-admins", "finance"]);
      expect((await signIn("bob")).body).toMatchObject({ user: { role: "admin" } });
      setPerson("bob", []);
      expect((await signIn("bob")).body).toMatchObject({ user: { role: "user" } });
      expect((await requireUser("bob@example.com")).groups).toHaveLength(2);
    });

    test("a role that an administrator gave stays when the directory grants a lower one or none", async () => {
      setPerson("carl", []);
      await signIn("carl");
      const { id } = await requireUser("carl@example.com");
      await admin.call("admin.users.change", { params: { id }, body: { role: "auditor" } });
      setPerson("carl", ["llm-admins"]);
      expect((await signIn("carl")).body).toMatchObject({ user: { role: "admin" } });
      setPerson("carl", []);
      expect((await signIn("carl")).body).toMatchObject({ user: { role: "auditor" } });
    });

    test("losing a role ends all sessions that had it", async () => {
      setPerson("dora", ["llm-admins"]);
      const before = new ProviderBrowser(gateway);
      await signIn("dora", before);
      expect((await before.get("/api/admin/users")).status).toBe(200);
      setPerson("dora", []);
      await signIn("dora");
      expect((await before.get("/api/admin/users")).status).toBe(401);
    });

    test("a file that does not name the groups of the directory keeps them, and pruning keeps its people", async () => {
      setPerson("fay", ["eng-all"]);
      await signIn("fay");
      await gateway.apply(`users:\n  - { email: fay@example.com, groups: [research] }\n`);
      const fay = await requireUser("fay@example.com");
      const detail = await admin.call("admin.users.get", { params: { id: fay.id } });
      expect(detail.groups).toEqual(["research"]);
      expect(detail.directory).toEqual({
        provider: "corp",
        role: null,
        groups: ["engineering"],
        deactivated: false,
      });
    });
  });

  describe("keys", () => {
    async function createKey(browser: ProviderBrowser, group: string): Promise<string> {
      const { body } = await browser.post("/api/keys", { name: group, group });
      return String(body.secret);
    }

    test("of a lost group are suspended, and return with the group", async () => {
      setPerson("gil", ["eng-all", "ml"]);
      const browser = new ProviderBrowser(gateway);
      await signIn("gil", browser);
      const lost = await createKey(browser, "engineering");
      const kept = await createKey(browser, "research");
      expect((await callModel(lost)).status).toBe(200);
      setPerson("gil", ["ml"]);
      await signIn("gil", browser);
      expect((await callModel(lost)).status).toBe(401);
      expect((await callModel(kept)).status).toBe(200);
      expect((await browser.post("/api/keys", { name: "another", group: "engineering" })).status).toBe(400);
      setPerson("gil", ["eng-all", "ml"]);
      await signIn("gil", browser);
      expect((await callModel(lost)).status).toBe(200);
    });

    test("a suspended key that is revoked does not return", async () => {
      setPerson("hal", ["eng-all"]);
      const browser = new ProviderBrowser(gateway);
      await signIn("hal", browser);
      const secret = await createKey(browser, "engineering");
      setPerson("hal", []);
      await signIn("hal", browser);
      const { id } = await requireUser("hal@example.com");
      const [key] = (await admin.call("admin.keys.list", { query: { user: id } })).data;
      expect(key).toMatchObject({ status: "suspended", suspension: { group: "engineering" } });
      expect((await admin.call("keys.revoke", { params: { id: key?.id ?? "" } })).revoked).toBe(true);
      setPerson("hal", ["eng-all"]);
      await signIn("hal", browser);
      expect((await callModel(secret)).status).toBe(401);
      const revoked = await admin.call("admin.keys.list", { query: { user: id, status: "revoked" } });
      expect(revoked.data).toMatchObject([{ status: "revoked", suspension: null }]);
    });

    test("of a person who lost the required group stop, with sessions and tokens, and return with it", async () => {
      await gateway.apply(signInFile(REQUIRE));
      setPerson("ida", ["llm-users", "eng-all"]);
      const browser = new ProviderBrowser(gateway);
      await signIn("ida", browser);
      const secret = await createKey(browser, "engineering");
      const { body } = await browser.post("/api/tokens", { name: "t", scope: "read", expires_at: null });
      const token = { authorization: `Bearer ${body.secret}` };
      expect((await fetch(`${gateway.url}/api/keys`, { headers: token })).status).toBe(200);
      const link = await admin.call("admin.links.create", {
        body: { purpose: "sign_in", email: "ida@example.com" },
      });
      const linkToken = new URL(link.url).hash.slice(1);
      setPerson("ida", ["eng-all"]);
      const rejected = await signIn("ida");
      expect(rejected).toMatchObject({ status: 403, code: "not_assigned" });
      expect(rejected.message).toContain("`groups`");
      expect((await callModel(secret)).status).toBe(401);
      expect((await fetch(`${gateway.url}/api/keys`, { headers: token })).status).toBe(401);
      expect((await browser.get("/api/keys")).status).toBe(401);
      const read = await admin.callRejected("links.read", { body: { token: linkToken } });
      expect(read.code).toBe("link_used_up");
      const { id } = await requireUser("ida@example.com");
      const [key] = (await admin.call("admin.keys.list", { query: { user: id } })).data;
      expect(key).toMatchObject({ status: "suspended", suspension: { group: null } });
      setPerson("ida", ["llm-users", "eng-all"]);
      expect((await signIn("ida")).status).toBe(200);
      expect((await callModel(secret)).status).toBe(200);
      await gateway.apply(signInFile());
    });

    test("a file does not replace a suspended key", async () => {
      setPerson("jon", ["eng-all"]);
      const browser = new ProviderBrowser(gateway);
      await signIn("jon", browser);
      await createKey(browser, "engineering");
      setPerson("jon", []);
      await signIn("jon", browser);
      await gateway.apply(`
users:
  - { email: jon@example.com, groups: [] }
keys:
  - { name: engineering, user: jon@example.com, group: engineering }
`);
      const { id } = await requireUser("jon@example.com");
      const { data } = await admin.call("admin.keys.list", { query: { user: id } });
      expect(data.map(({ status }) => status)).toEqual(["suspended"]);
    });
  });

  describe("passwords", () => {
    const password = "correct horse battery staple";

    test("of a person of the provider cannot be set, and none can be used", async () => {
      setPerson("kim", []);
      const browser = new ProviderBrowser(gateway);
      await signIn("kim", browser);
      expect(await browser.post("/api/password", { new_password: password })).toMatchObject({ status: 409 });
      expect(await browser.post("/api/second-factor", {})).toMatchObject({ status: 409 });
      await gateway.apply(`users:\n  - { email: kim@example.com, password: "${password}" }\n`);
      const typed = await new ProviderBrowser(gateway).post("/api/session", {
        email: "kim@example.com",
        password,
      });
      expect(typed).toMatchObject({ status: 401, code: "wrong_credentials" });
    });

    test("`admins` leaves the local administrator a way in, and says nothing about other passwords", async () => {
      await gateway.apply(`
users:
  - { email: local-admin@example.com, role: admin, password: "${password}" }
  - { email: local-user@example.com, password: "${password}" }
${signInFile("", "admins")}`);
      const type = (email: string, typed = password) =>
        new ProviderBrowser(gateway).post("/api/session", { email, password: typed });
      expect((await type("local-admin@example.com")).status).toBe(200);
      const right = await type("local-user@example.com");
      const wrong = await type("local-user@example.com", "another wrong password");
      expect(right).toMatchObject({ status: 401, code: "wrong_credentials" });
      expect(wrong.message).toBe(right.message);
      await gateway.apply(signInFile("", "off"));
      expect((await type("local-admin@example.com")).status).toBe(401);
      await gateway.apply(signInFile());
    });
  });

  test("one administrator with a password remains, who is not linked", async () => {
    const file = (status: string) =>
      `users:\n  - { email: local-admin@example.com, role: admin, status: ${status} }\n`;
    await gateway.apply(file("active"));
    const { id } = await requireUser("local-admin@example.com");
    const params = { id };
    for (const body of [{ role: "user" }, { role: "auditor" }, { status: "disabled" }] as const) {
      const rejected = await admin.callRejected("admin.users.change", { params, body });
      expect(rejected).toMatchObject({ status: 409 });
      expect(rejected.message).toContain("the only administrator with a password");
    }
    expect((await admin.callRejected("admin.users.delete", { params })).message).toContain("with a password");
    await expect(gateway.apply(file("disabled"))).rejects.toThrow("the only administrator with a password");
    await gateway.apply(
      'users:\n  - { email: second-admin@example.com, role: admin, password: "correct horse battery staple" }\n',
    );
    await admin.call("admin.users.change", { params, body: { role: "user" } });
  });

  describe("linking", () => {
    const password = "correct horse battery staple";

    async function openLocal(email: string, role = "user"): Promise<ProviderBrowser> {
      await gateway.apply(`users:\n  - { email: ${email}, role: ${role}, password: "${password}" }\n`);
      const browser = new ProviderBrowser(gateway);
      await browser.post("/api/session", { email, password });
      return browser;
    }

    test("needs the password of the account, and then the provider signs in", async () => {
      setPerson("lea", ["eng-all"]);
      const browser = await openLocal("lea@example.com");
      expect(await browser.post("/api/sign-in/start", { provider: "corp", purpose: "link" })).toMatchObject({
        status: 401,
      });
      const url = await browser.start("corp", { purpose: "link", password });
      expect(await browser.finish(await provider.visit(url, "lea"))).toMatchObject({ status: 200 });
      expect((await signIn("lea")).body).toMatchObject({ user: { email: "lea@example.com" } });
    });

    test("cannot take a person who is linked to another user", async () => {
      const browser = await openLocal("thief@example.com");
      const url = await browser.start("corp", { purpose: "link", password });
      expect(await browser.finish(await provider.visit(url, "lea"))).toMatchObject({ status: 409 });
    });

    test("cannot be completed in the session of another user", async () => {
      setPerson("mia", []);
      const victim = await openLocal("victim@example.com");
      const attacker = await openLocal("attacker@example.com");
      const returned = await provider.visit(
        await attacker.start("corp", { purpose: "link", password }),
        "mia",
      );
      const flow = attacker.cookies.get("__Host-sign-in") ?? "";
      victim.cookies.set("__Host-sign-in", flow);
      expect(await victim.finish(returned)).toMatchObject({ status: 400, code: "sign_in_expired" });
    });

    test("unlinking makes the user a local one without what the directory granted", async () => {
      setPerson("ned", ["llm-admins"]);
      const browser = new ProviderBrowser(gateway);
      await signIn("ned", browser);
      const { id } = await requireUser("ned@example.com");
      await admin.call("admin.directory.unlink", { params: { id } });
      expect(await requireUser("ned@example.com")).toMatchObject({ role: "user" });
      expect((await browser.get("/api/keys")).status).toBe(401);
    });
  });

  describe("an operation that needs the password again", () => {
    const password = "correct horse battery staple";
    /** A linked person whose account had a second factor before. */
    async function openLinked(subject: string): Promise<ProviderBrowser> {
      const email = `${subject}@example.com`;
      await gateway.apply(`users:\n  - { email: ${email}, password: "${password}" }\n`);
      const browser = new ProviderBrowser(gateway);
      await browser.post("/api/session", { email, password });
      const { body } = await browser.post("/api/second-factor", { password });
      const code = totpCode(String(body.secret), totpStep(gateway.installation.clock.nowMs()));
      expect((await browser.post("/api/second-factor/confirm", { code })).status).toBe(200);
      setPerson(subject, []);
      const url = await browser.start("corp", { purpose: "link", password });
      expect((await browser.finish(await provider.visit(url, subject))).status).toBe(200);
      return browser;
    }

    test("needs a recent sign-in at the provider, and the confirmation holds for one session", async () => {
      const browser = await openLinked("pia");
      const renew = (from = browser) => from.post("/api/recovery-codes", { password });
      expect(await renew()).toMatchObject({ status: 401, code: "confirmation_required" });
      // A sign-in, for which a session at the provider is sufficient, confirms nothing.
      await signIn("pia", browser);
      expect(await renew()).toMatchObject({ status: 401, code: "confirmation_required" });
      const url = await browser.start("corp", { purpose: "confirm", next: "/profile" });
      expect(new URL(url).searchParams.get("max_age")).toBe("300");
      expect(await browser.finish(await provider.visit(url, "pia"))).toMatchObject({
        status: 200,
        body: { next: "/profile", user: { email: "pia@example.com" } },
      });
      expect(await renew()).toMatchObject({ status: 200 });
      const other = new ProviderBrowser(gateway);
      await signIn("pia", other);
      other.cookies.set("__Host-confirmation", browser.cookies.get("__Host-confirmation") ?? "");
      expect(await renew(other)).toMatchObject({ status: 401, code: "confirmation_required" });
    });

    test("is not confirmed by another person of the provider, or without a session", async () => {
      const browser = await openLinked("quin");
      setPerson("rex", []);
      const url = await browser.start("corp", { purpose: "confirm" });
      const returned = await provider.visit(url, "rex");
      expect(await browser.finish(returned)).toMatchObject({ status: 401, code: "identity_rejected" });
      expect(await browser.post("/api/recovery-codes", {})).toMatchObject({ code: "confirmation_required" });
      const start = { provider: "corp", purpose: "confirm" };
      expect(await new ProviderBrowser(gateway).post("/api/sign-in/start", start)).toMatchObject({
        code: "sign_in_required",
      });
    });
  });

  describe("the page Directory", () => {
    test("lists people with their last sign-in, and rejected sign-ins with their reason", async () => {
      setPerson("olga", [], { email_verified: false });
      await signIn("olga");
      const directory = await admin.call("admin.directory.list");
      expect(directory.data.map(({ email }) => email)).toContain("ada@example.com");
      const { data: rejected } = await admin.call("admin.directory.rejected");
      expect(rejected[0]).toMatchObject({
        provider: "corp",
        code: "address_not_verified",
        subject: "olga",
        email: "olga@example.com",
      });
    });
  });
});
