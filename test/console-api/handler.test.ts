/** The door of the console's API on a running gateway: addresses, bodies, who asks and from where. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { limits } from "../../src/config/product-limits.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { asking, type SignedIn, signInAs, tokenOf } from "../support/signed-in.ts";

let gateway: RunningGateway;
let ada: SignedIn;

beforeAll(async () => {
  gateway = await startTestGateway();
  ada = await signInAs(gateway, "ada@example.com");
});
afterAll(() => gateway.stop());

async function told(response: Response): Promise<{ status: number; code: string; message: string }> {
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  return { status: response.status, code: error.code, message: error.message };
}

describe("an address", () => {
  test("that nothing is at is unknown, in the one shape of errors", async () => {
    const response = await fetch(`${gateway.url}/api/nothing`);
    expect(response.headers.get("x-request-id")).toStartWith("req_");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await told(response)).toMatchObject({ status: 404, code: "unknown_url" });
  });

  test("with another method is told the right ones", async () => {
    const response = await fetch(`${gateway.url}/api/sessions`, { method: "PUT" });
    expect(response.headers.get("allow")).toBe("GET, DELETE");
    expect(await told(response)).toMatchObject({ status: 405, code: "method_not_allowed" });
  });

  test("with a broken percent sign is unknown", async () => {
    const response = await ada.fetch("/api/sessions/%zz", { method: "DELETE" });
    expect(await told(response)).toMatchObject({ status: 404, code: "unknown_url" });
  });

  test("never answers a page of another site: there is no CORS", async () => {
    const response = await fetch(`${gateway.url}/api/session`, {
      method: "OPTIONS",
      headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
    });
    expect(response.status).toBe(405);
    expect(response.headers.get("access-control-allow-origin")).toBeNull();
  });
});

describe("a body", () => {
  const signIn = (init: RequestInit) => fetch(`${gateway.url}/api/session`, { method: "POST", ...init });

  test("that is no JSON by its type is refused: forms of other sites cannot send any", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
      const response = await signIn({
        body: '{"email":"a@b.c","password":"x"}',
        headers: { "content-type": type },
      });
      expect(await told(response)).toMatchObject({ status: 415, code: "unsupported_media_type" });
    }
  });

  test("that is broken is told so", async () => {
    const headers = { "content-type": "application/json" };
    for (const body of ["{", '"\xff', "[".repeat(60_000)]) {
      expect(await told(await signIn({ body, headers }))).toMatchObject({
        status: 400,
        code: "invalid_json",
      });
    }
  });

  test("of a stranger may not be large", async () => {
    const response = await signIn({
      body: JSON.stringify({ email: "x".repeat(70_000) }),
      headers: { "content-type": "application/json" },
    });
    expect(await told(response)).toMatchObject({ status: 413, code: "request_too_large" });
  });

  test("with fields that nobody asked for, or without those that are needed, names them", async () => {
    const stranger = asking(gateway.url, {});
    const extra = { email: "a@b.c", password: "x", role: "admin" };
    expect(await stranger.refused("session.create", { body: extra })).toMatchObject({
      status: 400,
      code: "invalid_value",
      message: expect.stringContaining("role"),
    });
    expect(await stranger.refused("session.create", { body: { email: "a@b.c" } })).toMatchObject({
      code: "invalid_value",
      param: "password",
    });
  });
});

describe("a query", () => {
  const parameters = (count: number) => Array.from({ length: count }, (_, i) => `p${i}=1`).join("&");

  test("of more parameters than any operation takes is rejected before it is read", async () => {
    const refused = { status: 400, code: "too_many_parameters" };
    const { queryParametersMax } = limits;
    for (const path of ["/api/session", "/v1/models"]) {
      const response = await fetch(`${gateway.url}${path}?${parameters(queryParametersMax + 1)}`);
      expect(await told(response)).toMatchObject(refused);
    }
    const authorization = `Bearer ${TEST_KEY}`;
    for (const path of ["/v1/usage", "/v1/responses/resp_1"]) {
      const url = `${gateway.url}${path}?${parameters(queryParametersMax + 1)}`;
      expect(await told(await fetch(url, { headers: { authorization } }))).toMatchObject(refused);
    }
    // One fewer is read, and its names are unknown to the operation.
    const allowed = await fetch(`${gateway.url}/api/session?${parameters(queryParametersMax)}`);
    expect(await told(allowed)).toMatchObject({ status: 400, code: "invalid_value" });
  });
});

describe("who may is asked before a body is read", () => {
  const broken = { method: "POST", body: "{", headers: { "content-type": "application/json" } };

  test("so that nobody learns more, or keeps the gateway busy, with what they may not do", async () => {
    const refused = { status: 403, code: "forbidden" };
    expect(await told(await ada.fetch("/api/admin/config/plan", broken))).toMatchObject(refused);
    const reading = await tokenOf(gateway, "bob@example.com", "read");
    expect(await told(await reading.fetch("/api/keys", broken))).toMatchObject(refused);
    const full = await tokenOf(gateway, "bob@example.com", "keys");
    expect(await told(await full.fetch("/api/tokens", broken))).toMatchObject(refused);
    expect(await told(await fetch(`${gateway.url}/api/keys`, broken))).toMatchObject({ status: 401 });
    expect(await told(await ada.fetch("/api/keys", broken))).toMatchObject({ code: "invalid_json" });
  });

  test("and whoever may sends a form, and no more where there is no need for it", async () => {
    const body = { name: "x".repeat(limits.apiBodyBytesMax), group: "default" };
    expect(await ada.refused("keys.create", { body })).toMatchObject({
      status: 413,
      code: "request_too_large",
    });
    const admin = await signInAs(gateway, "root@example.com", "admin");
    const text = `# ${"x".repeat(limits.apiBodyBytesMax)}`;
    expect((await admin.ask("admin.config.plan", { body: { text } })).changes).toEqual([]);
  });
});

describe("the character U+0000, which the store cannot hold, is refused by its field", () => {
  const refused = (field: string) => ({
    status: 400,
    code: "invalid_value",
    param: field,
    message: expect.stringMatching(/U\+0000/),
  });

  test("in a path, a query and a cursor", async () => {
    expect(await ada.refused("keys.get", { params: { id: "a\0" } })).toMatchObject(refused("id"));
    expect(await ada.refused("keys.list", { query: { search: "\0" } })).toMatchObject(refused("search"));
    const after = Buffer.from(JSON.stringify([1, "\0"])).toString("base64url");
    expect(await ada.refused("keys.list", { query: { after } })).toMatchObject({
      status: 400,
      param: "after",
    });
  });

  test("in a body, however deep", async () => {
    const body = { name: "x", group: "default", limits: { windows: [{ per: "a\0" }] } };
    expect(await ada.refused("keys.create", { body })).toMatchObject(refused("limits.windows.0.per"));
    const deep = `${"[".repeat(10_000)}"\\u0000"${"]".repeat(10_000)}`;
    const response = await ada.fetch("/api/keys", {
      method: "POST",
      body: deep,
      headers: { "content-type": "application/json" },
    });
    expect(response.status).toBe(400);
  });

  test("but not what only looks like it", async () => {
    const made = await ada.ask("keys.create", { body: { name: "a\\u0000", group: "default" } });
    expect(made.key.name).toBe("a\\u0000");
  });
});

describe("whoever asks", () => {
  test("is nobody without a cookie, and with one that is not ours", async () => {
    for (const headers of [
      {},
      { cookie: "__Host-session=nonsense" },
      { cookie: "session=x; __Host-session=" },
    ]) {
      const nobody = asking(gateway.url, headers);
      expect((await nobody.ask("session.current")).user).toBeNull();
      expect(await nobody.refused("sessions.list")).toMatchObject({ status: 401, code: "sign_in_required" });
    }
  });

  test("is the owner of the session", async () => {
    expect((await ada.ask("session.current")).user).toMatchObject({ email: "ada@example.com", role: "user" });
  });

  test("is the owner of a token, whatever cookie comes with it", async () => {
    const token = await tokenOf(gateway, "bob@example.com", "keys");
    const both = asking(gateway.url, { authorization: `Bearer ${token.secret}`, cookie: ada.cookie });
    expect((await both.ask("session.current")).user).toMatchObject({ email: "bob@example.com" });
  });

  test("with a wrong token is refused, and never taken for nobody or for the cookie's owner", async () => {
    for (const bearer of ["gwp_nonsense", "", "gwk_12345678_x"]) {
      const headers = { authorization: `Bearer ${bearer}`, cookie: ada.cookie };
      const refusal = await asking(gateway.url, headers).refused("session.current");
      expect(refusal).toMatchObject({ status: 401, code: "sign_in_required" });
    }
  });

  test("may not change anything with a token that only reads", async () => {
    const token = await tokenOf(gateway, "bob@example.com", "read");
    await token.ask("sessions.list");
    expect(await token.refused("sessions.revoke_others")).toMatchObject({ status: 403, code: "forbidden" });
  });

  test("is nobody any more once the user is disabled", async () => {
    const eve = await signInAs(gateway, "eve@example.com");
    const token = await tokenOf(gateway, "eve@example.com", "keys");
    await eve.ask("sessions.list");
    await gateway.apply("users: [{ email: eve@example.com, status: disabled }]");
    expect(await eve.refused("sessions.list")).toMatchObject({ status: 401 });
    expect(await token.refused("sessions.list")).toMatchObject({ status: 401 });
    await gateway.apply("users: [{ email: eve@example.com, status: active }]");
    // Her sessions have ended; a token is a program's, and goes on.
    expect(await eve.refused("sessions.list")).toMatchObject({ status: 401 });
    await token.ask("sessions.list");
  });
});

describe("a change with a cookie", () => {
  const change = (headers: Record<string, string>) =>
    fetch(`${gateway.url}/api/sessions`, { method: "DELETE", headers: { cookie: ada.cookie, ...headers } });

  test("is done for our own pages", async () => {
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
  ])("is refused from elsewhere: %p", async (headers) => {
    expect(await told(await change(headers))).toMatchObject({ status: 403, code: "foreign_origin" });
  });
});
