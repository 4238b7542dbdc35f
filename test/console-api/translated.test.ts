/** The operations of the console's API that list native and translated interfaces. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

let gateway: RunningGateway;
let admin: SignedInClient;

beforeAll(async () => {
  const interfaces = ["chat", "messages", "embeddings"];
  const account = {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the file's own variable
    base_url: "${SIMULATOR_URL}",
    private_network: true,
  };
  gateway = await startTestGateway({
    file: JSON.stringify({
      models: ["both", "translated"].map((id) => ({ id, interfaces })),
      accounts: [
        { ...account, name: "anthropic", kind: "anthropic", models: { both: "sim-fast" } },
        {
          ...account,
          name: "chat",
          kind: "openai",
          interfaces: ["chat"],
          models: { both: "sim-fast", translated: "sim-fast" },
        },
      ],
      groups: [{ name: "team", interfaces, models: ["both", "translated"], accounts: ["anthropic", "chat"] }],
      users: [{ email: "ada@example.com", role: "admin" }],
      keys: [{ name: "laptop", user: "ada@example.com", group: "team", secret: TEST_KEY }],
    }),
  });
  admin = await signInAs(gateway, "ada@example.com", "admin");
});

afterAll(() => gateway.stop());

test("models name the interfaces that no account has itself", async () => {
  const { data } = await admin.call("models.list");
  expect(data.map(({ id, translated_interfaces: translated }) => [id, translated])).toEqual([
    ["both", []],
    ["translated", ["messages"]],
  ]);
  const { data: all } = await admin.call("admin.models.list");
  expect(all.map(({ document, interfaces }) => [document.id, interfaces])).toEqual([
    ["both", { native: ["chat", "messages"], translated: [] }],
    ["translated", { native: ["chat"], translated: ["messages"] }],
  ]);
});

test("accounts name the interfaces that they have, and those that requests are translated for", async () => {
  const { data } = await admin.call("admin.accounts.list");
  expect(data.map(({ document, interfaces }) => [document.name, interfaces])).toEqual([
    ["anthropic", { native: ["messages"], translated: ["chat", "responses", "gemini"] }],
    ["chat", { native: ["chat"], translated: ["responses", "messages", "gemini"] }],
  ]);
});

test("the check of a model's access names the dialect of each account", async () => {
  const { data } = await admin.call("keys.list");
  const query = { key: data[0]?.id ?? "", model: "both", interface: "messages" } as const;
  const { accounts } = await admin.call("models.why", { query });
  expect(accounts?.map(({ name, translation }) => [name, translation])).toEqual([
    ["anthropic", null],
    ["chat", "chat"],
  ]);
});
