/** Attacks with tokens of service accounts: in the wrong place, and as a way to administrator. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type ConsoleClient,
  createServiceClient,
  openConsoleClient,
  signInAs,
} from "../support/console-client.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

let gateway: RunningGateway;
let ci: ConsoleClient & { secret: string };

beforeAll(async () => {
  gateway = await startTestGateway();
  await signInAs(gateway, "root@example.com", "admin");
  await signInAs(gateway, "ada@example.com");
  await gateway.apply("users: [{ email: root@example.com, role: admin, password: right-password-1 }]");
  ci = await createServiceClient(gateway, "ci", ["config.apply"]);
});
afterAll(() => gateway.stop());

describe("a token in the wrong place", () => {
  const chat = JSON.stringify({ model: "fast-chat", messages: [{ role: "user", content: "Hello" }] });

  test("a service token is no API key", async () => {
    for (const headers of [{ authorization: `Bearer ${ci.secret}` }, { "x-api-key": ci.secret }]) {
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers,
        body: chat,
      });
      expect(response.status).toBe(401);
      await response.text();
    }
  });

  test("a service token is no session cookie, and an API key is no service token", async () => {
    const cookie = openConsoleClient(gateway.url, {
      cookie: `__Host-session=${ci.secret}`,
      origin: gateway.url,
    });
    expect((await cookie.callRejected("keys.list")).code).toBe("sign_in_required");
    const key = openConsoleClient(gateway.url, { authorization: `Bearer ${TEST_KEY}` });
    expect((await key.callRejected("admin.config.plan", { body: { text: "" } })).code).toBe(
      "sign_in_required",
    );
  });

  test("a service token opens no public operation, so that it cannot sign in or register", async () => {
    expect((await ci.callRejected("session.current")).code).toBe("forbidden");
    const body = { email: "ada@example.com", password: "right-password-1" };
    expect((await ci.callRejected("session.create", { body })).code).toBe("forbidden");
  });

  test("a token with a changed character is rejected", async () => {
    const changed = `${ci.secret.slice(0, -1)}${ci.secret.endsWith("A") ? "B" : "A"}`;
    const client = openConsoleClient(gateway.url, { authorization: `Bearer ${changed}` });
    expect((await client.callRejected("admin.config.plan", { body: { text: "" } })).code).toBe(
      "sign_in_required",
    );
  });
});

describe("config.apply is no way to administrator: each file is rejected with its line, and changes nothing", () => {
  const FILES: Readonly<Record<string, readonly [text: string, line: number]>> = {
    "a role for an existing user": ["models: []\nusers:\n  - { email: ada@example.com, role: admin }", 3],
    "the role of auditor": ["users:\n  - { email: ada@example.com, role: auditor }", 2],
    "a new administrator": ["users:\n  - { email: eve@example.com, role: admin }", 2],
    "a password": ["users:\n  - email: root@example.com\n    role: admin\n    password: new-password-123", 4],
    "a guess of a password, which must not be compared": [
      "users:\n  - email: root@example.com\n    role: admin\n    password: right-password-1",
      4,
    ],
    "the status of an administrator": [
      "users:\n  - { email: root@example.com, role: admin, status: disabled }",
      2,
    ],
    "an opening balance": ["users:\n  - { email: eve@example.com, balance: '100' }", 2],
    "a subscription": [
      "plans: [{ name: gift, windows: [{ per: day, usd: '5' }] }]\nusers:\n  - { email: ada@example.com, subscriptions: [{ plan: gift }] }",
      3,
    ],
    "membership in a group": [
      "groups: [{ name: inner, access: members }]\nusers:\n  - { email: ada@example.com, groups: [inner] }",
      3,
    ],
    "a key": ["keys:\n  - { name: stolen, user: ada@example.com, group: default }", 2],
    "its own scopes": ["service_accounts:\n  - { name: ci, scopes: [config.apply, keys.write] }", 2],
    "another service account": ["service_accounts:\n  - { name: other, scopes: [wallet.read] }", 2],
    "a provider whose claims grant the role of administrator": [
      "sign_in: { providers: [{ name: evil, issuer: 'https://evil.example', client_id: x, roles: { admin: [everyone] } }] }",
      1,
    ],
    "the directory that pushes people": [
      "scim: { provider: evil }\nsign_in: { providers: [{ name: evil, issuer: 'https://evil.example', client_id: x }] }",
      1,
    ],
    "who may sign in tools": ["models: []\ntool_sign_in: { groups: [default] }", 2],
    "settings that run commands on other computers": [
      "tool_sign_in:\n  claude_code: { managed_settings: { default: ./evil.json } }",
      2,
    ],
    "open registration": ["registration: open", 1],
    "the mail server, which receives password links": [
      "smtp: { host: evil.example, from: a@evil.example }",
      1,
    ],
    "a webhook for usage": [
      "usage_export: { enabled: true, webhooks: [{ name: x, url: 'https://evil.example' }] }",
      1,
    ],
    retention: ["retention: { usage_rows: 30d }", 1],
    "a private network": [
      "accounts:\n  - name: inside\n    kind: openai\n    base_url: http://10.0.0.1/v1\n    credential: secret-credential-1\n    private_network: true",
      6,
    ],
  };

  test.each(Object.entries(FILES))("%s", async (_, [text, line]) => {
    const admin = await signInAs(gateway, "root@example.com", "admin");
    const before = await admin.call("admin.config.export");
    const rejection = await ci.callRejected("admin.config.plan", { body: { text } });
    expect(rejection).toMatchObject({ status: 403, code: "not_in_scope" });
    expect(rejection.message).toContain(`gateway.yaml:${line}:`);
    expect(rejection.message).not.toContain("password-1");
    const applied = await ci.callRejected("admin.config.apply", { body: { text, plan: "0".repeat(32) } });
    expect(applied.code).toBe("not_in_scope");
    expect(await admin.call("admin.config.export")).toEqual(before);
  });

  test("a plan of an administrator cannot be applied by the token", async () => {
    const admin = await signInAs(gateway, "root@example.com", "admin");
    const body = { text: "users: [{ email: ada@example.com, role: admin }]", prune: false };
    const { plan } = await admin.call("admin.config.plan", { body });
    expect((await ci.callRejected("admin.config.apply", { body: { ...body, plan } })).code).toBe(
      "not_in_scope",
    );
  });

  test("a stored credential is not sent to another address", async () => {
    const text = "accounts: [{ name: sim, kind: openai, base_url: 'https://evil.example/v1' }]";
    const { problems, plan } = await ci.call("admin.config.plan", { body: { text } });
    expect(plan).toBeNull();
    expect(problems[0]?.field).toBe("accounts[0].credential");
  });

  test("variables of the gateway's process are not replaced", async () => {
    const text = `models: [{ id: '\${PATH}', interfaces: [chat] }]`;
    const { problems } = await ci.call("admin.config.plan", { body: { text } });
    expect(problems[0]?.message).toContain("PATH");
    expect(JSON.stringify(problems)).not.toContain(process.env.PATH ?? "no path");
  });
});
