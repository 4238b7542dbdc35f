/** Users and the console's API on a running gateway: sign-up, sign-in, authentication and sign-out. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { offerAdminClaim } from "../../src/config/first-run/admin-claim.ts";
import { limits } from "../../src/config/limits/product-limits.ts";
import { createLink } from "../../src/console-api/auth/create-link.ts";
import { totpCode, totpStep } from "../../src/secrets/totp.ts";
import { listChanges, verifyAuditLog } from "../../src/store/audit-log/audit-log.ts";
import {
  beginSecondFactor,
  confirmSecondFactor,
  findCredentials,
} from "../../src/store/identity/credentials.ts";
import { listLinks } from "../../src/store/identity/links.ts";
import {
  type ConsoleClient,
  createTokenClient,
  openConsoleClient,
  type SignedInClient,
  signInAs,
} from "../support/console-client.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type SmtpServer, startSmtpServer } from "../support/smtp-server.ts";

const PASSWORD = "correct horse battery";
const NEW_PASSWORD = "staple of a new one";

let gateway: RunningGateway;
let admin: SignedInClient;

beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.stop());

const stranger = (): ConsoleClient => openConsoleClient(gateway.url, { origin: gateway.url });

/** The cookie as a browser stores it. */
function openBrowser(response: Response): ConsoleClient & { cookie: string } {
  const [cookie = ""] = response.headers.get("set-cookie")?.split(";") ?? [];
  return { ...openConsoleClient(gateway.url, { cookie, origin: gateway.url }), cookie };
}

async function signIn(email: string, password: string, code?: string) {
  const body = { email, password, ...(code === undefined ? {} : { code }) };
  const response = await stranger().send("session.create", { body });
  if (!response.ok) throw new Error(await response.text());
  return openBrowser(response);
}

const tokenIn = (text: string) => /#(\w+)/.exec(text)?.[1] ?? "";

async function invited(email: string): Promise<ConsoleClient & { cookie: string }> {
  const { url } = await admin.call("admin.links.create", { body: { purpose: "invite", email } });
  const body = { token: tokenIn(url), password: PASSWORD };
  return openBrowser(await stranger().send("invitation.accept", { body }));
}

describe("the first administrator", () => {
  test("is created once, with the link of the first start", async () => {
    const link = await offerAdminClaim(gateway.installation, gateway.url);
    expect(link).toStartWith(`${gateway.url}/console/claim#`);
    expect((await stranger().call("session.current")).unclaimed).toBe(true);
    await gateway.apply("registration: open");
    const early = { body: { email: "boss@example.com", password: NEW_PASSWORD } };
    expect(await stranger().callRejected("registration.create", early)).toMatchObject({
      code: "registration_closed",
      message: expect.stringContaining("no administrator yet"),
    });
    await gateway.apply("registration: closed");
    const claim = { token: tokenIn(link ?? ""), email: "Boss@example.com", password: PASSWORD };
    const wrong = await stranger().callRejected("claim.use", { body: { ...claim, token: "x" } });
    expect(wrong).toMatchObject({ status: 410, code: "link_used_up" });
    const weak = await stranger().callRejected("claim.use", { body: { ...claim, password: "short" } });
    expect(weak).toMatchObject({ status: 400, param: "password" });
    const boss = openBrowser(await stranger().send("claim.use", { body: claim }));
    expect((await boss.call("session.current")).user).toMatchObject({
      email: "boss@example.com",
      role: "admin",
    });
    expect(await stranger().callRejected("claim.use", { body: claim })).toMatchObject({
      code: "link_used_up",
    });
    expect((await stranger().call("session.current")).unclaimed).toBe(false);
    expect(await offerAdminClaim(gateway.installation, gateway.url)).toBeNull();
    admin = await signInAs(gateway, "boss@example.com");
  });
});

describe("claiming the address of an existing user", () => {
  let other: RunningGateway;
  beforeAll(async () => {
    other = await startTestGateway();
  });
  afterAll(() => other.stop());

  test("removes all access of the previous owner", async () => {
    const { db, clock } = other.installation;
    await other.apply(`users: [{ email: boss@example.com, password: ${JSON.stringify(PASSWORD)} }]`);
    const before = await signInAs(other, "boss@example.com");
    const program = await createTokenClient(other, "boss@example.com", "keys");
    const { id } = before.user;
    await beginSecondFactor(db, id, "sealed");
    await confirmSecondFactor(db, id, { sealedSecret: "sealed", sinceMs: 1 }, ["digest"]);
    const by = { actor: { kind: "system", id: null, name: "gateway" }, address: null } as const;
    await createLink(db, other.installation, { purpose: "sign_in", user: before.user }, by);
    await createLink(db, other.installation, { purpose: "reset", user: before.user }, by);
    const link = await offerAdminClaim(other.installation, other.url);
    const anonymous = openConsoleClient(other.url, { origin: other.url });
    const body = { token: tokenIn(link ?? ""), email: "boss@example.com", password: NEW_PASSWORD };
    expect((await anonymous.call("claim.use", { body })).user).toMatchObject({
      id,
      role: "admin",
      has_second_factor: false,
    });
    expect((await before.call("session.current")).user).toBeNull();
    expect(await program.callRejected("session.current")).toMatchObject({ code: "sign_in_required" });
    expect(await findCredentials(db, id)).toMatchObject({ secondFactor: null, recoveryDigests: [] });
    expect(await listLinks(db, clock.nowMs(), { after: null, limit: 9 })).toEqual([]);
  });
});

describe("signing in", () => {
  beforeAll(() => invited("ada@example.com"));

  test("sets a cookie that is hidden from scripts and other sites", async () => {
    const body = { email: "ADA@example.com", password: PASSWORD };
    const response = await stranger().send("session.create", { body });
    expect(response.headers.get("set-cookie")).toMatch(
      /^__Host-session=[0-9A-Za-z]{43}; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=1209600$/,
    );
    expect(await response.json()).toMatchObject({ user: { email: "ada@example.com", role: "user" } });
  });

  test("with a wrong password or an unknown address gets the same error", async () => {
    const bodies = [
      { email: "ada@example.com", password: "wrong" },
      { email: "anonymous@example.com", password: PASSWORD },
    ];
    const [wrong, anonymous] = await Promise.all(
      bodies.map((body) => stranger().callRejected("session.create", { body })),
    );
    expect(wrong).toMatchObject({ status: 401, code: "wrong_credentials" });
    expect(anonymous).toEqual(wrong as NonNullable<typeof wrong>);
  });

  test("creates a new session each time and ends the browser's previous one", async () => {
    const first = await signIn("ada@example.com", PASSWORD);
    const again = await first.send("session.create", {
      body: { email: "ada@example.com", password: PASSWORD },
    });
    const second = openBrowser(again);
    expect(second.cookie).not.toBe(first.cookie);
    expect((await first.call("session.current")).user).toBeNull();
    expect((await second.call("session.current")).user).not.toBeNull();
  });

  test("and out ends the session and deletes the cookie", async () => {
    const browser = await signIn("ada@example.com", PASSWORD);
    const response = await browser.send("session.end");
    expect(response.headers.get("set-cookie")).toContain("__Host-session=; ");
    expect(response.headers.get("set-cookie")).toContain("Max-Age=0");
    expect(await browser.callRejected("sessions.list")).toMatchObject({ code: "sign_in_required" });
  });

  test("over an unencrypted connection is rejected with a hint", async () => {
    const host = "192.168.1.5:8787";
    const far = openConsoleClient(gateway.url, { host, origin: `http://${host}` });
    const body = { email: "ada@example.com", password: PASSWORD };
    expect(await far.callRejected("session.create", { body })).toMatchObject({
      code: "forbidden",
      message: expect.stringContaining("HTTPS"),
    });
  });

  test("after too many failures is throttled for that account only, even with the right password", async () => {
    await invited("slow@example.com");
    const body = (password: string) => ({ body: { email: "slow@example.com", password } });
    for (let n = 0; n < limits.signIn.accountTries; n += 1) {
      expect((await stranger().callRejected("session.create", body("wrong"))).status).toBe(401);
    }
    const response = await stranger().send("session.create", body(PASSWORD));
    expect(response.status).toBe(429);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await response.text()).toContain("Too many attempts for this account");
    await signIn("ada@example.com", PASSWORD);
  });

  test("failures of others do not block a signed-in user from changing the password", async () => {
    const browser = await invited("besieged@example.com");
    for (let n = 0; n <= limits.signIn.accountTries; n += 1) {
      await stranger().callRejected("session.create", {
        body: { email: "besieged@example.com", password: "wrong" },
      });
    }
    await browser.call("password.change", { body: { password: PASSWORD, new_password: NEW_PASSWORD } });
  });

  test("to a disabled account is rejected, and only the right password reveals why", async () => {
    await invited("gone@example.com");
    await gateway.apply("users: [{ email: gone@example.com, status: disabled }]");
    const body = { email: "gone@example.com", password: PASSWORD };
    expect(await stranger().callRejected("session.create", { body })).toMatchObject({ code: "forbidden" });
    expect(
      await stranger().callRejected("session.create", { body: { ...body, password: "wrong" } }),
    ).toMatchObject({ code: "wrong_credentials" });
  });
});

describe("sessions", () => {
  test("are listed, revoked one by one, and all others at once", async () => {
    await invited("many@example.com");
    const [one, two, three] = await Promise.all([1, 2, 3].map(() => signIn("many@example.com", PASSWORD)));
    if (one === undefined || two === undefined || three === undefined) throw new Error("not signed in");
    const { data } = await one.call("sessions.list");
    expect(data).toHaveLength(4);
    const own = data.find(({ current }) => current);
    const other = (await two.call("sessions.list")).data.find(({ current }) => current);
    expect(own?.id).not.toBe(other?.id);
    await one.call("sessions.revoke", { params: { id: other?.id ?? "" } });
    expect((await two.call("session.current")).user).toBeNull();
    expect(await one.call("sessions.revoke_others")).toEqual({ revoked: 2 });
    expect((await three.call("session.current")).user).toBeNull();
    expect((await one.call("sessions.list")).data).toHaveLength(1);
  });

  test("of other users are not found", async () => {
    const { data } = await admin.call("sessions.list");
    const eve = await invited("eve@example.com");
    const params = { id: data[0]?.id ?? "" };
    expect(await eve.callRejected("sessions.revoke", { params })).toMatchObject({
      status: 404,
      code: "not_found",
    });
    expect((await admin.call("session.current")).user).not.toBeNull();
  });

  test("expire when idle, and after a maximum age", async () => {
    const { db, clock } = gateway.installation;
    const idle = await signInAs(gateway, "idle@example.com");
    const seenAtMs = clock.nowMs() - limits.sessionIdleMs;
    await db.sql`UPDATE session SET seen_at_ms = ${seenAtMs} WHERE user_id = ${idle.user.id}`;
    expect((await idle.call("session.current")).user).toBeNull();
    const old = await signInAs(gateway, "old@example.com");
    const createdAtMs = clock.nowMs() - limits.sessionMs;
    await db.sql`UPDATE session SET created_at_ms = ${createdAtMs} WHERE user_id = ${old.user.id}`;
    expect((await old.call("session.current")).user).toBeNull();
  });
});

describe("a password", () => {
  test("is changed with the old one, and all other sessions end", async () => {
    const browser = await invited("change@example.com");
    const other = await signIn("change@example.com", PASSWORD);
    const change = (password: string) => ({ body: { password, new_password: NEW_PASSWORD } });
    expect(await browser.callRejected("password.change", change("wrong"))).toMatchObject({
      code: "wrong_credentials",
      param: "password",
    });
    const here = openBrowser(await browser.send("password.change", change(PASSWORD)));
    expect((await here.call("session.current")).user).not.toBeNull();
    expect((await browser.call("session.current")).user).toBeNull();
    expect((await other.call("session.current")).user).toBeNull();
    await signIn("change@example.com", NEW_PASSWORD);
  });

  test("that is too short is rejected at its field", async () => {
    const browser = await invited("short@example.com");
    const body = { password: PASSWORD, new_password: "short" };
    expect(await browser.callRejected("password.change", { body })).toMatchObject({
      status: 400,
      param: "new_password",
      message: expect.stringContaining("12"),
    });
  });

  test("that was forgotten needs an administrator's link if no mail server is set", async () => {
    const browser = await invited("lost@example.com");
    expect(
      await stranger().callRejected("password.forgot", { body: { email: "lost@example.com" } }),
    ).toMatchObject({ code: "conflict", message: expect.stringContaining("administrator") });
    const made = { body: { purpose: "reset", email: "lost@example.com" } };
    const { url, mailed } = await admin.call("admin.links.create", made);
    expect(mailed).toBe(false);
    const token = tokenIn(url);
    expect(await stranger().call("links.read", { body: { token } })).toMatchObject({
      purpose: "reset",
      email: "lost@example.com",
    });
    const program = await createTokenClient(gateway, "lost@example.com", "keys");
    await stranger().call("password.reset", { body: { token, password: NEW_PASSWORD } });
    expect((await browser.call("session.current")).user).toBeNull();
    expect(await program.callRejected("session.current")).toMatchObject({ code: "sign_in_required" });
    await signIn("lost@example.com", NEW_PASSWORD);
    const again = { body: { token, password: PASSWORD } };
    expect(await stranger().callRejected("password.reset", again)).toMatchObject({ code: "link_used_up" });
    expect(await stranger().callRejected("links.read", { body: { token } })).toMatchObject({ status: 410 });
  });
});

describe("a sign-in link", () => {
  test("signs its user in once and has no other use", async () => {
    await gateway.apply("users: [{ email: linked@example.com }]");
    const { url } = await admin.call("admin.links.create", {
      body: { purpose: "sign_in", email: "linked@example.com" },
    });
    const token = tokenIn(url);
    const reset = { body: { token, password: NEW_PASSWORD } };
    expect(await stranger().callRejected("password.reset", reset)).toMatchObject({ code: "link_used_up" });
    const browser = openBrowser(await stranger().send("session.create_by_link", { body: { token } }));
    expect((await browser.call("session.current")).user).toMatchObject({
      email: "linked@example.com",
      has_password: false,
    });
    expect(await stranger().callRejected("session.create_by_link", { body: { token } })).toMatchObject({
      code: "link_used_up",
    });
    // A user without a password does not need proof to choose one.
    await browser.call("password.change", { body: { new_password: NEW_PASSWORD } });
    await signIn("linked@example.com", NEW_PASSWORD);
  });

  test("is listed without its token and can be revoked", async () => {
    const { url } = await admin.call("admin.links.create", {
      body: { purpose: "invite", email: "late@example.com" },
    });
    const list = await admin.call("admin.links.list");
    const link = list.data.find(({ email }) => email === "late@example.com");
    expect(link).toMatchObject({ purpose: "invite", role: "user", created_by: "boss@example.com" });
    expect(JSON.stringify(list)).not.toContain(tokenIn(url));
    await admin.call("admin.links.revoke", { params: { id: link?.id ?? "" } });
    const body = { token: tokenIn(url), password: PASSWORD };
    expect(await stranger().callRejected("invitation.accept", { body })).toMatchObject({
      code: "link_used_up",
    });
  });

  test("used twice at once works for one of the two", async () => {
    const { url } = await admin.call("admin.links.create", {
      body: { purpose: "invite", email: "twins@example.com", role: "admin" },
    });
    const body = { token: tokenIn(url), password: PASSWORD };
    const responses = await Promise.all([1, 2].map(() => stranger().send("invitation.accept", { body })));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([200, 410]);
  });
});

describe("the second factor", () => {
  let browser: ConsoleClient & { cookie: string };
  let secret: string;
  let codes: string[];
  /** Steps differ, so that no code is used twice within the same 30 seconds. */
  const code = (by: number) => totpCode(secret, totpStep(gateway.installation.clock.nowMs()) + by);

  test("requires the password and is enabled only after a valid code", async () => {
    browser = await invited("two@example.com");
    const rejection = await browser.callRejected("second_factor.begin", { body: { password: "wrong" } });
    expect(rejection).toMatchObject({ code: "wrong_credentials", param: "password" });
    const begun = await browser.call("second_factor.begin", { body: { password: PASSWORD } });
    secret = begun.secret;
    expect(begun.otpauth_url).toContain(`secret=${secret}`);
    await signIn("two@example.com", PASSWORD);
    expect(await browser.callRejected("second_factor.confirm", { body: { code: "000000" } })).toMatchObject({
      code: "wrong_credentials",
    });
    const confirmed = await browser.send("second_factor.confirm", { body: { code: code(0) } });
    codes = ((await confirmed.json()) as { recovery_codes: string[] }).recovery_codes;
    expect(codes).toHaveLength(10);
    const before = browser;
    browser = openBrowser(confirmed);
    expect((await before.call("session.current")).user).toBeNull();
    expect(await browser.call("second_factor.read")).toEqual({
      since: expect.any(Number),
      recovery_codes_left: 10,
    });
  });

  test("is required after the password, and no code works twice", async () => {
    const body = { email: "two@example.com", password: PASSWORD };
    expect(await stranger().callRejected("session.create", { body })).toMatchObject({
      status: 401,
      code: "second_factor_required",
    });
    const now = code(1);
    await signIn("two@example.com", PASSWORD, now);
    expect(await stranger().callRejected("session.create", { body: { ...body, code: now } })).toMatchObject({
      code: "wrong_credentials",
      param: "code",
    });
    const wrong = { ...body, password: "wrong", code: now };
    expect(await stranger().callRejected("session.create", { body: wrong })).toMatchObject({ param: null });
  });

  test("can be replaced by a recovery code, once each", async () => {
    const [first = ""] = codes;
    await signIn("two@example.com", PASSWORD, first.toUpperCase());
    const body = { email: "two@example.com", password: PASSWORD, code: first };
    expect(await stranger().callRejected("session.create", { body })).toMatchObject({
      code: "wrong_credentials",
    });
    expect((await browser.call("second_factor.read")).recovery_codes_left).toBe(9);
    expect(
      await browser.callRejected("recovery_codes.create", { body: { password: PASSWORD } }),
    ).toMatchObject({
      code: "second_factor_required",
      param: "code",
    });
    const proof = { password: PASSWORD, code: codes[2] ?? "" };
    const renewed = await browser.call("recovery_codes.create", { body: proof });
    expect((await browser.call("second_factor.read")).recovery_codes_left).toBe(10);
    const old = { ...body, code: codes[1] ?? "" };
    expect(await stranger().callRejected("session.create", { body: old })).toMatchObject({
      code: "wrong_credentials",
    });
    codes = renewed.recovery_codes;
  });

  test("is required with a link too, and a missing code does not use up the link", async () => {
    const { url } = await admin.call("admin.links.create", {
      body: { purpose: "sign_in", email: "two@example.com" },
    });
    const token = tokenIn(url);
    expect(await stranger().callRejected("session.create_by_link", { body: { token } })).toMatchObject({
      code: "second_factor_required",
    });
    const [spare = ""] = codes;
    const response = await stranger().send("session.create_by_link", { body: { token, code: spare } });
    expect(response.status).toBe(200);
  });

  test("is disabled with the password and a code, or by an administrator", async () => {
    for (const proof of [
      { password: PASSWORD },
      { password: PASSWORD, code: "000000" },
      { code: codes[1] },
    ]) {
      expect((await browser.callRejected("second_factor.remove", { body: proof })).status).toBe(401);
    }
    const proof = { password: PASSWORD, code: codes[1] };
    const removed = await browser.send("second_factor.remove", { body: proof });
    browser = openBrowser(removed);
    await signIn("two@example.com", PASSWORD);
    const begun = await browser.call("second_factor.begin", { body: { password: PASSWORD } });
    secret = begun.secret;
    await browser.call("second_factor.confirm", { body: { code: code(0) } });
    const params = { id: (await signInAs(gateway, "two@example.com")).user.id };
    await admin.call("admin.users.remove_second_factor", { params });
    await signIn("two@example.com", PASSWORD);
    expect(await admin.callRejected("admin.users.remove_second_factor", { params })).toMatchObject({
      code: "conflict",
    });
  });
});

describe("a personal access token", () => {
  test("is shown once, has the rights of its owner, and stops working when revoked", async () => {
    const browser = await invited("robot@example.com");
    const made = await browser.call("tokens.create", {
      body: { name: "ci", scope: "keys", expires_at: null },
    });
    expect(made.secret).toMatch(/^gwp_/);
    const program = openConsoleClient(gateway.url, { authorization: `Bearer ${made.secret}` });
    expect((await program.call("session.current")).user?.email).toBe("robot@example.com");
    const list = await browser.call("tokens.list");
    expect(list.data).toMatchObject([
      { name: "ci", last4: made.secret.slice(-4), used_at: expect.any(Number) },
    ]);
    expect(JSON.stringify(list)).not.toContain(made.secret);
    expect(
      await program.callRejected("tokens.create", { body: { name: "x", scope: "keys", expires_at: null } }),
    ).toMatchObject({ code: "forbidden" });
    const eve = await signInAs(gateway, "eve@example.com");
    expect(await eve.callRejected("tokens.revoke", { params: { id: made.id } })).toMatchObject({
      status: 404,
    });
    await browser.call("tokens.revoke", { params: { id: made.id } });
    expect(await program.callRejected("session.current")).toMatchObject({ status: 401 });
  });

  test("only reads by default, and administers only while its owner is an administrator", async () => {
    const other = await signInAs(gateway, "second@example.com", "admin");
    const plain = await other.call("tokens.create", { body: { name: "plain", expires_at: null } });
    expect(plain.scope).toBe("read");
    const made = await other.call("tokens.create", {
      body: { name: "ops", scope: "admin", expires_at: null },
    });
    const program = openConsoleClient(gateway.url, { authorization: `Bearer ${made.secret}` });
    await program.call("admin.users.create", { body: { email: "by-token@example.com" } });
    const setRole = (role: string) => gateway.apply(`users: [{ email: second@example.com, role: ${role} }]`);
    await setRole("user");
    const rejection = { status: 403, code: "forbidden", message: expect.stringContaining("administrator") };
    expect(await program.callRejected("admin.users.list")).toMatchObject(rejection);
    expect(await program.callRejected("session.current")).toMatchObject(rejection);
    const demoted = await signInAs(gateway, "second@example.com");
    const body = { name: "more", scope: "admin", expires_at: null };
    expect(await demoted.callRejected("tokens.create", { body })).toMatchObject({
      code: "forbidden",
      param: "scope",
    });
    await setRole("admin");
    await program.call("admin.users.list");
  });

  test("must expire in the future and have a valid name", async () => {
    const eve = await signInAs(gateway, "eve@example.com");
    const body = { name: " x ", scope: "keys", expires_at: null };
    expect(await eve.callRejected("tokens.create", { body })).toMatchObject({ param: "name" });
    const past = { name: "x", scope: "keys", expires_at: 1 };
    expect(await eve.callRejected("tokens.create", { body: past })).toMatchObject({ param: "expires_at" });
  });
});

describe("registration", () => {
  const register = (email: string) => ({ body: { email, password: PASSWORD } });

  test("that is closed or by invitation is rejected with a hint", async () => {
    expect(await stranger().callRejected("registration.create", register("new@example.com"))).toMatchObject({
      status: 403,
      code: "registration_closed",
      message: expect.stringContaining("closed"),
    });
    await gateway.apply("registration: invite");
    expect((await stranger().call("session.current")).registration).toBe("invite");
    expect(await stranger().callRejected("registration.create", register("new@example.com"))).toMatchObject({
      code: "registration_closed",
      message: expect.stringContaining("invitation"),
    });
  });

  test("that is open creates an ordinary user, never an administrator", async () => {
    await gateway.apply("registration: open");
    const grabbing = { body: { email: "new@example.com", password: PASSWORD, role: "admin" } };
    expect(await stranger().callRejected("registration.create", grabbing)).toMatchObject({
      code: "invalid_value",
    });
    const browser = openBrowser(await stranger().send("registration.create", register("new@example.com")));
    expect((await browser.call("session.current")).user).toMatchObject({ role: "user" });
    expect(await stranger().callRejected("registration.create", register("NEW@example.com"))).toMatchObject({
      status: 409,
      param: "email",
    });
  });

  test("is limited per day for one address", async () => {
    const outcomes: number[] = [];
    for (let n = 0; n < limits.registrationsPerDay; n += 1) {
      outcomes.push((await stranger().send("registration.create", register(`n${n}@example.com`))).status);
    }
    // Two attempts were made before.
    expect(outcomes).toEqual([200, 200, 200, 429, 429]);
  });
});

describe("with a mail server", () => {
  let smtp: SmtpServer;
  let other: RunningGateway;
  const open = () => openConsoleClient(other.url, { origin: other.url });

  beforeAll(async () => {
    smtp = await startSmtpServer();
    other = await startTestGateway();
    await other.apply(`
registration: open
smtp: { host: 127.0.0.1, port: ${smtp.port}, security: none, from: gateway@example.com, private_network: true }
users:
  - { email: boss@example.com, role: admin }
  - { email: owner@example.com }
  - { email: ada@example.com, password: ${JSON.stringify(PASSWORD)} }`);
  });
  afterAll(async () => {
    await other.stop();
    await smtp.stop();
  });

  test("a forgotten password is mailed, and the response does not reveal whether the user exists", async () => {
    const body = (email: string) => ({ body: { email } });
    const known = await open().call("password.forgot", body("ada@example.com"));
    const unknown = await open().call("password.forgot", body("anonymous@example.com"));
    expect(known).toEqual(unknown);
    const token = tokenIn(await smtp.textTo("ada@example.com"));
    await open().call("password.reset", { body: { token, password: NEW_PASSWORD } });
    const signedIn = await open().call("session.create", {
      body: { email: "ada@example.com", password: NEW_PASSWORD },
    });
    expect(signedIn.user.email).toBe("ada@example.com");
    expect(smtp.mails.flatMap(({ to }) => to)).toEqual(["ada@example.com"]);
  });

  test("registration does not reveal whether an account exists, and its owner gets an e-mail", async () => {
    const register = async (email: string) => {
      const response = await open().send("registration.create", { body: { email } });
      const cookie = response.headers.get("set-cookie");
      return { status: response.status, cookie, body: await response.json() };
    };
    const known = await register("owner@example.com");
    expect(await register("new@example.com")).toEqual(known);
    expect(known).toEqual({ status: 200, cookie: null, body: { user: null } });
    expect(await smtp.textTo("owner@example.com")).toContain("already has an account");
    // Signing in does not reveal it either.
    const signIn = (email: string) =>
      open().callRejected("session.create", { body: { email, password: PASSWORD } });
    expect(await signIn("new@example.com")).toEqual(await signIn("owner@example.com"));
    const token = tokenIn(await smtp.textTo("new@example.com"));
    const verified = await open().call("email.verify", { body: { token, password: PASSWORD } });
    expect(verified).toMatchObject({ email: "new@example.com", user: { role: "user" } });
    const body = { email: "new@example.com", password: PASSWORD };
    expect((await open().call("session.create", { body })).user.email).toBe("new@example.com");
  });

  test("a registration link creates no account after registration was closed", async () => {
    await open().call("registration.create", { body: { email: "late@example.com" } });
    const token = tokenIn(await smtp.textTo("late@example.com"));
    await other.apply("registration: closed");
    const body = { token, password: PASSWORD };
    expect(await open().callRejected("email.verify", { body })).toMatchObject({
      code: "registration_closed",
    });
    await other.apply("registration: open");
    await open().call("email.verify", { body });
  });

  test("the number of e-mails per hour is limited", async () => {
    const outcomes: number[] = [];
    for (let n = 0; n <= limits.emailsPerHour; n += 1) {
      outcomes.push((await open().send("password.forgot", { body: { email: "victim@example.com" } })).status);
    }
    expect(outcomes.at(-1)).toBe(429);
  });
});

test("all changes are in the audit log without secrets, and the hash chain is intact", async () => {
  const { db } = gateway.installation;
  const { rows } = await listChanges(db, {}, { after: null, limit: 1_000 });
  const actions = new Set(rows.map(({ action }) => action));
  for (const action of [
    "user.claim",
    "user.register",
    "user.join",
    "session.create",
    "session.revoke",
    "password.change",
    "password.reset",
    "second_factor.confirm",
    "second_factor.remove",
    "recovery_codes.create",
    "token.create",
    "token.revoke",
    "link.invite",
    "link.reset",
    "link.sign_in",
    "link.revoke",
    "registration.change",
  ]) {
    expect(actions).toContain(action);
  }
  expect(JSON.stringify(rows)).not.toMatch(/argon2|gwp_|correct horse|staple of a new/);
  expect(await verifyAuditLog(db)).toMatchObject({ rows: rows.length, broken: [] });
});
