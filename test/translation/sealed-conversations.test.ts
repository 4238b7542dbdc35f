/** Conversations with opaque state on several accounts of one vendor: each prefers the account that issued its state. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import {
  geminiClient,
  type Json,
  messagesClient,
  responsesClient,
  SIMULATED_STATE,
  type StateClient,
  VENDORS,
  type Vendor,
} from "./state-clients.ts";

const INTERFACES = ["responses", "chat", "messages", "gemini"];
const ACCOUNTS_PER_VENDOR = 3;
const CONVERSATIONS = 6;
const CONVERSATIONS_MAX = 100;
const KINDS = { openai: "openai", anthropic: "anthropic", google: "gemini" } as const;

/** Each has a seed of its own, so that it rejects the state of the others. */
const simulators = new Map<string, Simulator>();
let gateway: RunningGateway;

const names = (vendor: Vendor) => Array.from({ length: ACCOUNTS_PER_VENDOR }, (_, at) => `${vendor}-${at}`);

/** `mixed` has an account with Responses itself, and a translated one, on which `begun` conversations begin. */
const MORE_MODELS: Readonly<Record<string, readonly string[]>> = {
  "openai-0": ["mixed"],
  "anthropic-0": ["mixed", "begun"],
};

function account(vendor: Vendor, name: string): object {
  const { url } = findUpstream(name);
  const models = [vendor, ...(MORE_MODELS[name] ?? [])];
  return {
    name,
    kind: KINDS[vendor],
    base_url: vendor === "google" ? new URL(url).origin : url,
    credential: "credential",
    private_network: true,
    ...(vendor === "openai" ? { interfaces: ["responses"] } : {}),
    models: Object.fromEntries(models.map((model) => [model, "sim-tools-reason"])),
  };
}

function file(): string {
  const models = [...VENDORS, "mixed", "begun"];
  const accounts = VENDORS.flatMap((vendor) => names(vendor).map((name) => account(vendor, name)));
  return JSON.stringify({
    models: models.map((id) => ({ id, interfaces: INTERFACES })),
    accounts,
    groups: [{ name: "default", interfaces: INTERFACES, models, accounts: VENDORS.flatMap(names) }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

function findUpstream(name: string): Simulator {
  const simulator = simulators.get(name) ?? startSimulator({ seed: simulators.size + 31, record: "full" });
  simulators.set(name, simulator);
  return simulator;
}

beforeAll(async () => {
  gateway = await startTestGateway({ file: file() });
});
afterAll(async () => {
  await gateway.stop();
  for (const simulator of simulators.values()) await simulator.stop();
});

const counts = (vendor: Vendor) => names(vendor).map((name) => findUpstream(name).ledger.totals().requests);

/** Sends the conversation, and returns the accounts that received it. */
async function send(
  client: StateClient,
  vendor: Vendor,
): Promise<{ accounts: number[]; response: Response }> {
  const before = counts(vendor);
  const response = await gateway.call(client.path(vendor), client.body(vendor));
  const json = (await response.json()) as Json;
  expect([response.status, json.error ?? null]).toEqual([200, null]);
  client.take(json);
  const accounts = counts(vendor).flatMap((count, at) => (count > (before[at] ?? 0) ? [at] : []));
  return { accounts, response };
}

function lastBody(vendor: Vendor, at: number): string {
  const { ledger } = findUpstream(names(vendor)[at] ?? "");
  return Buffer.from(ledger.findBody(ledger.last()?.id ?? "") ?? []).toString();
}

async function readAttempts(response: Response): Promise<Json[]> {
  const id = response.headers.get("x-request-id") ?? "";
  await gateway.usageRows();
  const report = await gateway.call(`/v1/requests/${id}`);
  return ((await report.json()) as { attempts: Json[] }).attempts;
}

describe.each([
  ["a Responses client", responsesClient, ["anthropic", "google"]],
  ["a Messages client", messagesClient, ["openai", "google"]],
  ["a Gemini client", geminiClient, ["openai", "anthropic"]],
] as const)("%s", (_, open, vendors) => {
  test.each(vendors)(
    "stays on the account of %s that issued the state of its conversation",
    async (vendor) => {
      const seen = new Set<number>();
      // The first turns are spread, so that staying is no accident. Some conversations in a row may begin on one account.
      for (let i = 0; i < CONVERSATIONS || (seen.size === 1 && i < CONVERSATIONS_MAX); i++) {
        const client = open();
        client.ask(`Question ${i}: what is the weather in Paris?`);
        const [first = -1] = (await send(client, vendor)).accounts;
        seen.add(first);
        for (let step = 0; step < 2; step++) {
          const { accounts, response } = await send(client, vendor);
          expect(accounts).toEqual([first]);
          expect(lastBody(vendor, first)).toMatch(SIMULATED_STATE[vendor]);
          expect(response.headers.get("x-gateway-dropped") ?? "").not.toContain("state");
          client.ask("And in Rome?");
        }
      }
      expect(seen.size).toBeGreaterThan(1);
    },
  );

  test.each(vendors)(
    "moves on if the account of %s fails, and the trace names the lost state",
    async (vendor) => {
      const client = open();
      client.ask("What is the weather in Oslo?");
      const [first = -1] = (await send(client, vendor)).accounts;
      findUpstream(names(vendor)[first] ?? "").force("500", 1);
      const { accounts, response } = await send(client, vendor);
      const [second = -1] = accounts.filter((at) => at !== first);
      expect(accounts).toHaveLength(2);
      expect(lastBody(vendor, second)).not.toMatch(SIMULATED_STATE[vendor]);
      expect(response.headers.get("x-gateway-dropped")).toContain("state");
      const attempts = await readAttempts(response);
      expect(attempts.map(({ failure, state_dropped }) => [failure !== null, state_dropped])).toEqual([
        [true, false],
        [false, true],
      ]);
    },
  );
});

test("a stored conversation stays on its account", async () => {
  for (let i = 0; i < CONVERSATIONS; i++) {
    const base = { model: "google", reasoning: { effort: "medium" } };
    const before = counts("google");
    const first = await gateway.call("/v1/responses", { ...base, input: `Question ${i}`, tools: TOOLS });
    const { id, output } = (await first.json()) as { id: string; output: Json[] };
    const served = counts("google").findIndex((count, at) => count > (before[at] ?? 0));
    const results = output
      .filter(({ type }) => type === "function_call")
      .map(({ call_id }) => ({ type: "function_call_output", call_id, output: "sunny" }));
    const input = [...results, { role: "user", content: "And now?" }];
    const middle = counts("google");
    const second = await gateway.call("/v1/responses", { ...base, input, previous_response_id: id });
    expect(second.status).toBe(200);
    expect(counts("google").findIndex((count, at) => count > (middle[at] ?? 0))).toBe(served);
  }
});

const TOOLS = [
  {
    type: "function",
    name: "get_weather",
    strict: false,
    parameters: { type: "object", properties: { city: { type: "string" } } },
  },
];

test("state is preferred over an account that has the interface itself, and named when it is lost there", async () => {
  const native = findUpstream("openai-0");
  const client = responsesClient();
  const call = (model: string) => gateway.call(client.path(model), client.body(model));
  client.ask("What is the weather in Bern?");
  client.take((await (await call("begun")).json()) as Json);
  const before = native.ledger.totals().requests;
  const second = await call("mixed");
  client.take((await second.json()) as Json);
  expect([second.status, native.ledger.totals().requests]).toEqual([200, before]);
  findUpstream("anthropic-0").force("500", 1);
  client.ask("And in Rome?");
  const third = await call("mixed");
  expect([third.status, native.ledger.totals().requests]).toEqual([200, before + 1]);
  expect(third.headers.get("x-gateway-dropped")).toBe("state");
  expect((await readAttempts(third)).map(({ state_dropped }) => state_dropped)).toEqual([false, true]);
});
