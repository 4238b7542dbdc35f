/** Request policies through the console's API: editing, trying, and what owners of keys may choose. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

let gateway: RunningGateway;
let admin: SignedInClient;
let owner: SignedInClient;

beforeAll(async () => {
  gateway = await startTestGateway();
  admin = await signInAs(gateway, "ops@example.com", "admin");
  owner = await signInAs(gateway, "ada@example.com", "user");
  for (const [name, isOffered] of [
    ["offered", true],
    ["also-offered", true],
    ["enforced", false],
  ] as const)
    await admin.call("admin.request_policies.create", {
      body: { name, self_service: isOffered, effort: { max: "low" } },
    });
});

afterAll(() => gateway.stop());

test("a saved policy is in force, and is deleted only while nothing uses it", async () => {
  const document = { name: "team", output_tokens: { max: 100 }, inputs: { files: "deny" } };
  const created = await admin.call("admin.request_policies.create", { body: document });
  expect(created).toMatchObject({ document, groups: 0, keys: 0 });
  const { document: group } = await admin.call("admin.groups.get", { params: { name: "default" } });
  const named = { document: { ...group, request_policy: "team" } };
  await admin.call("admin.groups.save", { params: { name: "default" }, body: named });
  const response = await gateway.call("/v1/chat/completions", {
    model: "fast-chat",
    max_tokens: 500,
    messages: [{ role: "user", content: "Hi" }],
  });
  expect(response.headers.get("x-gateway-policy")).toBe("output_tokens=100");
  const params = { name: "team" };
  expect(await admin.callRejected("admin.request_policies.delete", { params })).toMatchObject({
    code: "conflict",
  });
  await admin.call("admin.groups.save", { params: { name: "default" }, body: { document: group } });
  await admin.call("admin.request_policies.delete", { params });
});

test("a document that changed meanwhile is not overwritten", async () => {
  const { version } = await admin.call("admin.request_policies.get", { params: { name: "enforced" } });
  const save = (max: string, of: string) => ({
    params: { name: "enforced" },
    body: { document: { name: "enforced", effort: { max } }, version: of },
  });
  await admin.call("admin.request_policies.save", save("medium", version));
  expect(await admin.callRejected("admin.request_policies.save", save("high", version))).toMatchObject({
    code: "conflict",
  });
});

test("a request is tried on a policy that is not saved", async () => {
  const run = (document: object, request: object) =>
    admin.call("admin.request_policies.preview", {
      body: {
        document: { name: "new", ...document },
        interface: "responses",
        request: JSON.stringify(request),
      },
    });
  const request = { model: "m", input: "Hi", max_output_tokens: 900, tools: [{ type: "web_search" }] };
  const rules = { output_tokens: { max: 64 }, tools: { deny: ["web_search"] } };
  const tried = await run(rules, request);
  expect(tried).toMatchObject({ header: "tools=-web_search, output_tokens=64", output_cap: 64, error: null });
  expect(JSON.parse(tried.request ?? "")).toEqual({ model: "m", input: "Hi", max_output_tokens: 64 });
  const rejected = await run({ tools: { deny: ["web_search"], over: "reject" } }, request);
  expect(rejected.error).toMatchObject({ status: 400, code: "policy_violation", param: "tools" });
  const invalid = await run({ output_tokens: { max: 1 } }, request);
  expect(invalid.problems).toMatchObject([{ field: "output_tokens.max" }]);
  expect(await run({}, { model: "m", input: "Hi" })).toMatchObject({
    changes: [],
    request: null,
    error: null,
  });
});

test("owners choose among the offered policies, and cannot replace another one", async () => {
  const { data } = await owner.call("request_policies.list");
  expect(data.map(({ name }) => name)).toEqual(["offered", "also-offered"]);
  const { key } = await owner.call("keys.create", {
    body: { name: "ci", group: "default", request_policy: "offered" },
  });
  expect(key.request_policy).toBe("offered");
  const edit = (request_policy: string | null) => ({ params: { id: key.id }, body: { request_policy } });
  expect(await owner.call("keys.edit", edit("also-offered"))).toMatchObject({
    request_policy: "also-offered",
  });
  const rejection = { code: "invalid_value", param: "request_policy" };
  expect(await owner.callRejected("keys.edit", edit("enforced"))).toMatchObject(rejection);
  await admin.call("keys.edit", edit("enforced"));
  expect(await owner.callRejected("keys.edit", edit(null))).toMatchObject(rejection);
  expect(await owner.callRejected("keys.edit", edit("offered"))).toMatchObject(rejection);
});
