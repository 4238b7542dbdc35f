/** A gateway with two groups at different prices, and a fallback from the first group to the second. */

import { expect } from "bun:test";
import type { UsageRow } from "../../src/store/usage/usage.ts";
import { eventually } from "../support/eventually.ts";
import {
  bill,
  openBillingRecords,
  PAYER,
  type PaidGateway,
  PRICE,
  SIMULATOR,
} from "../support/paid-gateway.ts";
import { type GatewayOptions, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { asRecord } from "../support/sse-text.ts";

/** USD for a million tokens of the other model. */
export const OTHER_PRICE = { input: "7.000003", cached_input: "1.25", output: "31.000007" } as const;
const INTERFACES = ["chat", "responses", "messages", "gemini", "embeddings", "images"];

export interface FallbackSetup {
  /** The upstream model of the first group: a fault by default. */
  first?: string;
  /** Further fields of the account, the groups, the models and the key. */
  firstAccount?: object;
  /** The upstream model of the second group, and further fields of its account. */
  second?: string;
  secondAccount?: object;
  /** Accounts of the first group after the account `first`: the upstream model of each. */
  moreAccounts?: Readonly<Record<string, string>>;
  saver?: object;
  standard?: object;
  asked?: object;
  other?: object;
  key?: object;
  user?: object;
  plans?: readonly object[];
  policies?: readonly object[];
  steps?: readonly object[];
  modelSteps?: readonly object[];
}

const account = (name: string, models: object, more: object = {}) => ({
  name,
  kind: "openai",
  base_url: SIMULATOR,
  credential: name,
  private_network: true,
  models,
  ...more,
});

export function fallbackFile(setup: FallbackSetup): string {
  const { steps = [{ group: "standard", when: ["failing", "busy"] }], modelSteps = [] } = setup;
  const moreAccounts = Object.entries(setup.moreAccounts ?? {});
  return JSON.stringify({
    models: [
      {
        id: "asked",
        interfaces: INTERFACES,
        price: PRICE,
        context_tokens: 100_000,
        ...(modelSteps.length === 0 ? {} : { fallback: modelSteps }),
        ...setup.asked,
      },
      { id: "other", interfaces: INTERFACES, price: OTHER_PRICE, context_tokens: 1_000_000, ...setup.other },
    ],
    accounts: [
      account("first", { asked: setup.first ?? "fault/500", other: "sim-other" }, setup.firstAccount),
      account("second", { asked: setup.second ?? "sim-fast", other: "sim-other" }, setup.secondAccount),
      ...moreAccounts.map(([name, asked], at) => account(name, { asked }, { priority: at + 2 })),
    ],
    plans: setup.plans ?? [],
    request_policies: setup.policies ?? [],
    groups: [
      {
        name: "saver",
        interfaces: INTERFACES,
        models: ["asked", "other"],
        accounts: ["first", ...moreAccounts.map(([name]) => name)],
        billing: { charge: "balance", multiplier: "0.5" },
        ...(steps.length === 0 ? {} : { fallback: steps }),
        ...setup.saver,
      },
      {
        name: "standard",
        interfaces: INTERFACES,
        models: ["asked", "other"],
        accounts: ["second"],
        billing: { charge: "balance", multiplier: "2" },
        ...setup.standard,
      },
    ],
    users: [{ email: PAYER, balance: "5.00", ...setup.user }],
    keys: [{ name: "test", user: PAYER, group: "saver", secret: TEST_KEY, ...setup.key }],
  });
}

export async function startFallbackGateway(
  setup: FallbackSetup,
  options: Omit<GatewayOptions, "file"> = {},
): Promise<PaidGateway> {
  const gateway = await startTestGateway({ tokens: "o200k", ...options, file: fallbackFile(setup) });
  return { ...gateway, records: openBillingRecords(gateway.installation.db) };
}

const MESSAGES = [{ role: "user", content: "Hello" }];

/** Requests of all dialects for one model: their path and body. */
export function requestsFor(model: string): Readonly<Record<string, { path: string; body: object }>> {
  const chat = { model, messages: MESSAGES };
  const contents = [{ role: "user", parts: [{ text: "Hello" }] }];
  return {
    chat: { path: "/v1/chat/completions", body: chat },
    "chat stream": { path: "/v1/chat/completions", body: { ...chat, stream: true } },
    responses: { path: "/v1/responses", body: { model, input: "Hello" } },
    "responses stream": { path: "/v1/responses", body: { model, input: "Hello", stream: true } },
    messages: { path: "/v1/messages", body: { ...chat, max_tokens: 200 } },
    "messages stream": { path: "/v1/messages", body: { ...chat, max_tokens: 200, stream: true } },
    gemini: { path: `/v1beta/models/${model}:generateContent`, body: { contents } },
    "gemini stream": { path: `/v1beta/models/${model}:streamGenerateContent?alt=sse`, body: { contents } },
    embeddings: { path: "/v1/embeddings", body: { model, input: "Hello" } },
  };
}

export function ask(
  gateway: PaidGateway,
  more: object = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return gateway.call(
    "/v1/chat/completions",
    { model: "asked", messages: MESSAGES, max_completion_tokens: 100, ...more },
    { headers },
  );
}

export interface Served {
  readonly row: UsageRow;
  readonly group: string;
  readonly text: string;
  readonly response: Response;
}

/** The usage row of a response that was read to its end. */
export async function readServed(gateway: PaidGateway, response: Response): Promise<Served> {
  const text = await response.text();
  expect([response.status, text]).toEqual([200, text]);
  const row = await gateway.records.row(response.headers.get("x-request-id") ?? "");
  const groups = await gateway.installation.db.sql`SELECT name FROM key_group WHERE id = ${row.groupId}`;
  return { row, group: String(asRecord(groups[0]).name), text, response };
}

/** The price of the tokens in the row, computed independently of the gateway. */
export function billRow(
  { inputTokens, cachedTokens, outputTokens }: UsageRow,
  price: { readonly input: string; readonly cached_input: string; readonly output: string },
  multiplier: string,
): bigint {
  return bill(
    [
      [inputTokens - cachedTokens, price.input],
      [cachedTokens, price.cached_input],
      [outputTokens, price.output],
    ],
    multiplier,
  );
}

/** Nothing is held or reserved once all requests have ended. */
export async function expectNothingHeld(gateway: PaidGateway): Promise<void> {
  await gateway.records.expectReconciled();
  expect(await gateway.records.holds()).toBe(0);
  // A node with a coordinator knows what it has returned with the next reply.
  await eventually(() => countSlotsInUse((path) => gateway.call(path)), { equals: 0 });
}

/** Of the key, its group and its user together. */
export async function countSlotsInUse(call: (path: string) => Promise<Response>): Promise<number> {
  const { limits } = asRecord(await (await call("/v1/usage")).json());
  const used = ["key", "group", "user"].map((scope) => {
    const { concurrency } = asRecord(asRecord(limits ?? {})[scope] ?? {});
    return Number(asRecord(concurrency ?? {}).used ?? 0);
  });
  return used.reduce((sum, count) => sum + count, 0);
}
