/**
 * Every operation of the console's API against everybody who may ask, made from the table itself: an operation that is
 * added is looked at here without a word.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { limits } from "../../src/config/product-limits.ts";
import type { ConsoleRoute } from "../../src/console-api/http/route.ts";
import { ROUTES, type RouteName } from "../../src/console-api/routes.ts";
import { TOKEN_SCOPES, type TokenScope } from "../../src/store/identity/access-tokens.ts";
import { openapiProblems } from "../support/openapi-problems.ts";
import { OTHER_KEY, type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { type Asking, addressOf, asking, signInAs, tokenOf } from "../support/signed-in.ts";

const EVERY = Object.entries(ROUTES) as [RouteName, ConsoleRoute][];
const CHANGES = EVERY.filter(([, { method }]) => method !== "GET");

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway();
  await signInAs(gateway, "user@example.com");
  await signInAs(gateway, "root@example.com", "admin");
  await signInAs(gateway, "disabled@example.com", "admin");
  await gateway.apply("users: [{ email: disabled@example.com, role: admin, status: disabled }]");
});
afterAll(() => gateway.stop());

/** A new one each time: some operations end what they were asked with. */
const ASKERS = {
  nobody: async () => asking(gateway.url, { origin: gateway.url }),
  user: () => signInAs(gateway, "user@example.com"),
  administrator: () => signInAs(gateway, "root@example.com", "admin"),
  "disabled administrator": () => signInAs(gateway, "disabled@example.com", "admin"),
  "user's read token": () => tokenOf(gateway, "user@example.com", "read"),
  "user's keys token": () => tokenOf(gateway, "user@example.com", "keys"),
  "user's admin token": () => tokenOf(gateway, "user@example.com", "admin"),
  "administrator's read token": () => tokenOf(gateway, "root@example.com", "read", "admin"),
  "administrator's keys token": () => tokenOf(gateway, "root@example.com", "keys", "admin"),
  "administrator's admin token": () => tokenOf(gateway, "root@example.com", "admin", "admin"),
  "disabled administrator's token": () => tokenOf(gateway, "disabled@example.com", "admin", "admin"),
} satisfies Record<string, () => Promise<Asking>>;

type Asker = keyof typeof ASKERS;

/** Null: the door lets them through, whatever becomes of it then. */
function expected({ access, tokenScope }: ConsoleRoute, asker: Asker): string | null {
  // A token that does not hold is refused everywhere: its sender believes to be somebody.
  if (asker === "disabled administrator's token") return "sign_in_required";
  // The scope `admin` is worth nothing without the role, not even for reading.
  if (asker === "user's admin token") return "forbidden";
  const isNobody = asker === "nobody" || asker === "disabled administrator";
  if (isNobody) return access === "anyone" ? null : "sign_in_required";
  if (access === "admin" && !asker.startsWith("administrator")) return "forbidden";
  const scope = TOKEN_SCOPES.find((one) => asker.endsWith(`${one} token`));
  return scope === undefined || SCOPES_WITHIN[scope].includes(tokenScope) ? null : "forbidden";
}

/** Written out, so that the order of the scopes in the code is checked and not repeated. */
const SCOPES_WITHIN: Readonly<Record<TokenScope, readonly (TokenScope | "none")[]>> = {
  read: ["read"],
  keys: ["read", "keys"],
  admin: ["read", "keys", "admin"],
};

/** With a body that no operation takes: whoever gets that far was let through. */
async function codeOf(asking: Asking, { method, path, body }: ConsoleRoute): Promise<string | null> {
  const takesBody = method !== "GET" && body.safeParse(undefined).success === false;
  const response = await asking.fetch(addressOf(path), {
    method,
    ...(takesBody ? { body: "[]", headers: { "content-type": "application/json" } } : {}),
  });
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  if (response.ok || !isJson) {
    await response.body?.cancel();
    return null;
  }
  const { error } = (await response.json()) as { error: { code: string } };
  return error.code;
}

const GATE = ["sign_in_required", "forbidden", "foreign_origin"];

describe.each(Object.keys(ASKERS) as Asker[])("asked by %s", (asker) => {
  test.each(EVERY)("%s", async (_, route) => {
    const code = await codeOf(await ASKERS[asker](), route);
    const refusal = code !== null && GATE.includes(code) ? code : null;
    expect(refusal).toBe(expected(route, asker));
  });
});

describe("asked by a page of another site with an administrator's cookie", () => {
  test.each(CHANGES)("%s", async (_, route) => {
    const { cookie } = await signInAs(gateway, "root@example.com", "admin");
    const foreign = asking(gateway.url, { cookie, origin: "https://evil.example" });
    expect(await codeOf(foreign, route)).toBe("foreign_origin");
    const silent = asking(gateway.url, { cookie });
    expect(await codeOf(silent, route)).toBe("foreign_origin");
  });
});

describe("fields that only administrators may send", () => {
  const fields = EVERY.flatMap(([name, route]) =>
    route.adminFields.map((field): [string, string, ConsoleRoute] => [name, field, route]),
  );

  test.each(fields)("%s: %s", async (_, field, { method, path }) => {
    const send = async (person: Asking) => {
      const init = { method, body: JSON.stringify({ [field]: null }) };
      const headers = { "content-type": "application/json" };
      const response = await person.fetch(addressOf(path), { ...init, headers });
      const { error } = (await response.json()) as { error: { code: string; param: string | null } };
      return { code: error.code, param: error.param };
    };
    expect(await send(await ASKERS.user())).toEqual({ code: "forbidden", param: field });
    expect((await send(await ASKERS.administrator())).code).not.toBe("forbidden");
  });
});

describe("the scope of a personal access token", () => {
  test("is declared as documented: reading is read, keys are keys, administration is admin", () => {
    const needing = (scope: ConsoleRoute["tokenScope"]) =>
      CHANGES.filter(([, route]) => route.tokenScope === scope).map(([name]) => name);
    expect(needing("read")).toEqual([]);
    expect(needing("keys").toSorted()).toEqual(["keys.create", "keys.edit", "keys.revoke", "keys.rotate"]);
    for (const name of needing("admin")) expect(name).toStartWith("admin.");
    for (const [, { method, tokenScope }] of EVERY) if (method === "GET") expect(tokenScope).toBe("read");
  });

  test("is never enough for passwords, second factors, tokens, sessions, links and money", () => {
    const areas =
      /^(?:claim|email|invitation|links|password|recovery_codes|registration|second_factor)\.|^(?:sessions?|tokens|wallet)\.|^admin\.(?:links|money)\.|second_factor|reset_access$/;
    const matching = CHANGES.filter(([name]) => areas.test(name) && name !== "admin.links.revoke");
    expect(matching.length).toBeGreaterThan(20);
    for (const [, { tokenScope }] of matching) expect(tokenScope).toBe("none");
  });

  test("limits an administrator's token with the scope keys to the administrator's own keys", async () => {
    const other = await signInAs(gateway, "other@example.com");
    const key = (await other.ask("keys.list")).data[0]?.id ?? "";
    const token = await ASKERS["administrator's keys token"]();
    const params = { id: key };
    expect(await token.refused("keys.rotate", { params, body: {} })).toMatchObject({ code: "not_found" });
    expect(await token.refused("keys.edit", { params, body: {} })).toMatchObject({ code: "not_found" });
    expect(await token.refused("keys.revoke", { params })).toMatchObject({ code: "not_found" });
    const body = { name: "for another", group: "default", user: other.user.id };
    expect(await token.refused("keys.create", { body })).toMatchObject({ code: "forbidden", param: "user" });
    const whole = await ASKERS["administrator's admin token"]();
    await whole.ask("keys.edit", { params, body: {} });
  });

  test("is named by the refusal and by the document of the API", async () => {
    const token = await ASKERS["user's read token"]();
    const body = { name: "x", group: "default" };
    expect((await token.refused("keys.create", { body })).message).toContain("`keys`");
    const document = await (await ASKERS.nobody()).ask("openapi.read");
    type Operation = { operationId: RouteName; security: Record<string, string[]>[]; description: string };
    const operations = Object.values(document.paths as Record<string, Record<string, Operation>>).flatMap(
      (methods) => Object.values(methods),
    );
    for (const { operationId, security, description } of operations) {
      const { tokenScope } = ROUTES[operationId];
      const scopes = security.flatMap(({ token }) => token ?? []);
      expect(scopes).toEqual(tokenScope === "none" ? [] : [tokenScope]);
      if (tokenScope !== "none") expect(description).toContain(`scope \`${tokenScope}\``);
    }
  });
});

describe("what is taken", () => {
  test("is no more than a form can say, but for administrators", () => {
    const more = EVERY.filter(([, { bodyBytesMax }]) => bodyBytesMax > limits.apiBodyBytesMax);
    expect(more).not.toBeEmpty();
    for (const [, { access }] of more) expect(access).toBe("admin");
  });

  const times = EVERY.flatMap(([name, { body }]) =>
    body instanceof z.ZodObject
      ? Object.entries(body.shape)
          .filter(([field]) => field.endsWith("_at"))
          .map(([field, form]): [string, string, z.ZodType] => [name, field, form])
      : [],
  );

  test.each(times)("%s: %s is a time that a file could name", (_, __, form) => {
    const isTaken = (ms: number) => form.safeParse(ms).success;
    expect([0, 253_402_300_799_999].map(isTaken)).toEqual([true, true]);
    expect([-1, 0.5, 253_402_300_800_000, 8.64e15].map(isTaken)).toEqual([false, false, false, false]);
  });
});

describe("what belongs to somebody else does not exist", () => {
  /** For each operation of users that names one thing: that thing, of another user, and the rest that it takes. */
  const theirs = new Map<RouteName, { id: string; body?: unknown }>();

  /** The id of the request. */
  async function callModel(key: string): Promise<string> {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "fast-chat", messages: [{ role: "user", content: "Hello" }] }),
    });
    await response.body?.cancel();
    return response.headers.get("x-request-id") ?? "";
  }

  beforeAll(async () => {
    const other = await signInAs(gateway, "other@example.com");
    const request = await callModel(OTHER_KEY);
    const key = (await other.ask("keys.list")).data[0]?.id ?? "";
    const session = (await other.ask("sessions.list")).data[0]?.id ?? "";
    const body = { name: "ci", scope: "read", expires_at: null };
    const token = await other.ask("tokens.create", { body });
    await gateway.usageRows();
    theirs
      .set("keys.get", { id: key })
      .set("keys.edit", { id: key, body: {} })
      .set("keys.rotate", { id: key, body: {} })
      .set("keys.revoke", { id: key })
      .set("sessions.revoke", { id: session })
      .set("tokens.revoke", { id: token.id })
      .set("usage.request", { id: request });
  });

  const naming = EVERY.filter(([, { access, path }]) => access === "user" && path.includes(":"));

  test.each(naming)("%s", async (name) => {
    const one = theirs.get(name);
    if (one === undefined) throw new Error(`${name} has no object of somebody else here: add one.`);
    const user = await ASKERS.user();
    const sent = { params: { id: one.id }, ...(one.body === undefined ? {} : { body: one.body }) };
    const gone = await user.refused(name, sent);
    expect(gone).toMatchObject({ status: 404, code: "not_found" });
    // The same words as for what never was: nobody learns that it is there.
    expect(await user.refused(name, { ...sent, params: { id: "none" } })).toEqual(gone);
  });

  test("lists hold one's own alone", async () => {
    const user = await signInAs(gateway, "owner@example.com");
    const { key, secret } = await user.ask("keys.create", { body: { name: "own", group: "default" } });
    const body = { name: "own", scope: "read", expires_at: null };
    const token = await user.ask("tokens.create", { body });
    const request = await callModel(secret);
    await gateway.usageRows();

    const keys = (await user.ask("keys.list")).data.map(({ id }) => id);
    expect(keys).toEqual([key.id]);
    const tokens = (await user.ask("tokens.list")).data.map(({ id }) => id);
    expect(tokens).toEqual([token.id]);
    const sessions = (await user.ask("sessions.list")).data;
    expect(sessions.map(({ current }) => current)).toEqual([true]);
    const requests = (await user.ask("usage.requests")).data.map(({ id }) => id);
    expect(requests).toEqual([request]);
    const file = await (await user.send("usage.export")).text();
    expect(file).toContain(request);
    expect(file).not.toContain(theirs.get("usage.request")?.id ?? "");
  });

  test("nor by a filter that names it", async () => {
    const user = await ASKERS.user();
    const key = theirs.get("keys.get")?.id ?? "";
    for (const name of ["usage.requests", "usage.chart", "usage.export"] as const) {
      const response = await user.send(name, { query: { key } });
      expect(response.status).toBe(404);
      expect(await response.text()).not.toContain("fast-chat");
    }
    const why = await user.send("models.why", { query: { key, model: "fast-chat", interface: "chat" } });
    expect(why.status).toBe(404);
  });
});

describe("the document of the API", () => {
  test("is OpenAPI 3.1 in which every reference resolves, and has every operation once", async () => {
    const document = await (await ASKERS.nobody()).ask("openapi.read");
    expect(await openapiProblems(document)).toEqual([]);
    const ids = Object.values(document.paths as Record<string, Record<string, { operationId: string }>>)
      .flatMap((methods) => Object.values(methods))
      .map(({ operationId }) => operationId);
    expect(ids.toSorted()).toEqual(Object.keys(ROUTES).toSorted());
  });

  test("names the header that makes an order of money safe to repeat", async () => {
    const document = await (await ASKERS.nobody()).ask("openapi.read");
    const paths = document.paths as Record<string, { post?: { parameters: { name: string }[] } }>;
    const takers = Object.keys(paths).filter((path) =>
      paths[path]?.post?.parameters.some(({ name }) => name === "Idempotency-Key"),
    );
    expect(takers.toSorted()).toEqual([
      "/api/admin/requests/{id}/refund",
      "/api/admin/subscriptions",
      "/api/admin/users/{id}/adjust",
      "/api/admin/users/{id}/top-up",
    ]);
  });

  test("has a summary and an area for every operation, and the error for every failure", async () => {
    const document = await (await ASKERS.nobody()).ask("openapi.read");
    for (const methods of Object.values(document.paths as Record<string, Record<string, object>>)) {
      for (const operation of Object.values(methods)) {
        expect(operation).toMatchObject({
          summary: expect.stringMatching(/[^.]$/),
          tags: [expect.any(String)],
          responses: { default: { $ref: "#/components/responses/Error" } },
        });
      }
    }
  });
});
