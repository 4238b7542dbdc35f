/**
 * Conversations that change their account, and their vendor, between two turns. Every upstream checks the state of
 * earlier reasoning: signatures and encrypted reasoning that it did not issue are rejected.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import {
  geminiClient,
  type Json,
  messagesClient,
  responsesClient,
  SIMULATED_STATE,
  STATE_CLIENTS,
  type StateClient,
  VENDORS,
  type Vendor,
} from "./state-clients.ts";

setDefaultTimeout(60_000);

/** Each has its own upstream with another seed. A model of the same name is served by this account only. */
const ACCOUNTS = VENDORS.flatMap((vendor) => [`${vendor}-1`, `${vendor}-2`]);
const INTERFACES = ["responses", "chat", "messages", "gemini"];
const UPSTREAM_MODEL = "sim-tools-reason";

const simulators = new Map<string, Simulator>();
let gateway: RunningGateway;

beforeAll(async () => {
  for (const [at, name] of ACCOUNTS.entries())
    simulators.set(name, startSimulator({ seed: at + 11, record: "full" }));
  gateway = await startTestGateway({ file: file(findUpstream) });
});
afterAll(async () => {
  await gateway.stop();
  for (const simulator of simulators.values()) await simulator.stop();
});

function findUpstream(account: string): Simulator {
  const simulator = simulators.get(account);
  if (simulator === undefined) throw new Error(`no account ${account}`);
  return simulator;
}

function file(findUpstream: (account: string) => Simulator): string {
  const kinds = { openai: "openai", anthropic: "anthropic", google: "gemini" };
  const interfaces = { openai: ["responses"], anthropic: ["messages"], google: ["gemini"] };
  return JSON.stringify({
    models: ACCOUNTS.map((id) => ({ id, interfaces: INTERFACES })),
    accounts: ACCOUNTS.map((name) => {
      const vendor = findVendor(name);
      const { url } = findUpstream(name);
      return {
        name,
        kind: kinds[vendor],
        base_url: vendor === "google" ? new URL(url).origin : url,
        credential: "credential",
        private_network: true,
        interfaces: interfaces[vendor],
        models: { [name]: UPSTREAM_MODEL },
      };
    }),
    groups: [{ name: "default", interfaces: INTERFACES, models: ACCOUNTS, accounts: ACCOUNTS }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

function findVendor(account: string): Vendor {
  const vendor = VENDORS.find((name) => account.startsWith(name));
  if (vendor === undefined) throw new Error(`no vendor of ${account}`);
  return vendor;
}

/** Sends the conversation to the account, with its tool loop. */
async function turn(client: StateClient, account: string, question: string): Promise<void> {
  client.ask(question);
  for (let steps = 0; steps < 3; steps++) {
    const response = await gateway.call(client.path(account), client.body(account), {
      headers: { "anthropic-version": "2023-06-01" },
    });
    const json = (await response.json()) as Json;
    expect([account, response.status, json.error ?? null]).toEqual([account, 200, null]);
    if (client.take(json) === 0) return;
  }
}

/** The last request that the upstream accepted. */
function lastBody(account: string): string {
  const { ledger } = findUpstream(account);
  return Buffer.from(ledger.findBody(ledger.last()?.id ?? "") ?? []).toString();
}

const requestCount = (account: string) => findUpstream(account).ledger.totals().requests;

/** Applies the file, and waits until requests to the account reach the upstream of the other name. */
async function moveAccounts(
  findUpstream: (account: string) => Simulator,
  account: string,
  upstream: string,
): Promise<void> {
  await gateway.apply(file(findUpstream));
  const before = requestCount(upstream);
  await eventually(async () => {
    await (await gateway.call("/v1/responses", { model: account, input: "Hello", store: false })).text();
    return requestCount(upstream) > before;
  });
}

/** The gateway's envelope, as it is and as bytes in Base64. */
const ENVELOPE = /gws1\.|Z3dzMS/;
describe.each(STATE_CLIENTS)("%s", (_, open) => {
  const pairs = ACCOUNTS.flatMap((first) =>
    ACCOUNTS.filter((second) => second !== first && first.endsWith("-1")).map(
      (second) => [first, second] as const,
    ),
  );

  test.each(pairs)("continues from %s on %s and back", async (first, second) => {
    const client = open();
    await turn(client, first, "What is the weather in Paris?");
    await turn(client, second, "And in Rome?");
    expect(lastBody(second)).not.toMatch(ENVELOPE);
    await turn(client, first, "And in Oslo?");
    const returned = lastBody(first);
    expect(returned).not.toMatch(ENVELOPE);
    // The state that the first account issued is restored, except after a rejection, which removes all of it.
    if (findVendor(first) !== findVendor(second))
      expect(returned).toMatch(SIMULATED_STATE[findVendor(first)]);
  });
});

describe("the tool results of a call that another account made", () => {
  const pairs = VENDORS.flatMap((first) =>
    VENDORS.filter((second) => second !== first).map((second) => [`${first}-1`, `${second}-2`] as const),
  );

  test.each(
    STATE_CLIENTS.flatMap(([name, open]) =>
      pairs.map(([first, second]) => [name, first, second, open] as const),
    ),
  )("of %s: called by %s, continued by %s", async (_, first, second, open) => {
    const client = open();
    client.ask("What is the weather in Paris?");
    const response = await gateway.call(client.path(first), client.body(first));
    expect(client.take((await response.json()) as Json)).toBeGreaterThan(0);
    const next = await gateway.call(client.path(second), client.body(second));
    expect([next.status, await next.text()]).toEqual([200, expect.any(String)]);
    expect(lastBody(second)).not.toMatch(ENVELOPE);
  });
});

describe("state that the upstream rejects", () => {
  test.each([
    ["a Responses client", responsesClient, "openai"],
    ["a Messages client", messagesClient, "anthropic"],
    ["a Gemini client", geminiClient, "google"],
  ] as const)("is removed for %s on another account of the same vendor, once", async (_, open, vendor) => {
    const client = open();
    client.ask("What is the weather in Paris?");
    const response = await gateway.call(client.path(`${vendor}-1`), client.body(`${vendor}-1`));
    client.take((await response.json()) as Json);
    const before = requestCount(`${vendor}-2`);
    const next = await gateway.call(client.path(`${vendor}-2`), client.body(`${vendor}-2`));
    expect([next.status, await next.text()]).toEqual([200, expect.any(String)]);
    expect(requestCount(`${vendor}-2`)).toBe(before + 2);
    expect(lastBody(`${vendor}-2`)).not.toMatch(SIMULATED_STATE[vendor]);
  });

  test.each(
    STATE_CLIENTS.flatMap(([name, open]) =>
      VENDORS.filter((vendor) => vendor !== open().vendor).map((vendor) => [name, vendor, open] as const),
    ),
  )("is removed for %s if the account at %s has another upstream now", async (_, vendor, open) => {
    const account = `${vendor}-1`;
    const client = open();
    client.ask("What is the weather in Paris?");
    const response = await gateway.call(client.path(account), client.body(account));
    client.take((await response.json()) as Json);
    const moved = (name: string) => findUpstream(name === account ? `${vendor}-2` : name);
    await moveAccounts(moved, account, `${vendor}-2`);
    try {
      const before = requestCount(`${vendor}-2`);
      const next = await gateway.call(client.path(account), client.body(account));
      expect([next.status, await next.text()]).toEqual([200, expect.any(String)]);
      expect(requestCount(`${vendor}-2`)).toBe(before + 2);
      expect(next.headers.get("x-gateway-dropped")).toContain("state");
      expect(lastBody(`${vendor}-2`)).not.toMatch(SIMULATED_STATE[vendor]);
    } finally {
      await moveAccounts(findUpstream, account, account);
    }
  });
});
