/** Every endpoint for tools with every kind of credential. The matrix of the console's API does not contain them. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SERVICE_SCOPES } from "../../src/records/service-account.ts";
import { createServiceClient, createTokenClient, signInAs } from "../support/console-client.ts";
import { OTHER_KEY, type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { ToolClient } from "../support/tool-client.ts";

type Credential = Readonly<Record<string, string>>;

let gateway: RunningGateway;
let tool: ToolClient;
const rejected = new Map<string, Credential>();
const accepted = new Map<string, Credential>();

const bearer = (secret: string): Credential => ({ authorization: `Bearer ${secret}` });

beforeAll(async () => {
  gateway = await startTestGateway({ limits: { badKeyTriesPerMinute: 10_000 } });
  tool = new ToolClient(gateway.url);
  await gateway.apply("tool_sign_in: {}");
  await tool.ready();
  const admin = await signInAs(gateway, "root@example.com", "admin");
  const tokens = await tool.signIn(admin, "laptop");
  const ended = await tool.signIn(admin, "ended");
  await tool.revoke(ended.refresh);
  accepted.set("a key", bearer(TEST_KEY)).set("the token of a tool", bearer(tokens.access));
  rejected
    .set("nothing", {})
    .set("the session of an administrator", { cookie: admin.cookie, origin: gateway.url })
    .set("a refresh token", bearer(tokens.refresh))
    .set("the token of a tool that has ended", bearer(ended.access));
  for (const scope of ["read", "keys", "admin", "export"] as const) {
    const { secret } = await createTokenClient(gateway, "root@example.com", scope, "admin");
    rejected.set(`an administrator's ${scope} token`, bearer(secret));
  }
  for (const scope of SERVICE_SCOPES) {
    const scopes = scope === "keys.write" ? (["config.apply", scope] as const) : [scope];
    const { secret } = await createServiceClient(gateway, scope, scopes);
    rejected.set(`a service account with ${scope}`, bearer(secret));
  }
});
afterAll(() => gateway.stop());

async function send(method: string, path: string, headers: Credential): Promise<number> {
  const type = { "content-type": "application/json" };
  const response = await fetch(gateway.url + path, {
    method,
    headers: { ...headers, ...(method === "POST" ? type : {}) },
    ...(method === "POST" ? { body: "{}" } : {}),
  });
  await response.text();
  return response.status;
}

describe("what a signed-in tool reads", () => {
  // No group has settings, so that an accepted credential gets 404.
  const ENDPOINTS = [
    ["GET", "/managed/settings", 404],
    ["POST", "/v1/metrics", 200],
    ["POST", "/v1/logs", 200],
  ] as const;

  test.each(ENDPOINTS)("%s %s needs a key or the token of a tool", async (method, path, status) => {
    expect(rejected.size).toBe(4 + 4 + SERVICE_SCOPES.length);
    for (const [name, headers] of rejected)
      expect([name, await send(method, path, headers)]).toEqual([name, 401]);
    for (const [name, headers] of accepted)
      expect([name, await send(method, path, headers)]).toEqual([name, status]);
  });
});

describe("the endpoints of the sign-in", () => {
  const PATHS = ["/oauth/device_authorization", "/oauth/token", "/oauth/revoke"];

  test("know no credential but that of the form", async () => {
    for (const headers of [...accepted.values(), ...rejected.values()]) {
      expect(await send("GET", "/.well-known/oauth-authorization-server", headers)).toBe(200);
      expect(await send("POST", "/oauth/token", headers)).toBe(400);
      expect(await send("POST", "/oauth/revoke", headers)).toBe(400);
    }
  });

  test.each(PATHS)("%s takes POST only, also from the links of another site", async (path) => {
    for (const method of ["GET", "PUT", "DELETE"]) expect(await send(method, path, {})).toBe(405);
  });

  test("an ordinary key is no token of a tool: it is neither revoked nor refreshed", async () => {
    expect((await tool.revoke(OTHER_KEY)).status).toBe(200);
    expect((await tool.callModel(OTHER_KEY)).status).toBe(200);
    expect(await tool.refresh(OTHER_KEY)).toMatchObject({ status: 401, error: "invalid_grant" });
  });

  test("the token of a tool opens neither the console nor the directory", async () => {
    const headers = accepted.get("the token of a tool") ?? {};
    for (const path of ["/api/keys", "/api/tools", "/api/admin/users", "/scim/v2/Users", "/metrics"])
      expect([path, await send("GET", path, headers)]).toEqual([path, 401]);
  });
});
