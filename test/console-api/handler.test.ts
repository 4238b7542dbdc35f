/** The handler of the console's API on a running gateway: paths, bodies, authentication and origins. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import {
  createTokenClient,
  openConsoleClient,
  type SignedInClient,
  signInAs,
} from "../support/console-client.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

let gateway: RunningGateway;
let ada: SignedInClient;

beforeAll(async () => {
  gateway = await startTestGateway();
  ada = await signInAs(gateway, "ada@example.com");
});
afterAll(() => gateway.stop());

async function readError(response: Response): Promise<{ status: number; code: string; message: string }> {
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  return { status: response.status, code: error.code, message: error.message };
}

describe("a path", () => {
  test("that is unknown returns 404 in the common error shape", async () => {
    const response = await fetch(`${gateway.url}/api/nothing`);
    expect(response.headers.get("x-request-id")).toStartWith("req_");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await readError(response)).toMatchObject({ status: 404, code: "unknown_url" });
  });

  test("with another method returns 405 with Allow", async () => {
    const response = await fetch(`${gateway.url}/api/sessions`, { method: "PUT" });
    expect(response.headers.get("allow")).toBe("GET, DELETE");
    expect(await readError(response)).toMatchObject({ status: 405, code: "method_not_allowed" });
  });

  test("with an invalid percent escape is unknown", async () => {
    const response = await ada.fetch("/api/sessions/%zz", { method: "DELETE" });
    expect(await readError(response)).toMatchObject({ status: 404, code: "unknown_url" });
  });

  test("has no CORS headers for pages of other sites", async () => {
    const response = await fetch(`${gateway.url}/api/session`, {
      method: "OPTIONS",
      headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
    });
    expect(response.status).toBe(405);
    expect(response.headers.get("access-control-allow-origin")).toBeNull();
  });
});

describe("an invalid request", () => {
  test("names the fields and what is wrong with them in words", async () => {
    const body = JSON.stringify({ group: 7, nmae: "laptop" });
    const response = await ada.fetch("/api/keys", {
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
    });
    expect(await readError(response)).toEqual({
      status: 400,
      code: "invalid_value",
      message: [
        "name: is missing.",
        "group: must be a text.",
        "nmae: is not a known field. Did you mean name? Allowed here: name, group, expires_at, limits, request_policy, fallback, user.",
      ].join("\n"),
    });
    expect(await readError(await ada.fetch("/api/keys?limit=0&status=gone"))).toMatchObject({
      message: "limit: must be at least 1.\nstatus: must be one of: active, revoked, all.",
    });
  });
});

describe("a body", () => {
  const signIn = (init: RequestInit) => fetch(`${gateway.url}/api/session`, { method: "POST", ...init });

  test("without a JSON content type is rejected, so that forms of other sites cannot send one", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
      const response = await signIn({
        body: '{"email":"a@b.c","password":"x"}',
        headers: { "content-type": type },
      });
      expect(await readError(response)).toMatchObject({ status: 415, code: "unsupported_media_type" });
    }
  });

  test("that is malformed is rejected", async () => {
    const headers = { "content-type": "application/json" };
    for (const body of ["{", '"\xff', "[".repeat(8_000)]) {
      expect(await readError(await signIn({ body, headers }))).toMatchObject({
        status: 400,
        code: "invalid_json",
      });
    }
  });

  test("of an unauthenticated client is limited in size", async () => {
    const response = await signIn({
      body: JSON.stringify({ email: "x".repeat(70_000) }),
      headers: { "content-type": "application/json" },
    });
    expect(await readError(response)).toMatchObject({ status: 413, code: "request_too_large" });
  });

  test("with unknown or missing fields is rejected with their names", async () => {
    const stranger = openConsoleClient(gateway.url, {});
    const extra = { email: "a@b.c", password: "x", role: "admin" };
    expect(await stranger.callRejected("session.create", { body: extra })).toMatchObject({
      status: 400,
      code: "invalid_value",
      message: expect.stringContaining("role"),
    });
    expect(await stranger.callRejected("session.create", { body: { email: "a@b.c" } })).toMatchObject({
      code: "invalid_value",
      param: "password",
    });
  });
});

describe("a query", () => {
  const parameters = (count: number) => Array.from({ length: count }, (_, i) => `p${i}=1`).join("&");

  test("with more parameters than any operation has is rejected before it is parsed", async () => {
    const refused = { status: 400, code: "too_many_parameters" };
    const { queryParametersMax } = limits;
    for (const path of ["/api/session", "/v1/models"]) {
      const response = await fetch(`${gateway.url}${path}?${parameters(queryParametersMax + 1)}`);
      expect(await readError(response)).toMatchObject(refused);
    }
    const authorization = `Bearer ${TEST_KEY}`;
    for (const path of ["/v1/usage", "/v1/responses/resp_1"]) {
      const url = `${gateway.url}${path}?${parameters(queryParametersMax + 1)}`;
      expect(await readError(await fetch(url, { headers: { authorization } }))).toMatchObject(refused);
    }
    // One fewer is parsed, and its names are unknown to the operation.
    const allowed = await fetch(`${gateway.url}/api/session?${parameters(queryParametersMax)}`);
    expect(await readError(allowed)).toMatchObject({ status: 400, code: "invalid_value" });
  });
});

describe("authorization before the body is read", () => {
  const broken = { method: "POST", body: "{", headers: { "content-type": "application/json" } };

  test("rejects unauthorized requests without parsing their body", async () => {
    const refused = { status: 403, code: "forbidden" };
    expect(await readError(await ada.fetch("/api/admin/config/plan", broken))).toMatchObject(refused);
    const reading = await createTokenClient(gateway, "bob@example.com", "read");
    expect(await readError(await reading.fetch("/api/keys", broken))).toMatchObject(refused);
    const full = await createTokenClient(gateway, "bob@example.com", "keys");
    expect(await readError(await full.fetch("/api/tokens", broken))).toMatchObject(refused);
    expect(await readError(await fetch(`${gateway.url}/api/keys`, broken))).toMatchObject({ status: 401 });
    expect(await readError(await ada.fetch("/api/keys", broken))).toMatchObject({ code: "invalid_json" });
  });

  test("limits the body of each operation to its own size", async () => {
    const body = { name: "x".repeat(limits.apiBodyBytesMax), group: "default" };
    expect(await ada.callRejected("keys.create", { body })).toMatchObject({
      status: 413,
      code: "request_too_large",
    });
    const admin = await signInAs(gateway, "root@example.com", "admin");
    const text = `# ${"x".repeat(limits.apiBodyBytesMax)}`;
    expect((await admin.call("admin.config.plan", { body: { text } })).changes).toEqual([]);
  });
});

describe("the character U+0000, which the database cannot store, is rejected with its field", () => {
  const refused = (field: string) => ({
    status: 400,
    code: "invalid_value",
    param: field,
    message: expect.stringMatching(/U\+0000/),
  });

  test("in a path, a query and a cursor", async () => {
    expect(await ada.callRejected("keys.get", { params: { id: "a\0" } })).toMatchObject(refused("id"));
    expect(await ada.callRejected("keys.list", { query: { search: "\0" } })).toMatchObject(refused("search"));
    const after = Buffer.from(JSON.stringify([1, "\0"])).toString("base64url");
    expect(await ada.callRejected("keys.list", { query: { after } })).toMatchObject({
      status: 400,
      param: "after",
    });
  });

  test("in a body at any depth", async () => {
    const body = { name: "x", group: "default", limits: { windows: [{ per: "a\0" }] } };
    expect(await ada.callRejected("keys.create", { body })).toMatchObject(refused("limits.windows.0.per"));
    const deep = `${"[".repeat(10_000)}"\\u0000"${"]".repeat(10_000)}`;
    const response = await ada.fetch("/api/keys", {
      method: "POST",
      body: deep,
      headers: { "content-type": "application/json" },
    });
    expect(response.status).toBe(400);
  });

  test("but not its escaped spelling", async () => {
    const made = await ada.call("keys.create", { body: { name: "a\\u0000", group: "default" } });
    expect(made.key.name).toBe("a\\u0000");
  });
});

describe("the caller of a request", () => {
  test("is anonymous without a cookie or with an invalid one", async () => {
    for (const headers of [
      {},
      { cookie: "__Host-session=nonsense" },
      { cookie: "session=x; __Host-session=" },
    ]) {
      const anonymousClient = openConsoleClient(gateway.url, headers);
      expect((await anonymousClient.call("session.current")).user).toBeNull();
      expect(await anonymousClient.callRejected("sessions.list")).toMatchObject({
        status: 401,
        code: "sign_in_required",
      });
    }
  });

  test("is the owner of the session", async () => {
    expect((await ada.call("session.current")).user).toMatchObject({
      email: "ada@example.com",
      role: "user",
    });
  });

  test("is the owner of the token, even if a cookie is sent too", async () => {
    const token = await createTokenClient(gateway, "bob@example.com", "keys");
    const both = openConsoleClient(gateway.url, {
      authorization: `Bearer ${token.secret}`,
      cookie: ada.cookie,
    });
    expect((await both.call("session.current")).user).toMatchObject({ email: "bob@example.com" });
  });

  test("with an invalid token is rejected, never treated as anonymous or as the cookie's owner", async () => {
    for (const bearer of ["gwp_nonsense", "", "gwk_12345678_x"]) {
      const headers = { authorization: `Bearer ${bearer}`, cookie: ada.cookie };
      const rejection = await openConsoleClient(gateway.url, headers).callRejected("session.current");
      expect(rejection).toMatchObject({ status: 401, code: "sign_in_required" });
    }
  });

  test("cannot change anything with a read-only token", async () => {
    const token = await createTokenClient(gateway, "bob@example.com", "read");
    await token.call("sessions.list");
    expect(await token.callRejected("sessions.revoke_others")).toMatchObject({
      status: 403,
      code: "forbidden",
    });
  });

  test("is rejected once the user is disabled", async () => {
    const eve = await signInAs(gateway, "eve@example.com");
    const token = await createTokenClient(gateway, "eve@example.com", "keys");
    await eve.call("sessions.list");
    await gateway.apply("users: [{ email: eve@example.com, status: disabled }]");
    expect(await eve.callRejected("sessions.list")).toMatchObject({ status: 401 });
    expect(await token.callRejected("sessions.list")).toMatchObject({ status: 401 });
    await gateway.apply("users: [{ email: eve@example.com, status: active }]");
    // The user's sessions have ended; tokens work again when the user is enabled.
    expect(await eve.callRejected("sessions.list")).toMatchObject({ status: 401 });
    await token.call("sessions.list");
  });
});

describe("a change with a cookie", () => {
  const change = (headers: Record<string, string>) =>
    fetch(`${gateway.url}/api/sessions`, { method: "DELETE", headers: { cookie: ada.cookie, ...headers } });

  test("is accepted from the gateway's own pages", async () => {
    expect((await change({ origin: gateway.url })).status).toBe(200);
    expect((await change({ "sec-fetch-site": "same-origin" })).status).toBe(200);
    expect((await change({ origin: gateway.url, "sec-fetch-site": "same-origin" })).status).toBe(200);
  });

  test.each([
    [{}],
    [{ origin: "https://evil.example" }],
    [{ origin: "null" }],
    [{ "sec-fetch-site": "cross-site" }],
    [{ "sec-fetch-site": "same-site" }],
    [{ "sec-fetch-site": "none" }],
    [{ origin: "https://evil.example", "sec-fetch-site": "same-origin" }],
    [{ origin: "https://evil.example", "x-forwarded-host": "evil.example", "x-forwarded-proto": "https" }],
  ])("is rejected from other origins: %p", async (headers) => {
    expect(await readError(await change(headers))).toMatchObject({ status: 403, code: "foreign_origin" });
  });
});

test("the changes of a user are limited, and those of administrators and removals are not", async () => {
  const busy = await startTestGateway({ limits: { changesOfUser: { tries: 3, windowMs: 60_000 } } });
  try {
    const [user, other, admin] = [
      await signInAs(busy, "user@example.com"),
      await signInAs(busy, "other@example.com"),
      await signInAs(busy, "admin@example.com", "admin"),
    ];
    const change = { method: "POST", body: "{}", headers: { "content-type": "application/json" } };
    const sendAll = async (client: SignedInClient) => {
      const responses = [];
      for (let i = 0; i < 4; i++) responses.push(await client.fetch("/api/keys", change));
      return responses.map(({ status }) => status);
    };
    expect(await sendAll(user)).toEqual([400, 400, 400, 429]);
    const limited = await user.fetch("/api/keys", change);
    expect(Number(limited.headers.get("retry-after"))).toBeWithin(1, 61);
    expect(await readError(limited)).toMatchObject({ code: "rate_limit_exceeded" });
    expect(await sendAll(other)).toContain(429);
    expect(await sendAll(admin)).toEqual([400, 400, 400, 400]);
    expect((await user.fetch("/api/keys")).status).toBe(200);
    expect((await user.fetch("/api/session", { method: "DELETE" })).status).toBe(200);
  } finally {
    await busy.stop();
  }
});
