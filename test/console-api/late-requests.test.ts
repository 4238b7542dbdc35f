/** Requests that arrive before a reset and finish after it: none of them restores access to the account. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { listSessions } from "../../src/store/identity/sessions.ts";
import { countActiveKeys } from "../../src/store/policy/keys.ts";
import { openConsoleClient, type SignedInClient, signInAs } from "../support/console-client.ts";
import { eachEngine } from "../support/each-engine.ts";
import { eventually } from "../support/eventually.ts";
import { rawRequest } from "../support/raw-http.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

const PASSWORD = "the attacker's password";

let gateway: RunningGateway;
let admin: SignedInClient;

async function signInAttacker(email: string): Promise<SignedInClient> {
  await gateway.apply(`users: [{ email: ${email}, password: ${JSON.stringify(PASSWORD)} }]`);
  return signInAs(gateway, email);
}

const resetAccess = (id: string) => admin.call("admin.users.reset_access", { params: { id }, body: {} });

async function countAccess(userId: string) {
  const { db } = gateway.installation;
  return {
    keys: await countActiveKeys(db, userId),
    sessions: (await listSessions(db, userId, { createdAfterMs: 0, seenAfterMs: 0 })).length,
    tokens: (await db.sql`SELECT id FROM access_token WHERE user_id = ${userId}`).length,
    passwords: (await db.sql`SELECT id FROM app_user WHERE id = ${userId} AND password_hash IS NOT NULL`)
      .length,
  };
}

const NO_ACCESS = { keys: 0, sessions: 0, tokens: 0, passwords: 0 };

/** The gateway identifies the caller, and then sends 100 Continue when it reads the body. */
async function bodyRequested(received: () => Buffer): Promise<void> {
  await eventually(() => received().length > 0);
}

/** Sends all but the last byte of the request, and the last byte after the reset. */
async function sendAcrossReset(attacker: SignedInClient, path: string, body: unknown): Promise<number> {
  const text = JSON.stringify(body);
  const head = [
    `POST ${path} HTTP/1.1`,
    "Host: localhost",
    `Cookie: ${attacker.cookie}`,
    `Origin: ${gateway.url}`,
    "Sec-Fetch-Site: same-origin",
    "Expect: 100-continue",
    "Content-Type: application/json",
    `Content-Length: ${text.length}`,
  ].join("\r\n");
  const { status } = await rawRequest(gateway.url, `${head}\r\n\r\n`, async (socket, received) => {
    await bodyRequested(received);
    socket.write(text.slice(0, -1));
    await resetAccess(attacker.user.id);
    socket.write(text.slice(-1));
  });
  return status;
}

eachEngine((engine) => {
  beforeAll(async () => {
    gateway = await startTestGateway({ databaseUrl: await engine.emptyUrl() });
    admin = await signInAs(gateway, "boss@example.com", "admin");
  });
  afterAll(() => gateway.stop());

  test.each([
    ["/api/keys", { name: "late", group: "default" }],
    ["/api/tokens", { name: "late", scope: "read", expires_at: null }],
    ["/api/password", { new_password: "another password of the attacker" }],
    ["/api/second-factor", {}],
  ])("POST %s whose body ends after a reset of all access is rejected", async (path, body) => {
    const attacker = await signInAttacker(`late${path.replaceAll("/", "-")}@example.com`);
    expect(await sendAcrossReset(attacker, path, body)).toBe(401);
    expect(await countAccess(attacker.user.id)).toEqual(NO_ACCESS);
  });

  test("a request whose empty body ends after a reset of all access is rejected", async () => {
    const attacker = await signInAttacker("late-empty@example.com");
    const head = [
      "DELETE /api/tokens/none HTTP/1.1",
      "Host: localhost",
      `Cookie: ${attacker.cookie}`,
      `Origin: ${gateway.url}`,
      "Expect: 100-continue",
      "Transfer-Encoding: chunked",
    ].join("\r\n");
    const { status } = await rawRequest(gateway.url, `${head}\r\n\r\n`, async (socket, received) => {
      await bodyRequested(received);
      await resetAccess(attacker.user.id);
      socket.write("0\r\n\r\n");
    });
    expect(status).toBe(401);
  });

  test("signing in with the old password during a reset leaves no session", async () => {
    const attacker = await signInAttacker("late-sign-in@example.com");
    const stranger = openConsoleClient(gateway.url, { origin: gateway.url });
    const body = { email: attacker.user.email, password: PASSWORD };
    // Passwords are verified a few at a time, so the last of these finish well after the reset.
    const attempts = Array.from({ length: 8 }, () => stranger.send("session.create", { body }));
    await resetAccess(attacker.user.id);
    await Promise.all(attempts);
    expect(await countAccess(attacker.user.id)).toEqual(NO_ACCESS);
  });

  test("changing the password during a reset changes nothing", async () => {
    const attacker = await signInAttacker("late-change@example.com");
    const body = { password: PASSWORD, new_password: "another password of the attacker" };
    const attempts = Array.from({ length: 4 }, () => attacker.send("password.change", { body }));
    // The current password is verified by then, or its verification has begun.
    await Bun.sleep(20);
    await resetAccess(attacker.user.id);
    await Promise.all(attempts);
    expect(await countAccess(attacker.user.id)).toEqual(NO_ACCESS);
  });

  test("keys and tokens that are created during a reset are all revoked by it", async () => {
    const attacker = await signInAttacker("late-many@example.com");
    const attempts = Array.from({ length: 40 }, (_, at) =>
      at % 2 === 0
        ? attacker.send("keys.create", { body: { name: `late ${at}`, group: "default" } })
        : attacker.send("tokens.create", { body: { name: `late ${at}`, expires_at: null } }),
    );
    await resetAccess(attacker.user.id);
    await Promise.all(attempts);
    expect(await countAccess(attacker.user.id)).toEqual(NO_ACCESS);
  });
});
