/** The checklist of a new installation: computed from its state, without the simulator and its demo group. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { createDemo } from "../../src/config/first-run/demo.ts";
import { SETUP_VENDORS } from "../../src/config/first-run/setup.ts";
import { listAccounts } from "../../src/store/policy/accounts.ts";
import { listGroups } from "../../src/store/policy/groups.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway, UPSTREAM_CREDENTIAL } from "../support/running-gateway.ts";

let gateway: RunningGateway;
let admin: SignedInClient;

beforeAll(async () => {
  gateway = await startTestGateway({ file: "users: []" });
  await createDemo(gateway.installation);
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(() => gateway.stop());

const steps = async () => (await admin.call("admin.setup.get")).steps;
const NOTHING = { account: false, models: false, price: false, person: false, tool: false, request: false };

test("the demo group and the simulator do not count as done", async () => {
  expect(await steps()).toEqual(NOTHING);
});

test("a vendor is one of those that need nothing but a credential", async () => {
  const { vendors } = await admin.call("admin.setup.get");
  expect(vendors.map(({ label }) => label).slice(0, 3)).toEqual(["OpenAI", "Anthropic", "Google Gemini"]);
  expect(vendors.map(({ id }) => id)).not.toContain("ollama");
  const body = { vendor: "unknown", credential: "sk" };
  expect(await admin.callRejected("admin.setup.propose", { body })).toMatchObject({ param: "vendor" });
});

test("one step creates the account, its models and a group; the credential is sealed", async () => {
  const body = { vendor: "openai", credential: "sk-secret-1", models: ["gpt-4o-mini"], group: "team" };
  expect(await admin.call("admin.setup.publish", { body })).toEqual({ account: "openai", group: "team" });
  const { db } = gateway.installation;
  const account = (await listAccounts(db)).find(({ name }) => name === "openai");
  expect(account).toMatchObject({ vendor: "openai", models: { "gpt-4o-mini": "gpt-4o-mini" } });
  expect(account?.sealedCredential).not.toContain("sk-secret-1");
  expect(await steps()).toEqual({ ...NOTHING, account: true, models: true, price: true });
  // Pages propose the first group for a new key.
  const { data: groups } = await admin.call("groups.list");
  expect(groups.map(({ name }) => name)).toEqual(["team", "demo"]);
});

test("a second account of the vendor gets another name and extends the group", async () => {
  const body = { vendor: "openai", credential: "sk-2", models: ["zeta-9000"], group: "team" };
  expect(await admin.call("admin.setup.publish", { body })).toMatchObject({ account: "openai-2" });
  const group = (await listGroups(gateway.installation.db)).find(({ name }) => name === "team");
  expect(group?.models).toEqual(["gpt-4o-mini", "zeta-9000"]);
  expect(group?.accounts).toHaveLength(2);
  // The second model has no price.
  expect(await steps()).toMatchObject({ models: true, price: false });
  await admin.call("admin.models.edit", {
    body: { models: ["zeta-9000"], set: { price: { input: "1", output: "2" } } },
  });
  expect(await steps()).toMatchObject({ price: true });
});

test("a second person or an invitation, a key and a response complete the rest", async () => {
  expect(await steps()).toMatchObject({ person: false, tool: false });
  await signInAs(gateway, "ada@example.com");
  await admin.call("keys.create", { body: { name: "tool", group: "team" } });
  expect(await steps()).toMatchObject({ person: true, tool: true, request: false });
  await gateway.apply(`
models: [{ id: real, interfaces: [chat] }]
accounts:
  - { name: sim, kind: openai, base_url: "${gateway.simulator.url}", credential: ${UPSTREAM_CREDENTIAL},
      private_network: true, models: { real: sim-fast } }
groups: [{ name: real, models: [real], accounts: [sim] }]`);
  await eventually(async () => (await admin.call("groups.list")).data.some(({ name }) => name === "real"));
  const { secret } = await admin.call("keys.create", { body: { name: "real", group: "real" } });
  const headers = { authorization: `Bearer ${secret}` };
  const chat = { model: "real", messages: [{ role: "user", content: "Hello" }] };
  expect((await gateway.call("/v1/chat/completions", chat, { headers })).status).toBe(200);
  expect(await steps()).toMatchObject({ request: true });
});

test("every offered vendor can be configured", async () => {
  for (const { id } of SETUP_VENDORS) {
    const body = { vendor: id, credential: `sk-${id}`, models: ["some-chat-model"], group: "all" };
    expect((await admin.call("admin.setup.publish", { body })).group).toBe("all");
  }
});
