/**
 * Every operation of the console's API with every kind of caller, generated from the route table, so that a new
 * operation is covered automatically.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { limits } from "../../src/config/limits/product-limits.ts";
import type { ConsoleRoute } from "../../src/console-api/http/route.ts";
import { ROUTES, type RouteName } from "../../src/console-api/routes.ts";
import { SERVICE_SCOPES, type ServiceScope } from "../../src/records/service-account.ts";
import { TOKEN_SCOPES, type TokenScope } from "../../src/store/identity/access-tokens.ts";
import {
  buildPath,
  type ConsoleClient,
  createServiceClient,
  createTokenClient,
  openConsoleClient,
  signInAs,
} from "../support/console-client.ts";
import { openapiProblems } from "../support/openapi-problems.ts";
import { OTHER_KEY, type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

const EVERY = Object.entries(ROUTES) as [RouteName, ConsoleRoute][];
const CHANGES = EVERY.filter(([, { method }]) => method !== "GET");

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway();
  await gateway.apply(`
sign_in: { providers: [{ name: corp, issuer: "https://login.example.com", client_id: gateway }] }
scim: { provider: corp }
`);
  await signInAs(gateway, "user@example.com");
  await signInAs(gateway, "root@example.com", "admin");
  await signInAs(gateway, "disabled@example.com", "admin");
  await gateway.apply("users: [{ email: disabled@example.com, role: admin, status: disabled }]");
});
afterAll(() => gateway.stop());

/** A new caller each time, because some operations end the session they are called with. */
const ASKERS = {
  nobody: async () => openConsoleClient(gateway.url, { origin: gateway.url }),
  user: () => signInAs(gateway, "user@example.com"),
  auditor: () => signInAs(gateway, "auditor@example.com", "auditor"),
  administrator: () => signInAs(gateway, "root@example.com", "admin"),
  "disabled administrator": () => signInAs(gateway, "disabled@example.com", "admin"),
  "user's read token": () => createTokenClient(gateway, "user@example.com", "read"),
  "auditor's read token": () => createTokenClient(gateway, "auditor@example.com", "read", "auditor"),
  "auditor's keys token": () => createTokenClient(gateway, "auditor@example.com", "keys", "auditor"),
  "auditor's admin token": () => createTokenClient(gateway, "auditor@example.com", "admin", "auditor"),
  "auditor's export token": () => createTokenClient(gateway, "auditor@example.com", "export", "auditor"),
  "user's keys token": () => createTokenClient(gateway, "user@example.com", "keys"),
  "user's admin token": () => createTokenClient(gateway, "user@example.com", "admin"),
  "administrator's read token": () => createTokenClient(gateway, "root@example.com", "read", "admin"),
  "administrator's keys token": () => createTokenClient(gateway, "root@example.com", "keys", "admin"),
  "administrator's export token": () => createTokenClient(gateway, "root@example.com", "export", "admin"),
  "administrator's admin token": () => createTokenClient(gateway, "root@example.com", "admin", "admin"),
  "disabled administrator's token": () =>
    createTokenClient(gateway, "disabled@example.com", "admin", "admin"),
  "service with wallet.read": () => createServiceClient(gateway, "reader", ["wallet.read"]),
  "service with wallet.top_up": () => createServiceClient(gateway, "billing", ["wallet.top_up"]),
  "service with config.apply": () => createServiceClient(gateway, "ci", ["config.apply"]),
  // It extends config.apply and cannot be alone.
  "service with keys.write": () =>
    createServiceClient(gateway, "ci with keys", ["config.apply", "keys.write"]),
  "service with scim": () => createServiceClient(gateway, "directory", ["scim"]),
} satisfies Record<string, () => Promise<ConsoleClient>>;

type Asker = keyof typeof ASKERS;

/** Null: authorization passes, regardless of the result. */
function expected(name: RouteName, asker: Asker): string | null {
  const { access, tokenScope }: ConsoleRoute = ROUTES[name];
  // An invalid token is rejected everywhere, because its sender expects to be authenticated.
  if (asker === "disabled administrator's token") return "sign_in_required";
  const service = SERVICE_SCOPES.find((scope) => asker === `service with ${scope}`);
  if (service !== undefined) return OPEN_TO_SERVICES[service].includes(name) ? null : "forbidden";
  // The scopes `admin` and `export` are useless without the role, even for reading.
  if (["user's admin token", "auditor's admin token", "auditor's export token"].includes(asker))
    return "forbidden";
  const isNobody = asker === "nobody" || asker === "disabled administrator";
  if (isNobody) return access === "anyone" ? null : "sign_in_required";
  if (access === "service") return "forbidden";
  const isAdmin = asker.startsWith("administrator");
  const isAuditor = asker.startsWith("auditor");
  if (access === "admin" && !isAdmin) return "forbidden";
  if (OPEN_TO_AUDITORS.includes(name) && !isAdmin && !isAuditor) return "forbidden";
  const scope = TOKEN_SCOPES.find((one) => asker.endsWith(`${one} token`));
  return scope === undefined || SCOPES_WITHIN[scope].includes(tokenScope) ? null : "forbidden";
}

/** Written out: another operation that is opened to auditors or service accounts must be added here as well. */
const OPEN_TO_AUDITORS: readonly RouteName[] = [
  "admin.audit.export",
  "admin.audit.list",
  "admin.audit.verify",
  "admin.models.get",
  "admin.models.list",
  "admin.plans.list",
  "admin.prices.about",
  "admin.prices.list",
  "admin.subscriptions.list",
  "admin.users.get",
  "admin.users.list",
];

const OPEN_TO_SERVICES: Readonly<Record<ServiceScope, readonly RouteName[]>> = {
  "wallet.read": ["wallet.get", "wallet.ledger"],
  "wallet.top_up": ["admin.money.top_up"],
  "config.apply": ["admin.config.plan", "admin.config.apply"],
  "keys.write": ["admin.config.plan", "admin.config.apply"],
  scim: [
    "scim.config",
    "scim.resource_type",
    "scim.resource_types",
    "scim.schema",
    "scim.schemas",
    "scim.search",
    "scim.users.search",
    "scim.groups.search",
    "scim.users.create",
    "scim.users.delete",
    "scim.users.get",
    "scim.users.list",
    "scim.users.patch",
    "scim.users.replace",
    "scim.groups.create",
    "scim.groups.delete",
    "scim.groups.get",
    "scim.groups.list",
    "scim.groups.patch",
    "scim.groups.replace",
  ],
};

/** Written out, so that the order of the scopes in the code is tested and not repeated. */
const SCOPES_WITHIN: Readonly<Record<TokenScope, readonly (TokenScope | "none")[]>> = {
  read: ["read"],
  keys: ["read", "keys"],
  admin: ["read", "keys", "admin", "export"],
  export: ["export"],
};

/** Sends a body that no operation accepts: an error about the body means that authorization passed. */
async function readCode(asking: ConsoleClient, { method, path, body }: ConsoleRoute): Promise<string | null> {
  const takesBody = method !== "GET" && body.safeParse(undefined).success === false;
  const response = await asking.fetch(buildPath(path), {
    method,
    ...(takesBody ? { body: "[]", headers: { "content-type": "application/json" } } : {}),
  });
  if (!response.ok && path.startsWith("/scim/")) return codeOfScim(response);
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  if (response.ok || !isJson) {
    await response.body?.cancel();
    return null;
  }
  const { error } = (await response.json()) as { error: { code: string } };
  return error.code;
}

/** SCIM has its own error bodies, which name no code of the console's API. */
async function codeOfScim(response: Response): Promise<string | null> {
  const { detail } = (await response.json()) as { detail: string };
  if (/page of another site|Origin header is missing/.test(detail)) return "foreign_origin";
  return response.status === 401 ? "sign_in_required" : response.status === 403 ? "forbidden" : null;
}

const GATE = ["sign_in_required", "forbidden", "foreign_origin"];

describe.each(Object.keys(ASKERS) as Asker[])("called by %s", (asker) => {
  test.each(EVERY)("%s", async (name, route) => {
    const code = await readCode(await ASKERS[asker](), route);
    const rejection = code !== null && GATE.includes(code) ? code : null;
    expect(rejection).toBe(expected(name, asker));
  });
});

test("auditors change nothing: they may call only the operations of users, and those that read", () => {
  const open = EVERY.filter(([, { access }]) => access === "auditor");
  expect(open.map(([name]) => name).toSorted()).toEqual([...OPEN_TO_AUDITORS]);
  for (const [, { method }] of open) expect(method).toBe("GET");
});

describe("called by a page of another site with an administrator's cookie", () => {
  test.each(CHANGES)("%s", async (_, route) => {
    const { cookie } = await signInAs(gateway, "root@example.com", "admin");
    const foreign = openConsoleClient(gateway.url, { cookie, origin: "https://evil.example" });
    expect(await readCode(foreign, route)).toBe("foreign_origin");
    const silent = openConsoleClient(gateway.url, { cookie });
    expect(await readCode(silent, route)).toBe("foreign_origin");
  });
});

describe("fields that only administrators may send", () => {
  const fields = EVERY.flatMap(([name, route]) =>
    route.adminFields.map((field): [string, string, ConsoleRoute] => [name, field, route]),
  );

  test.each(fields)("%s: %s", async (_, field, { method, path }) => {
    const send = async (person: ConsoleClient) => {
      const init = { method, body: JSON.stringify({ [field]: null }) };
      const headers = { "content-type": "application/json" };
      const response = await person.fetch(buildPath(path), { ...init, headers });
      const { error } = (await response.json()) as { error: { code: string; param: string | null } };
      return { code: error.code, param: error.param };
    };
    expect(await send(await ASKERS.user())).toEqual({ code: "forbidden", param: field });
    expect((await send(await ASKERS.administrator())).code).not.toBe("forbidden");
  });
});

describe("the scope of a personal access token", () => {
  test("is declared as documented: read for reading, keys for keys, export for the feed, admin for administration", () => {
    const needing = (scope: ConsoleRoute["tokenScope"]) =>
      CHANGES.filter(([, route]) => route.tokenScope === scope).map(([name]) => name);
    expect(needing("read")).toEqual([]);
    expect(needing("keys").toSorted()).toEqual(["keys.create", "keys.edit", "keys.revoke", "keys.rotate"]);
    for (const name of needing("admin")) expect(name).toStartWith("admin.");
    for (const [name, { method, tokenScope, access }] of EVERY)
      if (access === "service") expect(tokenScope).toBe("none");
      else if (method === "GET")
        expect(tokenScope).toBe(name === "admin.usage_export.records" ? "export" : "read");
  });

  test("never allows changes of passwords, second factors, tokens, sessions, links and money", () => {
    const areas =
      /^(?:claim|email|invitation|links|password|recovery_codes|registration|second_factor)\.|^(?:sessions?|tokens|wallet)\.|^admin\.(?:links|money)\.|second_factor|reset_access$/;
    const matching = CHANGES.filter(([name]) => areas.test(name) && name !== "admin.links.revoke");
    expect(matching.length).toBeGreaterThan(20);
    for (const [, { tokenScope }] of matching) expect(tokenScope).toBe("none");
  });

  test("limits an administrator's token with the scope keys to the administrator's own keys", async () => {
    const other = await signInAs(gateway, "other@example.com");
    const key = (await other.call("keys.list")).data[0]?.id ?? "";
    const token = await ASKERS["administrator's keys token"]();
    const params = { id: key };
    expect(await token.callRejected("keys.rotate", { params, body: {} })).toMatchObject({
      code: "not_found",
    });
    expect(await token.callRejected("keys.edit", { params, body: {} })).toMatchObject({ code: "not_found" });
    expect(await token.callRejected("keys.revoke", { params })).toMatchObject({ code: "not_found" });
    const body = { name: "for another", group: "default", user: other.user.id };
    expect(await token.callRejected("keys.create", { body })).toMatchObject({
      code: "forbidden",
      param: "user",
    });
    const whole = await ASKERS["administrator's admin token"]();
    await whole.call("keys.edit", { params, body: {} });
  });

  test("is named by the error and by the API document", async () => {
    const token = await ASKERS["user's read token"]();
    const body = { name: "x", group: "default" };
    expect((await token.callRejected("keys.create", { body })).message).toContain("`keys`");
    const document = await (await ASKERS.nobody()).call("openapi.read");
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

describe("request bodies", () => {
  test("are larger than a form only for administrators and directories", () => {
    const more = EVERY.filter(([, { bodyBytesMax }]) => bodyBytesMax > limits.apiBodyBytesMax);
    expect(more).not.toBeEmpty();
    for (const [, { access }] of more) expect(["admin", "service"]).toContain(access);
  });

  const times = EVERY.flatMap(([name, { body }]) =>
    body instanceof z.ZodObject
      ? Object.entries(body.shape)
          .filter(([field]) => field.endsWith("_at"))
          .map(([field, form]): [string, string, z.ZodType] => [name, field, form])
      : [],
  );

  test.each(times)("%s: %s is a time that a file can contain", (_, __, form) => {
    const isTaken = (ms: number) => form.safeParse(ms).success;
    expect([0, 253_402_300_799_999].map(isTaken)).toEqual([true, true]);
    expect([-1, 0.5, 253_402_300_800_000, 8.64e15].map(isTaken)).toEqual([false, false, false, false]);
  });
});

describe("objects of another user are not found", () => {
  /** For each operation of users with an id: the id of another user's object, and the rest of the request. */
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
    const key = (await other.call("keys.list")).data[0]?.id ?? "";
    const session = (await other.call("sessions.list")).data[0]?.id ?? "";
    const body = { name: "ci", scope: "read", expires_at: null };
    const token = await other.call("tokens.create", { body });
    await gateway.usageRows();
    theirs
      .set("keys.get", { id: key })
      .set("keys.edit", { id: key, body: {} })
      .set("keys.rotate", { id: key, body: {} })
      .set("keys.temporary_secret", { id: key, body: {} })
      .set("keys.revoke", { id: key })
      .set("sessions.revoke", { id: session })
      .set("tokens.revoke", { id: token.id })
      .set("usage.request", { id: request });
  });

  const naming = EVERY.filter(([, { access, path }]) => access === "user" && path.includes(":"));

  test.each(naming)("%s", async (name) => {
    const one = theirs.get(name);
    if (one === undefined) throw new Error(`${name} has no object of another user here: add one.`);
    const user = await ASKERS.user();
    const sent = { params: { id: one.id }, ...(one.body === undefined ? {} : { body: one.body }) };
    const gone = await user.callRejected(name, sent);
    expect(gone).toMatchObject({ status: 404, code: "not_found" });
    // The same error as for an unknown id, so that it does not reveal the object.
    expect(await user.callRejected(name, { ...sent, params: { id: "none" } })).toEqual(gone);
  });

  test("in lists", async () => {
    const user = await signInAs(gateway, "owner@example.com");
    const { key, secret } = await user.call("keys.create", { body: { name: "own", group: "default" } });
    const body = { name: "own", scope: "read", expires_at: null };
    const token = await user.call("tokens.create", { body });
    const request = await callModel(secret);
    await gateway.usageRows();

    const keys = (await user.call("keys.list")).data.map(({ id }) => id);
    expect(keys).toEqual([key.id]);
    const tokens = (await user.call("tokens.list")).data.map(({ id }) => id);
    expect(tokens).toEqual([token.id]);
    const sessions = (await user.call("sessions.list")).data;
    expect(sessions.map(({ current }) => current)).toEqual([true]);
    const requests = (await user.call("usage.requests")).data.map(({ id }) => id);
    expect(requests).toEqual([request]);
    const file = await (await user.send("usage.export")).text();
    expect(file).toContain(request);
    expect(file).not.toContain(theirs.get("usage.request")?.id ?? "");
  });

  test("in filters", async () => {
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

describe("the API document", () => {
  test("is OpenAPI 3.1 in which every reference resolves, and has every operation once", async () => {
    const document = await (await ASKERS.nobody()).call("openapi.read");
    expect(await openapiProblems(document)).toEqual([]);
    const ids = Object.values(document.paths as Record<string, Record<string, { operationId: string }>>)
      .flatMap((methods) => Object.values(methods))
      .map(({ operationId }) => operationId);
    expect(ids.toSorted()).toEqual(Object.keys(ROUTES).toSorted());
  });

  test("lists the Idempotency-Key header for every operation that moves money", async () => {
    const document = await (await ASKERS.nobody()).call("openapi.read");
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

  test("has a summary and a tag for every operation, and the error schema for every failure", async () => {
    const document = await (await ASKERS.nobody()).call("openapi.read");
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
