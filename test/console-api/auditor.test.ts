/** What an auditor sees of others, and does not see. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { OTHER_KEY, type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

let gateway: RunningGateway;
let auditor: SignedInClient;
let other: SignedInClient;
let requestId: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  auditor = await signInAs(gateway, "auditor@example.com", "auditor");
  other = await signInAs(gateway, "other@example.com");
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${OTHER_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "fast-chat", messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  requestId = response.headers.get("x-request-id") ?? "";
  await gateway.usageRows();
});
afterAll(() => gateway.stop());

test("an auditor sees the usage of everyone, with users, and of one key", async () => {
  const { data } = await auditor.call("usage.requests", { query: { whose: "everybody" } });
  expect(data.find(({ id }) => id === requestId)?.user).toBe("other@example.com");
  const key = data.find(({ id }) => id === requestId)?.key.id ?? "";
  const ofKey = await auditor.call("usage.requests", { query: { key } });
  expect(ofKey.data.map(({ id }) => id)).toEqual([requestId]);
  await auditor.call("usage.chart", { query: { whose: "everybody", by: "user" } });
});

test("an auditor inspects a request of another user without its capture", async () => {
  const request = await auditor.call("usage.request", { params: { id: requestId } });
  expect(request.account).toBeString();
  expect(request).not.toHaveProperty("is_captured");
});

test("an auditor reads wallet and ledger of another user", async () => {
  const query = { user: other.user.id };
  expect((await auditor.call("wallet.get", { query })).currency).toBe("USD");
  expect((await auditor.call("wallet.ledger", { query })).next).toBeNull();
});

test("an auditor changes no key of another user and creates none for one", async () => {
  const key = (await other.call("keys.list")).data[0]?.id ?? "";
  expect((await auditor.callRejected("keys.revoke", { params: { id: key } })).code).toBe("not_found");
  const body = { name: "for another", group: "default", user: other.user.id };
  expect((await auditor.callRejected("keys.create", { body })).param).toBe("user");
});

test("a new role ends the sessions of the user", async () => {
  const admin = await signInAs(gateway, "root@example.com", "admin");
  const changed = await signInAs(gateway, "changed@example.com");
  const params = { id: changed.user.id };
  await admin.call("admin.users.change", { params, body: { role: "auditor" } });
  expect((await changed.callRejected("wallet.get")).code).toBe("sign_in_required");
  const listed = await admin.call("admin.users.list", { query: { role: "auditor" } });
  expect(listed.data.map(({ email }) => email)).toEqual(["auditor@example.com", "changed@example.com"]);
  const users = await admin.call("admin.users.list", { query: { role: "user" } });
  expect(users.data.map(({ email }) => email)).not.toContain("changed@example.com");
});

test("nodes of the version before read an auditor as a user: the column has no new value", async () => {
  const rows = await gateway.installation.db
    .sql`SELECT role FROM app_user WHERE email = 'auditor@example.com'`;
  expect(rows).toEqual([{ role: "user" }]);
});
