/** Temporary secrets of a key: for pages that call models as their signed-in user. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { listChanges } from "../../src/store/audit-log/audit-log.ts";
import { readRotations } from "../../src/store/policy/keys.ts";
import { createTokenClient, type SignedInClient, signInAs } from "../support/console-client.ts";
import { type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";

const ADA = "ada@example.com";

let gateway: PaidGateway;
let ada: SignedInClient;

beforeAll(async () => {
  gateway = await startPaidGateway({
    users: [{ email: ADA, balance: "1.00", groups: ["inner"] }, { email: "bob@example.com" }],
    groups: [
      { name: "free", models: ["paid"], accounts: ["sim"], limits: { rpm: 3 } },
      { name: "inner", access: "members", models: ["paid"], accounts: ["sim"] },
    ],
  });
  ada = await signInAs(gateway, ADA);
});
afterAll(() => gateway.stop());

async function chat(secret: string): Promise<number> {
  const body = { model: "paid", messages: [{ role: "user", content: "Hello" }] };
  const headers = { authorization: `Bearer ${secret}` };
  return (await gateway.call("/v1/chat/completions", body, { headers })).status;
}

let made = 0;
async function makeKey(client: SignedInClient, group = "inner") {
  made += 1;
  const { key, secret } = await client.call("keys.create", { body: { name: `key ${made}`, group } });
  return { secret, params: { id: key.id } };
}

const create = (client: SignedInClient, params: { id: string }) =>
  client.call("keys.temporary_secret", { params, body: {} });

test("a temporary secret works beside the secret of the key, and counts against the same limits", async () => {
  const { secret, params } = await makeKey(ada, "free");
  const temporary = await create(ada, params);
  expect(temporary.works_until_at).toBeGreaterThan(Date.now() + limits.temporarySecrets.lifeMs - 60_000);
  expect(await chat(temporary.secret)).toBe(200);
  expect(await chat(secret)).toBe(200);
  expect(await chat(temporary.secret)).toBe(200);
  expect(await chat(secret)).toBe(429);
  expect((await ada.call("keys.get", { params })).usage.requests).toBe(4);
});

test("it is not a former secret: it is not listed, and is no rotation", async () => {
  const { secret, params } = await makeKey(ada);
  for (let count = 0; count <= limits.formerSecretsMax; count++) await create(ada, params);
  const rotated = await ada.call("keys.rotate", { params, body: {} });
  expect(await chat(secret)).toBe(200);
  const { former_secrets: former } = await ada.call("keys.get", { params });
  expect(former.map(({ last4 }) => last4)).toEqual([secret.slice(-4)]);
  expect(await chat(rotated.secret)).toBe(200);
  const other = await makeKey(ada);
  await create(ada, other.params);
  expect([...(await readRotations(gateway.installation.db, ada.user.id)).keys()]).not.toContain(
    other.params.id,
  );
});

test("it ends with the session that created it, and with no other", async () => {
  const { secret, params } = await makeKey(ada);
  const first = await signInAs(gateway, ADA);
  const second = await signInAs(gateway, ADA);
  const ofFirst = await create(first, params);
  const ofSecond = await create(second, params);
  await first.call("session.end");
  expect(await chat(ofFirst.secret)).toBe(401);
  expect(await chat(ofSecond.secret)).toBe(200);
  await ada.call("sessions.revoke_others");
  expect(await chat(ofSecond.secret)).toBe(401);
  expect(await chat(secret)).toBe(200);
});

test("it ends when its key is rotated without an overlap, or revoked", async () => {
  const { params } = await makeKey(ada);
  const before = await create(ada, params);
  await ada.call("keys.rotate", { params, body: { overlap_ms: 0 } });
  expect(await chat(before.secret)).toBe(401);
  const after = await create(ada, params);
  expect(await chat(after.secret)).toBe(200);
  await ada.call("keys.revoke", { params });
  expect(await chat(after.secret)).toBe(401);
  expect(await ada.callRejected("keys.temporary_secret", { params, body: {} })).toMatchObject({
    status: 409,
  });
});

test("a key has a bounded number of them: the oldest ones end", async () => {
  const { params } = await makeKey(ada);
  const secrets: string[] = [];
  for (let count = 0; count <= limits.temporarySecrets.perKeyMax; count++)
    secrets.push((await create(ada, params)).secret);
  expect(await chat(secrets[0] ?? "")).toBe(401);
  expect(await chat(secrets.at(-1) ?? "")).toBe(200);
});

test("only the signed-in owner gets one, as long as the owner may create keys in the group", async () => {
  const { params } = await makeKey(ada);
  const body = { params, body: {} };
  const admin = await signInAs(gateway, "root@example.com", "admin");
  expect(await admin.callRejected("keys.temporary_secret", body)).toMatchObject({ status: 403 });
  const bob = await signInAs(gateway, "bob@example.com");
  expect(await bob.callRejected("keys.temporary_secret", body)).toMatchObject({ status: 404 });
  const token = await createTokenClient(gateway, ADA, "keys");
  expect(await token.callRejected("keys.temporary_secret", body)).toMatchObject({ status: 403 });
  await gateway.apply(`users: [{ email: ${ADA}, groups: [] }]`);
  expect(await ada.callRejected("keys.temporary_secret", body)).toMatchObject({ status: 403 });
  await gateway.apply(`users: [{ email: ${ADA}, groups: [inner] }]`);
});

test("each one is in the audit log, without the secret", async () => {
  const { params } = await makeKey(ada);
  const { secret } = await create(ada, params);
  const { rows } = await listChanges(
    gateway.installation.db,
    { action: "key.temporary_secret" },
    { after: null, limit: 1 },
  );
  expect(rows[0]?.changes.map(({ field }) => field)).toEqual(["works_until"]);
  expect(JSON.stringify(rows)).not.toContain(secret.slice(-8));
});
