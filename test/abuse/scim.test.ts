/** Attacks on SCIM: tokens in the wrong place, a push as a way to administrator, and requests that cost too much. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  createServiceClient,
  createTokenClient,
  openConsoleClient,
  signInAs,
} from "../support/console-client.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { openScimClient, type ScimClient, sendScim } from "../support/scim-client.ts";

let gateway: RunningGateway;
let scim: ScimClient;

beforeAll(async () => {
  gateway = await startTestGateway();
  await gateway.apply(`
sign_in: { providers: [{ name: corp, issuer: "https://login.example.com", client_id: gateway }] }
scim: { provider: corp, adopt_domains: [example.com] }
`);
  scim = await openScimClient(gateway);
});
afterAll(() => gateway.stop());

const list = (secret: string) => sendScim(gateway.url, secret)("GET", "/Users");

describe("a token in the wrong place", () => {
  test("the token of the directory opens nothing beside SCIM", async () => {
    const client = openConsoleClient(gateway.url, { authorization: `Bearer ${scim.secret}` });
    for (const name of ["admin.users.list", "keys.list", "session.current", "admin.directory.list"] as const)
      expect((await client.callRejected(name)).code).toBe("forbidden");
    const body = { text: "users: [{ email: eve@example.com, role: admin }]" };
    expect((await client.callRejected("admin.config.plan", { body })).code).toBe("forbidden");
    expect((await client.fetch("/v1/models")).status).toBe(401);
    expect((await client.fetch("/metrics")).status).toBe(403);
    const cookie = openConsoleClient(gateway.url, {
      cookie: `__Host-session=${scim.secret}`,
      origin: gateway.url,
    });
    expect((await cookie.callRejected("keys.list")).code).toBe("sign_in_required");
  });

  test("no other credential opens SCIM, not even that of an administrator", async () => {
    const { secret: admin } = await createTokenClient(gateway, "root@example.com", "admin", "admin");
    const { secret: ci } = await createServiceClient(gateway, "ci", [
      "config.apply",
      "keys.write",
      "wallet.read",
    ]);
    for (const [secret, status] of [
      [admin, 403],
      [ci, 403],
      [TEST_KEY, 401],
      ["", 401],
      [`${scim.secret.slice(0, -1)}${scim.secret.endsWith("A") ? "B" : "A"}`, 401],
    ] as const) {
      const reply = await list(secret);
      expect([secret, reply.status, reply.body.status]).toEqual([secret, status, String(status)]);
      expect(JSON.stringify(reply.body)).not.toContain("userName");
    }
    const session = await signInAs(gateway, "root@example.com", "admin");
    expect((await session.fetch("/scim/v2/Users")).status).toBe(403);
    const foreign = openConsoleClient(gateway.url, {
      cookie: session.cookie,
      origin: "https://evil.example",
    });
    expect((await foreign.fetch("/scim/v2/Users", { method: "POST", body: "{}" })).status).toBe(403);
    expect((await openConsoleClient(gateway.url, {}).fetch("/scim/v2/ServiceProviderConfig")).status).toBe(
      401,
    );
  });

  test("a revoked token is rejected at once", async () => {
    const { secret } = await createServiceClient(gateway, "former", ["scim"]);
    expect((await list(secret)).status).toBe(200);
    const root = await signInAs(gateway, "root@example.com", "admin");
    await root.call("admin.service_accounts.revoke_tokens", { params: { name: "former" } });
    expect((await list(secret)).status).toBe(401);
  });

  test("without scim in the file, the token opens nothing", async () => {
    await gateway.apply("scim: { enabled: false }");
    expect(await list(scim.secret)).toMatchObject({
      status: 403,
      body: { detail: expect.stringContaining("off") },
    });
    await gateway.apply("scim: { provider: corp, adopt_domains: [example.com] }");
    expect((await list(scim.secret)).status).toBe(200);
  });
});

describe("a push is no way to administrator", () => {
  test("a body cannot set a role, a group, a balance or an id", async () => {
    const pushed = await scim.send("POST", "/Users", {
      id: "user_root",
      userName: "eve@example.com",
      externalId: "eve",
      role: "admin",
      roles: [{ value: "admin", primary: true }],
      groups: [{ value: "default" }],
      entitlements: [{ value: "admin" }],
      balance: "100",
    });
    expect(pushed.status).toBe(201);
    expect(pushed.body.id).not.toBe("user_root");
    const root = await signInAs(gateway, "root@example.com", "admin");
    expect(await root.call("admin.users.get", { params: { id: pushed.body.id } })).toMatchObject({
      role: "user",
      groups: [],
      balance: "0.00",
    });
  });

  test("an administrator's account is not taken by its address, nor changed by its id", async () => {
    const root = await signInAs(gateway, "root@example.com", "admin");
    const taken = await scim.send("POST", "/Users", { userName: "root@example.com", externalId: "mallory" });
    expect(taken).toMatchObject({ status: 409, body: { scimType: "uniqueness" } });
    const path = `/Users/${root.user.id}`;
    expect((await scim.send("GET", path)).status).toBe(404);
    const off = { Operations: [{ op: "replace", path: "active", value: false }] };
    expect((await scim.send("PATCH", path, off)).status).toBe(404);
    expect((await scim.send("DELETE", path)).status).toBe(404);
    expect((await root.send("admin.users.list")).status).toBe(200);
  });

  test("a name of an object's prototype is an unknown attribute", async () => {
    for (const name of ["__proto__", "constructor", "toString"]) {
      const { body } = await scim.send("POST", "/Users", {
        userName: `${name}@example.com`,
        externalId: name,
      });
      const patch = { Operations: [{ op: "add", path: name, value: { admin: true } }] };
      expect((await scim.send("PATCH", `/Users/${body.id}`, patch)).status).toBe(400);
      expect((await scim.send("GET", `/Users?attributes=${name}`)).status).toBe(200);
    }
  });
});
