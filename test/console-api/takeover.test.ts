/** Accounts that another person registered or used before their owner: what the owner's links end, and what stays. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { seal, totpBinding } from "../../src/secrets/seal.ts";
import { mintTotpSecret, totpCode, totpStep } from "../../src/secrets/totp.ts";
import { listChanges } from "../../src/store/audit-log/audit-log.ts";
import { beginSecondFactor, confirmSecondFactor } from "../../src/store/identity/credentials.ts";
import { listLinks } from "../../src/store/identity/links.ts";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import {
  type ConsoleClient,
  createTokenClient,
  openConsoleClient,
  type SignedInClient,
  signInAs,
} from "../support/console-client.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type SmtpServer, startSmtpServer } from "../support/smtp-server.ts";

const ATTACKER = "the attacker's password";
const OWNER = "the owner's own password";

let smtp: SmtpServer;
let gateway: RunningGateway;
let admin: SignedInClient;

/** A separate gateway for each part, because registrations and messages are counted by source address. */
async function start(): Promise<void> {
  smtp = await startSmtpServer();
  gateway = await startTestGateway();
  await gateway.apply(`
registration: open
smtp: { host: 127.0.0.1, port: ${smtp.port}, security: none, from: gateway@example.com, private_network: true }`);
  admin = await signInAs(gateway, "boss@example.com", "admin");
}

async function stop(): Promise<void> {
  await gateway.stop();
  await smtp.stop();
}

let made = 0;
const stranger = (): ConsoleClient => openConsoleClient(gateway.url, { origin: gateway.url });

const tokenIn = (text: string) => /#(\w+)/.exec(text)?.[1] ?? "";
const linkTo = async (email: string, skipped = 0) => tokenIn(await smtp.textTo(email, skipped));

function openBrowser(response: Response): ConsoleClient {
  const [cookie = ""] = response.headers.get("set-cookie")?.split(";") ?? [];
  return openConsoleClient(gateway.url, { cookie, origin: gateway.url });
}

const signInStatus = async (email: string, password: string) =>
  (await stranger().send("session.create", { body: { email, password } })).status;

async function keyStatus(secret: string): Promise<number> {
  const { status } = await fetch(`${gateway.url}/v1/models`, {
    headers: { authorization: `Bearer ${secret}` },
  });
  return status;
}

/** Everything that can act as a user, created by a person who is signed in as that user. */
async function makeAccess(email: string) {
  const browser = await signInAs(gateway, email);
  const program = await createTokenClient(gateway, email, "keys");
  const { key, secret } = await browser.call("keys.create", {
    body: { name: `key ${made++}`, group: "default" },
  });
  return { browser, program, key, secret, userId: browser.user.id };
}

async function turnOnSecondFactor(userId: string): Promise<string> {
  const { db, keyring, clock } = gateway.installation;
  const secret = mintTotpSecret(randomBytes);
  const sealed = seal(keyring, totpBinding(userId), secret, randomBytes);
  await beginSecondFactor(db, userId, sealed);
  await confirmSecondFactor(db, userId, { sealedSecret: sealed, sinceMs: clock.nowMs() }, []);
  return secret;
}

async function expectEnded({
  browser,
  program,
  secret,
}: Awaited<ReturnType<typeof makeAccess>>): Promise<void> {
  expect((await browser.call("session.current")).user).toBeNull();
  expect(await program.callRejected("session.current")).toMatchObject({ status: 401 });
  expect(await keyStatus(secret)).toBe(401);
}

describe("registering with a mail server", () => {
  beforeAll(start);
  afterAll(stop);

  test("creates no account and accepts no password; the link does", async () => {
    const email = "victim@example.com";
    expect(
      await stranger().callRejected("registration.create", { body: { email, password: ATTACKER } }),
    ).toMatchObject({ code: "invalid_value", param: "password" });
    expect(await stranger().call("registration.create", { body: { email } })).toEqual({ user: null });
    expect(await findUserByEmail(gateway.installation.db, email)).toBeNull();
    const token = await linkTo(email);
    expect(await stranger().call("links.read", { body: { token } })).toMatchObject({
      purpose: "verify",
      email,
    });
    const browser = openBrowser(await stranger().send("email.verify", { body: { token, password: OWNER } }));
    expect((await browser.call("session.current")).user).toMatchObject({ email });
    expect(await signInStatus(email, ATTACKER)).toBe(401);
    expect(await signInStatus(email, OWNER)).toBe(200);
    expect(
      await stranger().callRejected("email.verify", { body: { token, password: ATTACKER } }),
    ).toMatchObject({
      code: "link_used_up",
    });
  });

  test("again by another person keeps the owner's link valid, and using one link ends all others", async () => {
    const email = "patient@example.com";
    await stranger().call("registration.create", { body: { email } });
    const first = await linkTo(email);
    await stranger().call("registration.create", { body: { email } });
    const second = await linkTo(email, 1);
    expect(second).not.toBe(first);
    const invitation = await admin.call("admin.links.create", { body: { purpose: "invite", email } });
    await stranger().call("email.verify", { body: { token: first, password: OWNER } });
    for (const token of [second, tokenIn(invitation.url)]) {
      expect(await stranger().callRejected("links.read", { body: { token } })).toMatchObject({ status: 410 });
    }
    const left = await listLinks(gateway.installation.db, 0, { after: null, limit: 100 });
    expect(left.filter((link) => link.email === email)).toEqual([]);
    expect(await signInStatus(email, OWNER)).toBe(200);
  });

  test("ends when an invitation is accepted first", async () => {
    const email = "invited@example.com";
    await stranger().call("registration.create", { body: { email } });
    const token = await linkTo(email);
    const { url } = await admin.call("admin.links.create", { body: { purpose: "invite", email } });
    await stranger().call("invitation.accept", { body: { token: tokenIn(url), password: OWNER } });
    expect(
      await stranger().callRejected("email.verify", { body: { token, password: ATTACKER } }),
    ).toMatchObject({
      code: "link_used_up",
    });
  });

  test("does not change an account that an administrator added in the meantime", async () => {
    const email = "added@example.com";
    await stranger().call("registration.create", { body: { email } });
    const token = await linkTo(email);
    await admin.call("admin.users.create", { body: { email } });
    expect(await stranger().callRejected("email.verify", { body: { token, password: OWNER } })).toMatchObject(
      {
        code: "conflict",
      },
    );
    expect((await findUserByEmail(gateway.installation.db, email))?.passwordHash).toBeNull();
  });
});

describe("a password reset", () => {
  beforeAll(start);
  afterAll(stop);

  test("lists all access of the user, marks new keys, and revokes the selected keys", async () => {
    const email = "reset@example.com";
    await stranger().call("registration.create", { body: { email } });
    await stranger().call("email.verify", { body: { token: await linkTo(email), password: OWNER } });
    const own = await makeAccess(email);
    const { db, clock } = gateway.installation;
    await db.sql`UPDATE api_key SET created_at_ms = ${clock.nowMs() - 86_400_000} WHERE id = ${own.key.id}`;
    await db.sql`UPDATE app_user SET email_verified_at_ms = ${clock.nowMs() - 3_600_000} WHERE id = ${own.userId}`;
    const theirs = await makeAccess(email);
    await stranger().call("password.forgot", { body: { email } });
    const token = await linkTo(email, 1);
    const { access } = await stranger().call("links.read", { body: { token } });
    expect(access).toMatchObject({ since: expect.any(Number), needs_code: false, keys_total: 2 });
    expect(access?.keys.map(({ id, is_new }) => [id, is_new])).toEqual([
      [theirs.key.id, true],
      [own.key.id, false],
    ]);
    expect(access?.tokens).toHaveLength(2);
    expect(access?.tokens[0]).toMatchObject({ name: "test", scope: "keys", is_new: true });
    expect(access?.sessions.length).toBeGreaterThanOrEqual(2);
    expect(JSON.stringify(access)).not.toContain(theirs.secret);
    const body = { token, password: ATTACKER, revoke_keys: [theirs.key.id] };
    expect(await stranger().call("password.reset", { body })).toMatchObject({
      revoked_keys: 1,
      revoked_tokens: 2,
    });
    await expectEnded(theirs);
    expect(await keyStatus(own.secret)).toBe(200);
    expect(await own.program.callRejected("session.current")).toMatchObject({ status: 401 });
    const { rows } = await listChanges(db, {}, { after: null, limit: 50 });
    expect(rows.map(({ action, target }) => [action, target])).toContainEqual([
      "key.revoke",
      expect.stringContaining(theirs.key.name),
    ]);
  });

  test("revokes all keys on request", async () => {
    const email = "all@example.com";
    const access = [await makeAccess(email), await makeAccess(email)];
    await stranger().call("password.forgot", { body: { email } });
    const token = await linkTo(email);
    // Nothing proves that the owner ever had this account.
    const read = await stranger().call("links.read", { body: { token } });
    expect(read.access).toMatchObject({ since: null, keys: [{ is_new: true }, { is_new: true }] });
    const body = { token, password: OWNER, revoke_keys: "all" };
    expect(await stranger().call("password.reset", { body })).toMatchObject({ revoked_keys: 2 });
    for (const one of access) await expectEnded(one);
  });

  test("marks a rotated key as new, because the person who rotated it has its secret", async () => {
    const email = "rotated@example.com";
    const { browser, key, userId } = await makeAccess(email);
    const { db, clock } = gateway.installation;
    await db.sql`UPDATE api_key SET created_at_ms = ${clock.nowMs() - 86_400_000} WHERE id = ${key.id}`;
    await db.sql`UPDATE app_user SET email_verified_at_ms = ${clock.nowMs() - 3_600_000} WHERE id = ${userId}`;
    const { url } = await admin.call("admin.links.create", { body: { purpose: "reset", email } });
    const read = () => stranger().call("links.read", { body: { token: tokenIn(url) } });
    expect((await read()).access?.keys).toMatchObject([{ is_new: false, rotated_at: null }]);
    await browser.call("keys.rotate", { params: { id: key.id }, body: {} });
    expect((await read()).access?.keys).toMatchObject([{ is_new: true, rotated_at: expect.any(Number) }]);
  });

  test("revokes keys that were created or rotated after the list was read", async () => {
    const email = "meanwhile@example.com";
    const own = await makeAccess(email);
    const rotated = await makeAccess(email);
    const { url } = await admin.call("admin.links.create", { body: { purpose: "reset", email } });
    const token = tokenIn(url);
    const { access } = await stranger().call("links.read", { body: { token } });
    // The keys are created in a later millisecond than the one of the list.
    await Bun.sleep(5);
    const later = await makeAccess(email);
    const { secret } = await rotated.browser.call("keys.rotate", {
      params: { id: rotated.key.id },
      body: {},
    });
    const body = { token, password: OWNER, revoke_keys: [], revoke_keys_since: access?.at };
    expect(await stranger().call("password.reset", { body })).toMatchObject({ revoked_keys: 2 });
    expect(await keyStatus(later.secret)).toBe(401);
    expect(await keyStatus(secret)).toBe(401);
    expect(await keyStatus(own.secret)).toBe(200);
  });

  test("revokes no key of another user, and no key twice", async () => {
    const email = "greedy@example.com";
    const [mine, other] = [await makeAccess(email), await makeAccess("bystander@example.com")];
    await mine.browser.call("keys.revoke", { params: { id: mine.key.id } });
    await stranger().call("password.forgot", { body: { email } });
    const token = await linkTo(email);
    const body = { token, password: OWNER, revoke_keys: [other.key.id, mine.key.id, "none"] };
    expect(await stranger().call("password.reset", { body })).toMatchObject({ revoked_keys: 0 });
    expect(await keyStatus(other.secret)).toBe(200);
  });

  test("with a second factor revokes keys only with a code", async () => {
    const email = "factor@example.com";
    const access = await makeAccess(email);
    const secret = await turnOnSecondFactor(access.userId);
    const { url } = await admin.call("admin.links.create", { body: { purpose: "reset", email } });
    const token = tokenIn(url);
    const { access: listed } = await stranger().call("links.read", { body: { token } });
    expect(listed).toMatchObject({ needs_code: true, second_factor_since: expect.any(Number) });
    const body = { token, password: OWNER, revoke_keys: "all" };
    expect(await stranger().callRejected("password.reset", { body })).toMatchObject({
      code: "second_factor_required",
      param: "code",
    });
    expect(
      await stranger().callRejected("password.reset", {
        body: { token, password: OWNER, revoke_keys_since: 0 },
      }),
    ).toMatchObject({ code: "second_factor_required" });
    expect(
      await stranger().callRejected("password.reset", { body: { ...body, code: "000000" } }),
    ).toMatchObject({
      code: "wrong_credentials",
    });
    expect(await keyStatus(access.secret)).toBe(200);
    const code = totpCode(secret, totpStep(Date.now()));
    await stranger().call("password.reset", { body: { ...body, code } });
    await expectEnded(access);
    // The second factor stays: reading the mail is not enough to sign in.
    expect(
      await stranger().callRejected("session.create", { body: { email, password: OWNER } }),
    ).toMatchObject({
      code: "second_factor_required",
    });
  });

  test("lists no access for links of another kind", async () => {
    const email = "plain@example.com";
    await makeAccess(email);
    const { url } = await admin.call("admin.links.create", { body: { purpose: "sign_in", email } });
    const read = await stranger().call("links.read", { body: { token: tokenIn(url) } });
    expect(read.access).toBeNull();
  });
});

describe("an administrator who resets the access of a user", () => {
  beforeAll(start);
  afterAll(stop);

  test("ends all access at once and gets the link to choose a password", async () => {
    const email = "taken@example.com";
    await gateway.apply(`users: [{ email: ${email}, password: ${JSON.stringify(ATTACKER)} }]`);
    const access = await makeAccess(email);
    await turnOnSecondFactor(access.userId);
    const earlier = await admin.call("admin.links.create", { body: { purpose: "reset", email } });
    const params = { id: access.userId };
    const done = await admin.call("admin.users.reset_access", { params, body: { mail: true } });
    expect(done).toMatchObject({ mailed: true, revoked_keys: 1, revoked_tokens: 1, ended_sessions: 1 });
    await expectEnded(access);
    expect(await signInStatus(email, ATTACKER)).toBe(401);
    expect(await admin.call("admin.users.get", { params })).toMatchObject({
      has_password: false,
      has_second_factor: false,
      keys: 0,
    });
    expect(
      await stranger().callRejected("links.read", { body: { token: tokenIn(earlier.url) } }),
    ).toMatchObject({
      status: 410,
    });
    const mail = await smtp.textTo(email);
    expect(mail).toContain("administrator");
    expect(tokenIn(mail)).toBe(tokenIn(done.url));
    await stranger().call("password.reset", { body: { token: tokenIn(done.url), password: OWNER } });
    expect(await signInStatus(email, OWNER)).toBe(200);
    const { rows } = await listChanges(gateway.installation.db, {}, { after: null, limit: 50 });
    expect(rows.map(({ action }) => action)).toContain("user.reset_access");
  });

  test("cannot reset their own access, and cannot use a token", async () => {
    const params = { id: admin.user.id };
    expect(await admin.callRejected("admin.users.reset_access", { params, body: {} })).toMatchObject({
      code: "conflict",
    });
    const token = await createTokenClient(gateway, "boss@example.com", "admin", "admin");
    expect(await token.callRejected("admin.users.reset_access", { params, body: {} })).toMatchObject({
      code: "forbidden",
    });
  });
});
