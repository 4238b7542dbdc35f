/** Cloud accounts in the configuration file, in the console and in explanations. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { planChanges } from "../../src/config/plan/apply.ts";
import { explainAccess } from "../../src/policy/explain.ts";
import { listAccounts } from "../../src/store/policy/accounts.ts";
import { listKeys } from "../../src/store/policy/keys.ts";
import { readPolicy } from "../../src/store/policy/policy.ts";
import { type ConsoleClient, signInAs } from "../support/console-client.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import { BEDROCK_KEY, PROJECT, serviceAccountFile, startCloudGateway } from "./cloud-gateway.ts";

setDefaultTimeout(60_000);

let gateway: RunningGateway;
let admin: ConsoleClient;

beforeAll(async () => {
  gateway = await startCloudGateway();
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(() => gateway.stop());

async function findProblems(account: object): Promise<string[]> {
  const file = JSON.stringify({ accounts: [{ name: "a", ...account }] });
  const environment = { SIMULATOR_ORIGIN: new URL(gateway.simulator.url).origin };
  const planned = await planChanges(
    gateway.installation,
    { text: file, fileName: "gateway.yaml", environment },
    { prune: false },
  );
  return planned.ok ? [] : planned.problems.map(({ message }) => message);
}

const GOOGLE_TOKEN_URL = { token_uri: "https://oauth2.googleapis.com/token" };

describe("the file", () => {
  test.each([
    [{ kind: "bedrock", region: "us-east-1", credential: "key" }],
    [{ kind: "bedrock", base_url: "https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com" }],
    [{ kind: "vertex", credential: serviceAccountFile(GOOGLE_TOKEN_URL) }],
    [
      {
        kind: "vertex",
        region: "eu",
        project: "my-project",
        credential: serviceAccountFile(GOOGLE_TOKEN_URL),
      },
    ],
    [
      {
        kind: "vertex",
        credential: JSON.stringify(JSON.parse(serviceAccountFile(GOOGLE_TOKEN_URL)), null, 2),
      },
    ],
  ])("accepts account %#", async (account) => {
    expect(await findProblems(account)).toEqual([]);
  });

  test.each([
    [{ kind: "bedrock", credential: "key" }, "Set the region of the Bedrock endpoint"],
    [{ kind: "bedrock", region: "us-east-1.attacker.example.com#" }, "must be a region"],
    [
      { kind: "openai", base_url: "https://x.example.com", region: "us-east-1" },
      "only for kind bedrock and vertex",
    ],
    [{ kind: "bedrock", region: "us-east-1", project: "my-project" }, "only for kind vertex"],
    [{ kind: "vertex", project: "../x" }, "must be the id of a Google Cloud project"],
    [{ kind: "vertex", credential: "AIza-an-api-key" }, "must be the JSON key file of a service account"],
    [
      { kind: "vertex", credential: serviceAccountFile({ token_uri: "https://evil.example.com/t" }) },
      "token_uri",
    ],
    [{ kind: "anthropic", credential: '{ "type": "service_account" }' }, "a string of visible characters"],
  ])("rejects account %#", async (account, words) => {
    expect((await findProblems(account)).join(" ")).toContain(words);
  });
});

test("the region decides the address, and an exported account follows a changed region", async () => {
  const bedrock = { name: "east", kind: "bedrock", region: "us-east-1", credential: BEDROCK_KEY };
  const vertex = { name: "google", kind: "vertex", credential: serviceAccountFile(GOOGLE_TOKEN_URL) };
  await gateway.apply(JSON.stringify({ accounts: [bedrock, vertex] }));
  const stored = async (name: string) =>
    (await listAccounts(gateway.installation.db)).find((account) => account.name === name);
  expect(await stored("east")).toMatchObject({
    region: "us-east-1",
    baseUrl: "https://bedrock-runtime.us-east-1.amazonaws.com",
    interfaces: ["messages"],
  });
  expect(await stored("google")).toMatchObject({
    region: "global",
    baseUrl: "https://aiplatform.googleapis.com",
    interfaces: ["messages", "gemini"],
  });
  const { document } = await admin.call("admin.accounts.get", { params: { name: "east" } });
  expect(document).not.toHaveProperty("base_url");
  await gateway.apply(JSON.stringify({ accounts: [{ ...document, region: "eu-west-1" }] }));
  expect((await stored("east"))?.baseUrl).toBe("https://bedrock-runtime.eu-west-1.amazonaws.com");
});

describe("an explanation", () => {
  test.each([
    ["vertex-claude", "messages", null],
    ["vertex-claude", "gemini", "messages"],
    ["vertex-gemini", "gemini", null],
    ["vertex-gemini", "messages", "gemini"],
    ["bedrock-fast", "messages", null],
    ["bedrock-fast", "chat", "messages"],
  ] as const)("of %s for %s names the translation %p", async (model, iface, translation) => {
    const { db, clock } = gateway.installation;
    const [key] = await listKeys(db);
    if (key === undefined) throw new Error("no key");
    const { accounts } = explainAccess(await readPolicy(db), key, model, iface, clock.nowMs());
    expect(accounts.filter(({ reason }) => reason === null).map((account) => account.translation)).toEqual([
      translation,
    ]);
  });

  test("the model list names which interfaces are translated", async () => {
    const list = (await (await gateway.call("/v1/models")).json()) as {
      data: { id: string; translated_interfaces?: string[] }[];
    };
    const translated = (id: string) => list.data.find((model) => model.id === id)?.translated_interfaces;
    expect(translated("vertex-claude")).toEqual(["chat", "responses", "gemini"]);
    expect(translated("vertex-gemini")).toEqual(["chat", "responses", "messages"]);
  });
});

describe("the test call of the console", () => {
  const testCall = async (name: string, credential?: string) => {
    const { document } = await admin.call("admin.accounts.get", { params: { name } });
    return admin.call("admin.accounts.test", {
      body: { document, ...(credential === undefined ? {} : { credential }) },
    });
  };

  test("lists the Claude profiles of Amazon Bedrock", async () => {
    expect(await testCall("bedrock")).toMatchObject({
      kind: "answers",
      models: ["us.anthropic.claude-sonnet-4-5-20250929-v1:0"],
    });
  });

  test("says that a list was denied", async () => {
    expect(await testCall("bedrock", "another-key")).toMatchObject({ kind: "list_denied", status: 403 });
  });

  test("lists the models of Google and Anthropic at Vertex AI", async () => {
    expect(await testCall("vertex")).toMatchObject({
      kind: "answers",
      models: ["claude-opus-5", "claude-sonnet-4-5@20250929", "gemini-2.5-flash"],
    });
  });

  test("rejects a service account that Google does not know", async () => {
    const origin = new URL(gateway.simulator.url).origin;
    const change = { client_email: `other@${PROJECT}.iam.gserviceaccount.com`, token_uri: `${origin}/token` };
    expect(await testCall("vertex", serviceAccountFile(change))).toMatchObject({ kind: "refused" });
  });
});

test("a Gemini client with ids of calls works on Vertex AI, which rejects them", async () => {
  const tools = [
    { functionDeclarations: [{ name: "get_weather", parametersJsonSchema: { type: "object" } }] },
  ];
  const path = "/v1beta/models/vertex-gemini-tools:generateContent";
  const question = { role: "user", parts: [{ text: "Weather?" }] };
  const first = await gateway.call(path, { contents: [question], tools });
  const { candidates } = (await first.json()) as { candidates: { content: { parts: object[] } }[] };
  const call = candidates[0]?.content.parts[0] as { functionCall: object };
  const contents = [
    question,
    { role: "model", parts: [{ ...call, functionCall: { ...call.functionCall, id: "call_1" } }] },
    {
      role: "user",
      parts: [{ functionResponse: { id: "call_1", name: "get_weather", response: { output: "sunny" } } }],
    },
  ];
  const second = await gateway.call(path, { contents, tools });
  expect([second.status, await second.text()]).toEqual([200, expect.stringContaining("sunny")]);
});

test.each(["bedrock-tools", "vertex-claude-tools", "vertex-gemini-tools"])(
  "a Chat client completes a loop with a tool on %s",
  async (model) => {
    const tools = [{ type: "function", function: { name: "get_weather", parameters: { type: "object" } } }];
    const messages: object[] = [{ role: "user", content: "Weather?" }];
    const first = await gateway.call("/v1/chat/completions", { model, messages, tools });
    const { choices } = (await first.json()) as { choices: { message: { tool_calls: { id: string }[] } }[] };
    const message = choices[0]?.message;
    expect(message?.tool_calls).toHaveLength(1);
    messages.push(message ?? {}, {
      role: "tool",
      tool_call_id: message?.tool_calls[0]?.id,
      content: "sunny",
    });
    const second = await gateway.call("/v1/chat/completions", { model, messages, tools });
    expect([second.status, await second.text()]).toEqual([200, expect.stringContaining("sunny")]);
  },
);

test("an image by URL is refused for Claude at a cloud vendor, with advice", async () => {
  const content = [{ type: "image_url", image_url: { url: "https://example.com/a.png" } }];
  const messages = [{ role: "user", content }];
  const response = await gateway.call("/v1/chat/completions", { model: "bedrock-fast", messages });
  expect([response.status, await response.text()]).toEqual([400, expect.stringContaining("data URL")]);
});
