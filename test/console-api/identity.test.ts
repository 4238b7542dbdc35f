/** People and the console's API, on a running gateway: coming in, proving who they are, and leaving. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { offerAdminClaim } from "../../src/config/first-run/admin-claim.ts";
import { limits } from "../../src/config/product-limits.ts";
import { createLink } from "../../src/console-api/auth/make-link.ts";
import { totpCode, totpStep } from "../../src/secrets/totp.ts";
import { listChanges, verifyChangeLog } from "../../src/store/change-log/change-log.ts";
import {
  beginSecondFactor,
  confirmSecondFactor,
  findCredentials,
} from "../../src/store/identity/credentials.ts";
import { listLinks } from "../../src/store/identity/links.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type Asking, asking, type SignedIn, signInAs, tokenOf } from "../support/signed-in.ts";
import { type SmtpServer, startSmtpServer } from "../support/smtp-server.ts";

const PASSWORD = "correct horse battery";
const NEW_PASSWORD = "staple of a new one";

let gateway: RunningGateway;
let admin: SignedIn;

beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.stop());

const stranger = (): Asking => asking(gateway.url, { origin: gateway.url });

/** As a browser keeps it. */
function browserOf(response: Response): Asking & { cookie: string } {
  const [cookie = ""] = response.headers.get("set-cookie")?.split(";") ?? [];
  return { ...asking(gateway.url, { cookie, origin: gateway.url }), cookie };
}

async function signIn(email: string, password: string, code?: string) {
  const body = { email, password, ...(code === undefined ? {} : { code }) };
  const response = await stranger().send("session.create", { body });
  if (!response.ok) throw new Error(await response.text());
  return browserOf(response);
}

const tokenIn = (text: string) => /#(\w+)/.exec(text)?.[1] ?? "";

async function invited(email: string): Promise<Asking & { cookie: string }> {
  const { url } = await admin.ask("admin.links.create", { body: { purpose: "invite", email } });
  const body = { token: tokenIn(url), password: PASSWORD };
  return browserOf(await stranger().send("invitation.accept", { body }));
}

describe("the first administrator", () => {
  test("is whoever has the link of the first start, once", async () => {
    const link = await offerAdminClaim(gateway.installation, gateway.url);
    expect(link).toStartWith(`${gateway.url}/console/claim#`);
    expect((await stranger().ask("session.current")).unclaimed).toBe(true);
    await gateway.apply("registration: open");
    const early = { body: { email: "boss@example.com", password: NEW_PASSWORD } };
    expect(await stranger().refused("registration.create", early)).toMatchObject({
      code: "registration_closed",
      message: expect.stringContaining("no administrator yet"),
    });
    await gateway.apply("registration: closed");
    const claim = { token: tokenIn(link ?? ""), email: "Boss@example.com", password: PASSWORD };
    const wrong = await stranger().refused("claim.use", { body: { ...claim, token: "x" } });
    expect(wrong).toMatchObject({ status: 410, code: "link_used_up" });
    const weak = await stranger().refused("claim.use", { body: { ...claim, password: "short" } });
    expect(weak).toMatchObject({ status: 400, param: "password" });
    const boss = browserOf(await stranger().send("claim.use", { body: claim }));
    expect((await boss.ask("session.current")).user).toMatchObject({
      email: "boss@example.com",
      role: "admin",
    });
    expect(await stranger().refused("claim.use", { body: claim })).toMatchObject({ code: "link_used_up" });
    expect((await stranger().ask("session.current")).unclaimed).toBe(false);
    expect(await offerAdminClaim(gateway.installation, gateway.url)).toBeNull();
    admin = await signInAs(gateway, "boss@example.com");
  });
});

describe("claiming an address that is somebody's already", () => {
  let other: RunningGateway;
  beforeAll(async () => {
    other = await startTestGateway();
  });
  afterAll(() => other.stop());

  test("leaves nothing by which its former owner could come in", async () => {
    const { db, clock } = other.installation;
    await other.apply(`users: [{ email: boss@example.com, password: ${JSON.stringify(PASSWORD)} }]`);
    const before = await signInAs(other, "boss@example.com");
    const program = await tokenOf(other, "boss@example.com", "keys");
    const { id } = before.user;
    await beginSecondFactor(db, id, "sealed");
    await confirmSecondFactor(db, id, { sealedSecret: "sealed", sinceMs: 1 }, ["digest"]);
    const by = { actor: { kind: "system", id: null, name: "gateway" }, address: null } as const;
    await createLink(db, other.installation, { purpose: "sign_in", user: before.user }, by);
    await createLink(db, other.installation, { purpose: "verify", user: before.user }, by);
    const link = await offerAdminClaim(other.installation, other.url);
    const nobody = asking(other.url, { origin: other.url });
    const body = { token: tokenIn(link ?? ""), email: "boss@example.com", password: NEW_PASSWORD };
    expect((await nobody.ask("claim.use", { body })).user).toMatchObject({
      id,
      role: "admin",
      has_second_factor: false,
    });
    expect((await before.ask("session.current")).user).toBeNull();
    expect(await program.refused("session.current")).toMatchObject({ code: "sign_in_required" });
    expect(await findCredentials(db, id)).toMatchObject({ secondFactor: null, recoveryDigests: [] });
    expect(await listLinks(db, clock.nowMs(), { after: null, limit: 9 })).toEqual([]);
  });
});

describe("signing in", () => {
  beforeAll(() => invited("ada@example.com"));

  test("gives a cookie that no script and no other site gets", async () => {
    const body = { email: "ADA@example.com", password: PASSWORD };
    const response = await stranger().send("session.create", { body });
    expect(response.headers.get("set-cookie")).toMatch(
      /^__Host-session=[0-9A-Za-z]{43}; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=1209600$/,
    );
    expect(await response.json()).toMatchObject({ user: { email: "ada@example.com", role: "user" } });
  });

  test("with a wrong password, or as nobody, is refused in the same words", async () => {
    const bodies = [
      { email: "ada@example.com", password: "wrong" },
      { email: "nobody@example.com", password: PASSWORD },
    ];
    const [wrong, nobody] = await Promise.all(
      bodies.map((body) => stranger().refused("session.create", { body })),
    );
    expect(wrong).toMatchObject({ status: 401, code: "wrong_credentials" });
    expect(nobody).toEqual(wrong as NonNullable<typeof wrong>);
  });

  test("makes a new session each time, and ends the one that the browser had", async () => {
    const first = await signIn("ada@example.com", PASSWORD);
    const again = await first.send("session.create", {
      body: { email: "ada@example.com", password: PASSWORD },
    });
    const second = browserOf(again);
    expect(second.cookie).not.toBe(first.cookie);
    expect((await first.ask("session.current")).user).toBeNull();
    expect((await second.ask("session.current")).user).not.toBeNull();
  });

  test("out ends the session for good and takes the cookie away", async () => {
    const browser = await signIn("ada@example.com", PASSWORD);
    const response = await browser.send("session.end");
    expect(response.headers.get("set-cookie")).toContain("__Host-session=; ");
    expect(response.headers.get("set-cookie")).toContain("Max-Age=0");
    expect(await browser.refused("sessions.list")).toMatchObject({ code: "sign_in_required" });
  });

  test("over a way that others can read is refused, with what to do", async () => {
    const host = "192.168.1.5:8787";
    const far = asking(gateway.url, { host, origin: `http://${host}` });
    const body = { email: "ada@example.com", password: PASSWORD };
    expect(await far.refused("session.create", { body })).toMatchObject({
      code: "forbidden",
      message: expect.stringContaining("https"),
    });
  });

  test("too often wrong has to wait, even with the right password, and others do not", async () => {
    await invited("slow@example.com");
    const body = (password: string) => ({ body: { email: "slow@example.com", password } });
    for (let n = 0; n < limits.signIn.accountTries; n += 1) {
      expect((await stranger().refused("session.create", body("wrong"))).status).toBe(401);
    }
    const response = await stranger().send("session.create", body(PASSWORD));
    expect(response.status).toBe(429);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await response.text()).toContain("Too many attempts for this account");
    await signIn("ada@example.com", PASSWORD);
  });

  test("too often wrong does not keep whoever is signed in from a new password", async () => {
    const browser = await invited("besieged@example.com");
    for (let n = 0; n <= limits.signIn.accountTries; n += 1) {
      await stranger().refused("session.create", {
        body: { email: "besieged@example.com", password: "wrong" },
      });
    }
    await browser.ask("password.change", { body: { password: PASSWORD, new_password: NEW_PASSWORD } });
  });

  test("is not for a disabled account, which is told so only with the right password", async () => {
    await invited("gone@example.com");
    await gateway.apply("users: [{ email: gone@example.com, status: disabled }]");
    const body = { email: "gone@example.com", password: PASSWORD };
    expect(await stranger().refused("session.create", { body })).toMatchObject({ code: "forbidden" });
    expect(
      await stranger().refused("session.create", { body: { ...body, password: "wrong" } }),
    ).toMatchObject({ code: "wrong_credentials" });
  });
});

describe("sessions", () => {
  test("are listed, ended one by one, and all others at once", async () => {
    await invited("many@example.com");
    const [one, two, three] = await Promise.all([1, 2, 3].map(() => signIn("many@example.com", PASSWORD)));
    if (one === undefined || two === undefined || three === undefined) throw new Error("not signed in");
    const { data } = await one.ask("sessions.list");
    expect(data).toHaveLength(4);
    const own = data.find(({ current }) => current);
    const other = (await two.ask("sessions.list")).data.find(({ current }) => current);
    expect(own?.id).not.toBe(other?.id);
    await one.ask("sessions.revoke", { params: { id: other?.id ?? "" } });
    expect((await two.ask("session.current")).user).toBeNull();
    expect(await one.ask("sessions.revoke_others")).toEqual({ revoked: 2 });
    expect((await three.ask("session.current")).user).toBeNull();
    expect((await one.ask("sessions.list")).data).toHaveLength(1);
  });

  test("of others do not exist for whoever asks", async () => {
    const { data } = await admin.ask("sessions.list");
    const eve = await invited("eve@example.com");
    const params = { id: data[0]?.id ?? "" };
    expect(await eve.refused("sessions.revoke", { params })).toMatchObject({
      status: 404,
      code: "not_found",
    });
    expect((await admin.ask("session.current")).user).not.toBeNull();
  });

  test("end after a while without use, and after a while in any case", async () => {
    const { db, clock } = gateway.installation;
    const idle = await signInAs(gateway, "idle@example.com");
    const seenAtMs = clock.nowMs() - limits.sessionIdleMs;
    await db.sql`UPDATE session SET seen_at_ms = ${seenAtMs} WHERE user_id = ${idle.user.id}`;
    expect((await idle.ask("session.current")).user).toBeNull();
    const old = await signInAs(gateway, "old@example.com");
    const createdAtMs = clock.nowMs() - limits.sessionMs;
    await db.sql`UPDATE session SET created_at_ms = ${createdAtMs} WHERE user_id = ${old.user.id}`;
    expect((await old.ask("session.current")).user).toBeNull();
  });
});

describe("a password", () => {
  test("is changed by whoever knows the old one; every other browser has to come in anew", async () => {
    const browser = await invited("change@example.com");
    const other = await signIn("change@example.com", PASSWORD);
    const change = (password: string) => ({ body: { password, new_password: NEW_PASSWORD } });
    expect(await browser.refused("password.change", change("wrong"))).toMatchObject({
      code: "wrong_credentials",
      param: "password",
    });
    const here = browserOf(await browser.send("password.change", change(PASSWORD)));
    expect((await here.ask("session.current")).user).not.toBeNull();
    expect((await browser.ask("session.current")).user).toBeNull();
    expect((await other.ask("session.current")).user).toBeNull();
    await signIn("change@example.com", NEW_PASSWORD);
  });

  test("that is too short is refused beside its field", async () => {
    const browser = await invited("short@example.com");
    const body = { password: PASSWORD, new_password: "short" };
    expect(await browser.refused("password.change", { body })).toMatchObject({
      status: 400,
      param: "new_password",
      message: expect.stringContaining("12"),
    });
  });

  test("that was forgotten needs an administrator's link where no mail is sent", async () => {
    const browser = await invited("lost@example.com");
    expect(
      await stranger().refused("password.forgot", { body: { email: "lost@example.com" } }),
    ).toMatchObject({ code: "conflict", message: expect.stringContaining("administrator") });
    const made = { body: { purpose: "reset", email: "lost@example.com" } };
    const { url, mailed } = await admin.ask("admin.links.create", made);
    expect(mailed).toBe(false);
    const token = tokenIn(url);
    expect(await stranger().ask("links.read", { body: { token } })).toMatchObject({
      purpose: "reset",
      email: "lost@example.com",
    });
    const program = await tokenOf(gateway, "lost@example.com", "keys");
    await stranger().ask("password.reset", { body: { token, password: NEW_PASSWORD } });
    expect((await browser.ask("session.current")).user).toBeNull();
    expect(await program.refused("session.current")).toMatchObject({ code: "sign_in_required" });
    await signIn("lost@example.com", NEW_PASSWORD);
    const again = { body: { token, password: PASSWORD } };
    expect(await stranger().refused("password.reset", again)).toMatchObject({ code: "link_used_up" });
    expect(await stranger().refused("links.read", { body: { token } })).toMatchObject({ status: 410 });
  });
});

describe("a link to sign in", () => {
  test("lets its user in once, and works for nothing else", async () => {
    await gateway.apply("users: [{ email: linked@example.com }]");
    const { url } = await admin.ask("admin.links.create", {
      body: { purpose: "sign_in", email: "linked@example.com" },
    });
    const token = tokenIn(url);
    const reset = { body: { token, password: NEW_PASSWORD } };
    expect(await stranger().refused("password.reset", reset)).toMatchObject({ code: "link_used_up" });
    const browser = browserOf(await stranger().send("session.create_by_link", { body: { token } }));
    expect((await browser.ask("session.current")).user).toMatchObject({
      email: "linked@example.com",
      has_password: false,
    });
    expect(await stranger().refused("session.create_by_link", { body: { token } })).toMatchObject({
      code: "link_used_up",
    });
    // Whoever has no password yet proves nothing to choose one.
    await browser.ask("password.change", { body: { new_password: NEW_PASSWORD } });
    await signIn("linked@example.com", NEW_PASSWORD);
  });

  test("is listed without what it carries, and can be taken back", async () => {
    const { url } = await admin.ask("admin.links.create", {
      body: { purpose: "invite", email: "late@example.com" },
    });
    const list = await admin.ask("admin.links.list");
    const link = list.data.find(({ email }) => email === "late@example.com");
    expect(link).toMatchObject({ purpose: "invite", role: "user", created_by: "boss@example.com" });
    expect(JSON.stringify(list)).not.toContain(tokenIn(url));
    await admin.ask("admin.links.revoke", { params: { id: link?.id ?? "" } });
    const body = { token: tokenIn(url), password: PASSWORD };
    expect(await stranger().refused("invitation.accept", { body })).toMatchObject({ code: "link_used_up" });
  });

  test("of two people at once with the same invitation one gets in", async () => {
    const { url } = await admin.ask("admin.links.create", {
      body: { purpose: "invite", email: "twins@example.com", role: "admin" },
    });
    const body = { token: tokenIn(url), password: PASSWORD };
    const answers = await Promise.all([1, 2].map(() => stranger().send("invitation.accept", { body })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 410]);
  });
});

describe("the second factor", () => {
  let browser: Asking & { cookie: string };
  let secret: string;
  let codes: string[];
  /** Steps differ, so that no code is used twice within the same half minute. */
  const code = (by: number) => totpCode(secret, totpStep(gateway.installation.clock.nowMs()) + by);

  test("begins with the password, and counts only once a code was shown", async () => {
    browser = await invited("two@example.com");
    const refusal = await browser.refused("second_factor.begin", { body: { password: "wrong" } });
    expect(refusal).toMatchObject({ code: "wrong_credentials", param: "password" });
    const begun = await browser.ask("second_factor.begin", { body: { password: PASSWORD } });
    secret = begun.secret;
    expect(begun.otpauth_url).toContain(`secret=${secret}`);
    await signIn("two@example.com", PASSWORD);
    expect(await browser.refused("second_factor.confirm", { body: { code: "000000" } })).toMatchObject({
      code: "wrong_credentials",
    });
    const confirmed = await browser.send("second_factor.confirm", { body: { code: code(0) } });
    codes = ((await confirmed.json()) as { recovery_codes: string[] }).recovery_codes;
    expect(codes).toHaveLength(10);
    const before = browser;
    browser = browserOf(confirmed);
    expect((await before.ask("session.current")).user).toBeNull();
    expect(await browser.ask("second_factor.read")).toEqual({
      since: expect.any(Number),
      recovery_codes_left: 10,
    });
  });

  test("is asked for after the password, and no code works twice", async () => {
    const body = { email: "two@example.com", password: PASSWORD };
    expect(await stranger().refused("session.create", { body })).toMatchObject({
      status: 401,
      code: "second_factor_required",
    });
    const now = code(1);
    await signIn("two@example.com", PASSWORD, now);
    expect(await stranger().refused("session.create", { body: { ...body, code: now } })).toMatchObject({
      code: "wrong_credentials",
      param: "code",
    });
    const wrong = { ...body, password: "wrong", code: now };
    expect(await stranger().refused("session.create", { body: wrong })).toMatchObject({ param: null });
  });

  test("is replaced by a recovery code, once each", async () => {
    const [first = ""] = codes;
    await signIn("two@example.com", PASSWORD, first.toUpperCase());
    const body = { email: "two@example.com", password: PASSWORD, code: first };
    expect(await stranger().refused("session.create", { body })).toMatchObject({ code: "wrong_credentials" });
    expect((await browser.ask("second_factor.read")).recovery_codes_left).toBe(9);
    expect(await browser.refused("recovery_codes.create", { body: { password: PASSWORD } })).toMatchObject({
      code: "second_factor_required",
      param: "code",
    });
    const proof = { password: PASSWORD, code: codes[2] ?? "" };
    const renewed = await browser.ask("recovery_codes.create", { body: proof });
    expect((await browser.ask("second_factor.read")).recovery_codes_left).toBe(10);
    const old = { ...body, code: codes[1] ?? "" };
    expect(await stranger().refused("session.create", { body: old })).toMatchObject({
      code: "wrong_credentials",
    });
    codes = renewed.recovery_codes;
  });

  test("is asked for with a link as well, which a missing code does not use up", async () => {
    const { url } = await admin.ask("admin.links.create", {
      body: { purpose: "sign_in", email: "two@example.com" },
    });
    const token = tokenIn(url);
    expect(await stranger().refused("session.create_by_link", { body: { token } })).toMatchObject({
      code: "second_factor_required",
    });
    const [spare = ""] = codes;
    const response = await stranger().send("session.create_by_link", { body: { token, code: spare } });
    expect(response.status).toBe(200);
  });

  test("is turned off with the password and a code, or by an administrator for whoever has lost it", async () => {
    for (const proof of [
      { password: PASSWORD },
      { password: PASSWORD, code: "000000" },
      { code: codes[1] },
    ]) {
      expect((await browser.refused("second_factor.remove", { body: proof })).status).toBe(401);
    }
    const proof = { password: PASSWORD, code: codes[1] };
    const removed = await browser.send("second_factor.remove", { body: proof });
    browser = browserOf(removed);
    await signIn("two@example.com", PASSWORD);
    const begun = await browser.ask("second_factor.begin", { body: { password: PASSWORD } });
    secret = begun.secret;
    await browser.ask("second_factor.confirm", { body: { code: code(0) } });
    const params = { id: (await signInAs(gateway, "two@example.com")).user.id };
    await admin.ask("admin.users.remove_second_factor", { params });
    await signIn("two@example.com", PASSWORD);
    expect(await admin.refused("admin.users.remove_second_factor", { params })).toMatchObject({
      code: "conflict",
    });
  });
});

describe("a personal access token", () => {
  test("is shown once, does what its owner may, and stops when revoked", async () => {
    const browser = await invited("robot@example.com");
    const made = await browser.ask("tokens.create", {
      body: { name: "ci", scope: "keys", expires_at: null },
    });
    expect(made.secret).toMatch(/^gwp_/);
    const program = asking(gateway.url, { authorization: `Bearer ${made.secret}` });
    expect((await program.ask("session.current")).user?.email).toBe("robot@example.com");
    const list = await browser.ask("tokens.list");
    expect(list.data).toMatchObject([
      { name: "ci", last4: made.secret.slice(-4), used_at: expect.any(Number) },
    ]);
    expect(JSON.stringify(list)).not.toContain(made.secret);
    expect(
      await program.refused("tokens.create", { body: { name: "x", scope: "keys", expires_at: null } }),
    ).toMatchObject({ code: "forbidden" });
    const eve = await signInAs(gateway, "eve@example.com");
    expect(await eve.refused("tokens.revoke", { params: { id: made.id } })).toMatchObject({ status: 404 });
    await browser.ask("tokens.revoke", { params: { id: made.id } });
    expect(await program.refused("session.current")).toMatchObject({ status: 401 });
  });

  test("may only read unless its scope says more, and administers only while its owner is an administrator", async () => {
    const other = await signInAs(gateway, "second@example.com", "admin");
    const plain = await other.ask("tokens.create", { body: { name: "plain", expires_at: null } });
    expect(plain.scope).toBe("read");
    const made = await other.ask("tokens.create", {
      body: { name: "ops", scope: "admin", expires_at: null },
    });
    const program = asking(gateway.url, { authorization: `Bearer ${made.secret}` });
    await program.ask("admin.users.create", { body: { email: "by-token@example.com" } });
    const roleOf = (role: string) => gateway.apply(`users: [{ email: second@example.com, role: ${role} }]`);
    await roleOf("user");
    const refusal = { status: 403, code: "forbidden", message: expect.stringContaining("administrator") };
    expect(await program.refused("admin.users.list")).toMatchObject(refusal);
    expect(await program.refused("session.current")).toMatchObject(refusal);
    const demoted = await signInAs(gateway, "second@example.com");
    const body = { name: "more", scope: "admin", expires_at: null };
    expect(await demoted.refused("tokens.create", { body })).toMatchObject({
      code: "forbidden",
      param: "scope",
    });
    await roleOf("admin");
    await program.ask("admin.users.list");
  });

  test("may not have expired before it is made, and its name is a name", async () => {
    const eve = await signInAs(gateway, "eve@example.com");
    const body = { name: " x ", scope: "keys", expires_at: null };
    expect(await eve.refused("tokens.create", { body })).toMatchObject({ param: "name" });
    const past = { name: "x", scope: "keys", expires_at: 1 };
    expect(await eve.refused("tokens.create", { body: past })).toMatchObject({ param: "expires_at" });
  });
});

describe("registration", () => {
  const register = (email: string) => ({ body: { email, password: PASSWORD } });

  test("that is closed, or by invitation, is refused with what to do", async () => {
    expect(await stranger().refused("registration.create", register("new@example.com"))).toMatchObject({
      status: 403,
      code: "registration_closed",
      message: expect.stringContaining("closed"),
    });
    await gateway.apply("registration: invite");
    expect((await stranger().ask("session.current")).registration).toBe("invite");
    expect(await stranger().refused("registration.create", register("new@example.com"))).toMatchObject({
      code: "registration_closed",
      message: expect.stringContaining("invitation"),
    });
  });

  test("that is open makes an ordinary user, and never an administrator", async () => {
    await gateway.apply("registration: open");
    const grabbing = { body: { email: "new@example.com", password: PASSWORD, role: "admin" } };
    expect(await stranger().refused("registration.create", grabbing)).toMatchObject({
      code: "invalid_value",
    });
    const browser = browserOf(await stranger().send("registration.create", register("new@example.com")));
    expect((await browser.ask("session.current")).user).toMatchObject({ role: "user", must_verify: false });
    expect(await stranger().refused("registration.create", register("NEW@example.com"))).toMatchObject({
      status: 409,
      param: "email",
    });
  });

  test("from one address is for a few a day", async () => {
    const told: number[] = [];
    for (let n = 0; n < limits.registrationsPerDay; n += 1) {
      told.push((await stranger().send("registration.create", register(`n${n}@example.com`))).status);
    }
    // Two were tried before.
    expect(told).toEqual([200, 200, 200, 429, 429]);
  });
});

describe("with a mail server", () => {
  let smtp: SmtpServer;
  let other: RunningGateway;
  const open = () => asking(other.url, { origin: other.url });

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

  test("a forgotten password is mailed, and nobody learns who is a user", async () => {
    const body = (email: string) => ({ body: { email } });
    const known = await open().ask("password.forgot", body("ada@example.com"));
    const unknown = await open().ask("password.forgot", body("nobody@example.com"));
    expect(known).toEqual(unknown);
    const token = tokenIn(await smtp.textTo("ada@example.com"));
    await open().ask("password.reset", { body: { token, password: NEW_PASSWORD } });
    const signedIn = await open().ask("session.create", {
      body: { email: "ada@example.com", password: NEW_PASSWORD },
    });
    expect(signedIn.user.email).toBe("ada@example.com");
    expect(smtp.mails.flatMap(({ to }) => to)).toEqual(["ada@example.com"]);
  });

  test("whoever registers learns nothing of who has an account, whose owner is written to", async () => {
    const register = async (email: string) => {
      const response = await open().send("registration.create", { body: { email } });
      const cookie = response.headers.get("set-cookie");
      return { status: response.status, cookie, body: await response.json() };
    };
    const known = await register("owner@example.com");
    expect(await register("new@example.com")).toEqual(known);
    expect(known).toEqual({ status: 200, cookie: null, body: { user: null } });
    expect(await smtp.textTo("owner@example.com")).toContain("There is one already");
    // Nor by trying to come in.
    const signIn = (email: string) =>
      open().refused("session.create", { body: { email, password: PASSWORD } });
    expect(await signIn("new@example.com")).toEqual(await signIn("owner@example.com"));
    const token = tokenIn(await smtp.textTo("new@example.com"));
    const verified = await open().ask("email.verify", { body: { token, password: PASSWORD } });
    expect(verified).toMatchObject({ email: "new@example.com", user: { must_verify: false, role: "user" } });
    const body = { email: "new@example.com", password: PASSWORD };
    expect((await open().ask("session.create", { body })).user.email).toBe("new@example.com");
  });

  test("a link to register opens no account once registration is closed", async () => {
    await open().ask("registration.create", { body: { email: "late@example.com" } });
    const token = tokenIn(await smtp.textTo("late@example.com"));
    await other.apply("registration: closed");
    const body = { token, password: PASSWORD };
    expect(await open().refused("email.verify", { body })).toMatchObject({ code: "registration_closed" });
    await other.apply("registration: open");
    await open().ask("email.verify", { body });
  });

  test("whoever has an account of before and has not verified its address makes no key", async () => {
    const email = "fresh@example.com";
    const browser = await signInAs(other, email);
    await other.installation.db.sql`UPDATE app_user SET must_verify = 1 WHERE email = ${email}`;
    expect((await browser.ask("session.current")).user?.must_verify).toBe(true);
    const key = { body: { name: "mine", group: "default" } };
    expect(await browser.refused("keys.create", key)).toMatchObject({
      code: "forbidden",
      message: expect.stringContaining("Verify"),
    });
    await browser.ask("email.send_link");
    const token = tokenIn(await smtp.textTo(email));
    const response = await open().send("email.verify", { body: { token, password: PASSWORD } });
    const [cookie = ""] = response.headers.get("set-cookie")?.split(";") ?? [];
    const owner = asking(other.url, { cookie, origin: other.url });
    expect((await owner.ask("session.current")).user?.must_verify).toBe(false);
    await owner.ask("keys.create", key);
    expect(await owner.refused("email.send_link")).toMatchObject({ code: "conflict" });
  });

  test("messages cannot be asked for without end", async () => {
    const told: number[] = [];
    for (let n = 0; n <= limits.lettersPerHour; n += 1) {
      told.push((await open().send("password.forgot", { body: { email: "victim@example.com" } })).status);
    }
    expect(told.at(-1)).toBe(429);
  });
});

test("everything is in the audit log, no secret is, and the chain is whole", async () => {
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
  expect(await verifyChangeLog(db)).toMatchObject({ rows: rows.length, broken: [] });
});
