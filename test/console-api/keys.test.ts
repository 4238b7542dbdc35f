/** API keys through the console's API: created, listed, edited, rotated and revoked on a running gateway. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { newKey } from "../../src/config/plan/plan-keys.ts";
import { listChanges } from "../../src/store/audit-log/audit-log.ts";
import { transaction } from "../../src/store/engine/db.ts";
import { findKey, insertKey } from "../../src/store/policy/keys.ts";
import { insertUsage, usageRow } from "../../src/store/usage/usage-row.test-support.ts";
import { createTokenClient, type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type PaidGateway, PRICE, paidFile, startPaidGateway } from "../support/paid-gateway.ts";

const ADA = "ada@example.com";
const DAY_MS = 86_400_000;

const FREE = {
  name: "free",
  models: ["paid"],
  accounts: ["sim"],
  interfaces: ["chat", "embeddings"],
  limits: { rpm: 60, windows: [{ per: "1d", requests: 1_000, usd: "5.00" }] },
};
const SETUP = {
  billing: { multiplier: "1.5" },
  users: [{ email: ADA, balance: "1.00", groups: ["inner"] }, { email: "bob@example.com" }],
  groups: [FREE, { name: "inner", access: "members", models: ["paid"], accounts: ["sim"] }],
};

let gateway: PaidGateway;
let ada: SignedInClient;
let bob: SignedInClient;
let admin: SignedInClient;

beforeAll(async () => {
  gateway = await startPaidGateway(SETUP);
  ada = await signInAs(gateway, ADA);
  bob = await signInAs(gateway, "bob@example.com");
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(() => gateway.stop());

function chat(secret: string): Promise<Response> {
  const body = { model: "paid", messages: [{ role: "user", content: "Hello" }] };
  return gateway.call("/v1/chat/completions", body, { headers: { authorization: `Bearer ${secret}` } });
}

let made = 0;
async function makeKey(asking: SignedInClient, body: object = {}) {
  made += 1;
  return asking.call("keys.create", { body: { name: `key ${made}`, group: "free", ...body } });
}

const readAudit = async (target: string) =>
  (await listChanges(gateway.installation.db, { target }, { after: null, limit: 9 })).rows;

describe("the groups in which a user can create keys", () => {
  test("are the open groups and the groups of which the user is a member", async () => {
    const names = async (asking: SignedInClient) =>
      (await asking.call("groups.list")).data.map(({ name }) => name);
    expect(await names(ada)).toEqual(["paying", "free", "inner"]);
    expect(await names(bob)).toEqual(["paying", "free"]);
    expect(await names(admin)).toEqual(["paying", "free", "inner"]);
  });

  test("show models, interfaces, limits and prices, with multipliers and fallbacks resolved", async () => {
    const { data } = await ada.call("groups.list");
    expect(data.find(({ name }) => name === "free")).toMatchObject({
      charge: "none",
      interfaces: ["chat", "embeddings"],
      limits: { rpm: 60, windows: [{ per: "1d", requests: 1_000, usd: "5.00" }] },
    });
    const [model] = data.find(({ name }) => name === "paying")?.models ?? [];
    expect(model).toMatchObject({ id: "paid", interfaces: ["chat", "responses", "embeddings", "images"] });
    expect(model?.price?.tokens).toEqual({ input: "3.75", cached_input: "0.9375", output: "15.0000015" });
  });

  test("omit prices that are only fallbacks", async () => {
    expect(PRICE.input).toBe("2.50");
    const { data } = await ada.call("groups.list");
    const price = data[0]?.models[0]?.price;
    expect(price).toMatchObject({ long_context: null, image: null, images: {}, request: null });
    expect(Object.keys(price?.tokens ?? {})).not.toContain("reasoning");
  });
});

describe("creating a key", () => {
  test("returns the secret once, and the key works at once", async () => {
    const { key, secret } = await makeKey(ada, { name: "laptop", limits: { rpm: 30 } });
    expect(secret).toStartWith(`gwk_${key.public_id}_`);
    expect(key).toMatchObject({ name: "laptop", group: "free", status: "active", limits: { rpm: 30 } });
    expect(secret).toEndWith(key.last4);
    expect((await chat(secret)).status).toBe(200);
    const shown = await (await ada.fetch(`/api/keys/${key.id}`)).text();
    expect(shown).not.toContain(secret);
  });

  test("is allowed with a token of scope keys, not with a read token", async () => {
    const full = await createTokenClient(gateway, ADA, "keys");
    expect(
      (await full.call("keys.create", { body: { name: "by token", group: "free" } })).secret,
    ).toStartWith("gwk_");
    const reading = await createTokenClient(gateway, ADA, "read");
    expect(await reading.callRejected("keys.create", { body: { name: "no", group: "free" } })).toMatchObject({
      status: 403,
    });
  });

  test.each<[string, object, string, string]>([
    ["a name that is taken", { name: "taken" }, "name", "already"],
    ["no name", { name: "  " }, "name", "1 to 64"],
    ["an unknown group", { group: "nowhere" }, "group", "cannot create keys in the group"],
    ["a group for members only", { group: "inner" }, "group", "cannot create keys in the group"],
    ["an expiry in the past", { expires_at: 1_000 }, "expires_at", "past"],
    ["an expiry after the year 9999", { expires_at: 253_402_300_800_000 }, "expires_at", "year 10000"],
    ["a limit higher than the group's", { limits: { rpm: 61 } }, "limits.rpm", "60"],
    [
      "a higher window",
      { limits: { windows: [{ per: "1d", usd: "5.01" }] } },
      "limits.windows.0.usd",
      "$5.00",
    ],
    ["a window without a limit", { limits: { windows: [{ per: "1d" }] } }, "limits.windows.0", "requests"],
  ])("%s is rejected with its field", async (_, body, param, expectedMessage) => {
    if (param === "name") await bob.send("keys.create", { body: { name: "taken", group: "free" } });
    const rejection = await bob.callRejected("keys.create", {
      body: { name: `no ${param}`, group: "free", ...body },
    });
    expect(rejection.param).toBe(param);
    expect(rejection.message).toContain(expectedMessage);
    expect([400, 409]).toContain(rejection.status);
  });

  test("for another user is reserved to administrators, who can use any group", async () => {
    const body = { name: "from above", group: "inner", user: bob.user.id };
    expect(await ada.callRejected("keys.create", { body })).toMatchObject({ status: 403, param: "user" });
    const { key } = await admin.call("keys.create", { body });
    expect(await bob.call("keys.get", { params: { id: key.id } })).toMatchObject({ group: "inner" });
  });

  test("is recorded in the audit log without the secret", async () => {
    const { secret } = await makeKey(ada, { name: "audited" });
    const [entry] = await readAudit(`key audited of ${ADA}`);
    expect(entry).toMatchObject({
      action: "key.create",
      actor: { kind: "user", id: ada.user.id, name: ADA },
    });
    expect(JSON.stringify(entry)).not.toContain(secret.slice(14));
  });
});

describe("the maximum number of keys per user", () => {
  test("rejects one more, also for concurrent requests, but not for an administrator", async () => {
    const hana = await signInAs(gateway, "hana@example.com");
    const { key } = await makeKey(hana);
    const groupId = (await findKey(gateway.installation.db, key.id))?.groupId ?? "";
    await transaction(gateway.installation.db, async (tx) => {
      for (let i = 1; i < limits.keysPerUserMax - 1; i++) {
        const wanted = { name: `many ${i}`, userId: hana.user.id, groupId, expiresAtMs: null };
        await insertKey(tx, newKey(wanted, gateway.installation).record);
      }
    });
    const create = (name: string) => hana.send("keys.create", { body: { name, group: "free" } });
    const both = await Promise.all([create("last"), create("one too many")]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(await hana.callRejected("keys.create", { body: { name: "more", group: "free" } })).toMatchObject({
      status: 409,
      code: "conflict",
      message: expect.stringContaining("Revoke an unused key"),
    });
    await hana.call("keys.revoke", { params: { id: key.id } });
    await makeKey(hana);
    await makeKey(admin, { user: hana.user.id });
  });
});

describe("the key list", () => {
  test("is paged and contains only the user's own keys", async () => {
    const carol = await signInAs(gateway, "carol@example.com");
    for (const name of ["one", "two", "three"]) await makeKey(carol, { name });
    const first = await carol.call("keys.list", { query: { limit: 2 } });
    expect(first.data.map(({ name }) => name)).toEqual(["three", "two"]);
    const second = await carol.call("keys.list", { query: { limit: 2, after: first.next ?? "" } });
    expect(second.data.map(({ name }) => name)).toEqual(["one"]);
    expect(second.next).toBeNull();
    // The search covers ids too, and a short word can match one by chance.
    const { data: found } = await carol.call("keys.list", { query: { search: "THREE" } });
    expect(found.map(({ name }) => name)).toEqual(["three"]);
    const id = first.data[0]?.id ?? "";
    expect(await bob.callRejected("keys.get", { params: { id } })).toMatchObject({
      status: 404,
      code: "not_found",
    });
    expect(await bob.callRejected("keys.list", { query: { user: carol.user.id } })).toMatchObject({
      status: 403,
    });
    expect((await admin.call("keys.list", { query: { user: carol.user.id } })).data).toHaveLength(3);
    expect(await carol.callRejected("keys.list", { query: { after: "nonsense" } })).toMatchObject({
      status: 400,
      param: "after",
    });
  });

  test("includes the most recent use of a key", async () => {
    const dora = await signInAs(gateway, "dora@example.com");
    const { key, secret } = await makeKey(dora);
    expect((await dora.call("keys.list")).data[0]).toMatchObject({
      last_used_at: null,
      usage: { requests: 0 },
    });
    await chat(secret);
    const [listed] = (await dora.call("keys.list")).data;
    expect(listed).toMatchObject({ id: key.id, usage: { requests: 1, charged: "0.00" } });
    expect(Number(listed?.usage.cost)).toBeGreaterThan(0);
    expect(listed?.usage.requests_by_day).toHaveLength(30);
    expect(listed?.usage.requests_by_day.at(-1)).toBe(1);
    expect(listed?.last_used_at).toBeGreaterThan(Date.now() - 60_000);
  });

  test("has separate daily usage for every key of a page", async () => {
    const eve = await signInAs(gateway, "eve@example.com");
    const keys = await Promise.all(Array.from({ length: 12 }, () => makeKey(eve)));
    await insertUsage(
      gateway.installation.db,
      keys.flatMap(({ key }, i) => [usageRow({ keyId: key.id, atMs: Date.now() - (i + 1) * DAY_MS })]),
    );
    const { data } = await eve.call("keys.list", { query: { limit: 200 } });
    expect(data.map(({ usage }) => usage.requests_by_day.indexOf(1)).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 12 }, (_, i) => 17 + i),
    );
  });
});

describe("editing a key", () => {
  test("changes only the fields that are sent, and is active at once", async () => {
    const { key, secret } = await makeKey(ada, { name: "before", limits: { rpm: 5, concurrency: 2 } });
    const expires = Date.now() + DAY_MS;
    const edited = await ada.call("keys.edit", {
      params: { id: key.id },
      body: { name: "after", expires_at: expires },
    });
    expect(edited).toMatchObject({ name: "after", expires_at: expires, limits: { rpm: 5, concurrency: 2 } });
    await ada.call("keys.edit", { params: { id: key.id }, body: { limits: { rpm: 1 }, expires_at: null } });
    expect((await chat(secret)).status).toBe(200);
    expect((await chat(secret)).status).toBe(429);
    const [entry] = await readAudit(`key after of ${ADA}`);
    expect(entry?.changes).toContainEqual({ field: "limits.rpm", from: "5", to: "1" });
  });

  test("rejects invalid fields by name, and cannot change a revoked key", async () => {
    const { key } = await makeKey(ada, { name: "strict" });
    await makeKey(ada, { name: "neighbour" });
    const params = { id: key.id };
    expect(await ada.callRejected("keys.edit", { params, body: { limits: { rpm: 61 } } })).toMatchObject({
      param: "limits.rpm",
    });
    expect(await ada.callRejected("keys.edit", { params, body: { name: "neighbour" } })).toMatchObject({
      status: 409,
      param: "name",
    });
    expect((await ada.call("keys.get", { params })).name).toBe("strict");
    await ada.call("keys.revoke", { params });
    expect(await ada.callRejected("keys.edit", { params, body: { name: "no" } })).toMatchObject({
      status: 409,
    });
  });

  test("shows the remaining amount of every limit that applies to the key", async () => {
    const { key, secret } = await makeKey(ada, { limits: { rpm: 10 } });
    await chat(secret);
    const { meters } = await ada.call("keys.get", { params: { id: key.id } });
    expect(meters).toContainEqual(
      expect.objectContaining({
        scope: "key",
        unit: "requests",
        per_ms: 60_000,
        limit: 10,
        used: 1,
        remaining: 9,
      }),
    );
    expect(meters).toContainEqual(
      expect.objectContaining({ scope: "key", unit: "usd", per_ms: DAY_MS, limit: "5.00" }),
    );
    expect(meters.filter(({ unit, per_ms }) => unit === "requests" && per_ms === 60_000)).toHaveLength(1);
  });
});

describe("limits that an administrator or a file set on a key", () => {
  const GIVEN = { rpm: 10, windows: [{ per: "1d", requests: 100, usd: "2.00" }] };

  const rejectedParam = async (person: SignedInClient, id: string, body: object) => {
    const { status, param } = await person.callRejected("keys.edit", { params: { id }, body });
    return [status, param];
  };

  test("can be lowered but not raised by its owner", async () => {
    const ends = Date.now() + DAY_MS;
    const { key } = await makeKey(admin, { user: bob.user.id, limits: GIVEN, expires_at: ends });
    const refused = (body: object) => rejectedParam(bob, key.id, body);
    expect(await refused({ limits: {} })).toEqual([400, "limits.rpm"]);
    expect(await refused({ limits: { ...GIVEN, rpm: 11 } })).toEqual([400, "limits.rpm"]);
    expect(await refused({ limits: { rpm: 10 } })).toEqual([400, "limits.windows"]);
    const window = { per: "1d", requests: 100, usd: "2.01" };
    expect(await refused({ limits: { rpm: 10, windows: [window] } })).toEqual([400, "limits.windows.0.usd"]);
    expect(await refused({ expires_at: null })).toEqual([400, "expires_at"]);
    expect(await refused({ expires_at: ends + 1 })).toEqual([400, "expires_at"]);

    const params = { id: key.id };
    const less = { rpm: 5, concurrency: 1, windows: [{ per: "1d", requests: 9, usd: "1.00" }] };
    await bob.call("keys.edit", { params, body: { limits: less, expires_at: ends - 1 } });
    // Owners may undo restrictions that they set themselves.
    await bob.call("keys.edit", { params, body: { limits: GIVEN, expires_at: ends, name: "given" } });
    expect(await refused({ limits: {} })).toEqual([400, "limits.rpm"]);

    await admin.call("keys.edit", { params, body: { limits: { rpm: 20 }, expires_at: null } });
    await bob.call("keys.edit", { params, body: { limits: { rpm: 1 }, expires_at: ends } });
    await bob.call("keys.edit", { params, body: { limits: { rpm: 20 }, expires_at: null } });
    expect(await refused({ limits: { rpm: 21 } })).toEqual([400, "limits.rpm"]);
  });

  test("apply the same if they come from a file", async () => {
    const key = { name: "from a file", user: ADA, group: "free" };
    await gateway.apply(paidFile({ ...SETUP, keys: [{ ...key, limits: { rpm: 3 } }] }));
    const [listed] = (await ada.call("keys.list", { query: { search: "from a file" } })).data;
    expect(await rejectedParam(ada, listed?.id ?? "", { limits: {} })).toEqual([400, "limits.rpm"]);
    await gateway.apply(paidFile({ ...SETUP, keys: [key] }));
    await ada.call("keys.edit", { params: { id: listed?.id ?? "" }, body: { limits: { rpm: 60 } } });
    await ada.call("keys.edit", { params: { id: listed?.id ?? "" }, body: { limits: {} } });
  });

  test("do not include the owner's own limits after an administrator renames the key", async () => {
    const { key } = await makeKey(ada, { limits: { rpm: 5 } });
    const params = { id: key.id };
    await admin.call("keys.edit", {
      params,
      body: { name: "renamed", limits: { rpm: 5 }, expires_at: null },
    });
    await ada.call("keys.edit", { params, body: { limits: {} } });
  });

  test("cannot be raised at all by a user who lost access to the group", async () => {
    await gateway.apply("users: [{ email: fay@example.com, groups: [inner] }]");
    const fay = await signInAs(gateway, "fay@example.com");
    const ends = Date.now() + DAY_MS;
    const { key } = await makeKey(fay, { group: "inner", limits: { rpm: 5 }, expires_at: ends });
    await fay.call("keys.edit", { params: { id: key.id }, body: { limits: { rpm: 6 } } });
    await gateway.apply("users: [{ email: fay@example.com, groups: [] }]");
    expect(await rejectedParam(fay, key.id, { limits: { rpm: 7 } })).toEqual([400, "limits.rpm"]);
    expect(await rejectedParam(fay, key.id, { expires_at: null })).toEqual([400, "expires_at"]);
    await fay.call("keys.edit", { params: { id: key.id }, body: { name: "still", limits: { rpm: 5 } } });
  });
});

describe("rotating a key", () => {
  test("keeps both secrets valid during the overlap, with the same key and limits", async () => {
    const { key, secret } = await makeKey(ada, { limits: { rpm: 3 } });
    expect((await chat(secret)).status).toBe(200);
    const rotated = await ada.call("keys.rotate", { params: { id: key.id }, body: {} });
    expect(rotated.secret).toStartWith(`gwk_${key.public_id}_`);
    expect(rotated.key.id).toBe(key.id);
    expect(rotated.old_secret_works_until_at).toBeGreaterThan(Date.now() + DAY_MS - 60_000);
    expect((await chat(rotated.secret)).status).toBe(200);
    expect((await chat(secret)).status).toBe(200);
    expect((await chat(rotated.secret)).status).toBe(429);
    const detail = await ada.call("keys.get", { params: { id: key.id } });
    expect(detail.usage.requests).toBe(4);
    expect(detail.former_secrets).toEqual([
      { last4: secret.slice(-4), works_until_at: rotated.old_secret_works_until_at },
    ]);
  });

  test("without an overlap invalidates the old secret at once", async () => {
    const { key, secret } = await makeKey(ada);
    const rotated = await ada.call("keys.rotate", { params: { id: key.id }, body: { overlap_ms: 0 } });
    expect((await chat(secret)).status).toBe(401);
    expect((await chat(rotated.secret)).status).toBe(200);
  });

  test("without an overlap also invalidates secrets of earlier rotations", async () => {
    const { key, secret } = await makeKey(ada);
    const params = { id: key.id };
    const second = await ada.call("keys.rotate", { params, body: {} });
    const third = await ada.call("keys.rotate", { params, body: { overlap_ms: 0 } });
    expect((await chat(secret)).status).toBe(401);
    expect((await chat(second.secret)).status).toBe(401);
    expect((await chat(third.secret)).status).toBe(200);
  });

  test("revoking the key invalidates all of its secrets", async () => {
    const { key, secret } = await makeKey(ada);
    const rotated = await ada.call("keys.rotate", { params: { id: key.id }, body: {} });
    await ada.call("keys.revoke", { params: { id: key.id } });
    expect((await chat(secret)).status).toBe(401);
    expect((await chat(rotated.secret)).status).toBe(401);
    expect(await ada.callRejected("keys.rotate", { params: { id: key.id }, body: {} })).toMatchObject({
      status: 409,
    });
  });

  test("a file that still has the old secret is rejected", async () => {
    const secret = "brought-along-0123456789-0123456789-01";
    const file = (keys: object[]) => paidFile({ ...SETUP, keys });
    await gateway.apply(file([{ name: "brought", user: ADA, group: "free", secret }]));
    const brought = (await ada.call("keys.list", { query: { search: "brought" } })).data[0];
    await ada.call("keys.rotate", { params: { id: brought?.id ?? "" }, body: { overlap_ms: 0 } });
    const again = gateway.apply(file([{ name: "brought", user: ADA, group: "free", secret }]));
    expect(await again.catch((error: unknown) => String(error))).toContain(
      "replaced when its key was rotated",
    );
    await gateway.apply(file([{ name: "brought", user: ADA, group: "free" }]));
  });
});

describe("revoking a key", () => {
  test("takes effect with the response, which reports the requests of the last day", async () => {
    const { key, secret } = await makeKey(ada);
    await chat(secret);
    await chat(secret);
    const params = { id: key.id };
    expect((await ada.call("keys.get", { params })).requests_last_day).toBe(2);
    expect(await ada.call("keys.revoke", { params })).toEqual({ revoked: true, requests_last_day: 2 });
    expect((await chat(secret)).status).toBe(401);
    expect(await ada.call("keys.revoke", { params })).toMatchObject({ revoked: false });
    expect(
      (await ada.call("keys.list", { query: { limit: 200 } })).data.some(({ id }) => id === key.id),
    ).toBe(false);
    const revoked = await ada.call("keys.list", { query: { status: "revoked", limit: 200 } });
    expect(revoked.data.some(({ id }) => id === key.id)).toBe(true);
  });

  test("of another user is rejected", async () => {
    const { key, secret } = await makeKey(ada);
    expect(await bob.callRejected("keys.revoke", { params: { id: key.id } })).toMatchObject({ status: 404 });
    expect((await chat(secret)).status).toBe(200);
  });
});

test("keys of a group that becomes members-only keep working, and no new keys can be created", async () => {
  const { secret } = await makeKey(bob, { name: "early bird" });
  await gateway.apply(JSON.stringify({ groups: [{ ...FREE, access: "members" }] }));
  await eventually(
    async () => (await bob.call("groups.list")).data.every(({ name }) => name !== "free") || null,
  );
  expect(await bob.callRejected("keys.create", { body: { name: "late", group: "free" } })).toMatchObject({
    param: "group",
  });
  expect((await chat(secret)).status).toBe(200);
  expect((await bob.call("models.list")).data.map(({ group }) => group)).toContain("free");
});

describe("the keys of all users", () => {
  beforeAll(async () => {
    await gateway.apply(JSON.stringify({ groups: [{ ...FREE, name: "searchable" }] }));
    await eventually(
      async () => (await ada.call("groups.list")).data.some(({ name }) => name === "searchable") || null,
    );
  });

  const list = (query: Record<string, string | number>) => admin.call("admin.keys.list", { query });

  test("are found by name, id, public id, pasted secret, owner and group, also without an owner", async () => {
    const made = await ada.call("keys.create", { body: { name: "find-me-42", group: "searchable" } });
    await gateway.apply("keys: [{ name: ownerless-7, group: searchable }]");
    const { key, secret } = made;
    for (const search of ["find-me", key.id, key.public_id, secret, "find-me-42"])
      expect(
        (await list({ search })).data.map(({ id }) => id),
        search,
      ).toEqual([key.id]);
    expect((await list({ search: "ADA@" })).data.map(({ id }) => id)).toContain(key.id);
    expect((await list({ search: "searchable" })).data.map(({ id }) => id)).toContain(key.id);
    const [found] = (await list({ search: key.id })).data;
    expect(found?.owner).toEqual({ id: ada.user.id, email: ADA });
    const ownerless = (await list({ user: "none" })).data;
    expect(ownerless.map(({ name, owner }) => [name, owner])).toContainEqual(["ownerless-7", null]);
    expect(ownerless.every(({ owner }) => owner === null)).toBeTrue();
  });

  test("are listed by user and group, page by page", async () => {
    const ofAda = await list({ user: ada.user.id, status: "all" });
    expect(ofAda.data.length).toBeGreaterThan(0);
    expect(ofAda.data.every(({ owner }) => owner?.id === ada.user.id)).toBeTrue();
    const ofGroup = await list({ group: "searchable" });
    expect(new Set(ofGroup.data.map(({ group }) => group))).toEqual(new Set(["searchable"]));
    expect(await list({ group: "no such group" })).toEqual({ data: [], next: null });
    const first = await list({ status: "all", limit: 6 });
    const two = await list({ status: "all", limit: 3 });
    const four = await list({ status: "all", limit: 3, after: two.next ?? "" });
    expect([...two.data, ...four.data].map(({ id }) => id)).toEqual(first.data.map(({ id }) => id));
  });

  test("are listed for administrators only", async () => {
    expect((await ada.callRejected("admin.keys.list", {})).code).toBe("forbidden");
  });
});
