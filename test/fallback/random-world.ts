/** A random installation with fallback chains, random requests to it, and an oracle that judges every usage row. */

import { expect } from "bun:test";
import type { Db } from "../../src/store/engine/db.ts";
import type { UsageRow } from "../../src/store/usage/usage.ts";
import { findUsage } from "../../src/store/usage/usage.ts";
import { eventually } from "../support/eventually.ts";
import { type BillingRecords, bill, PAYER, SIMULATOR } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { asRecord } from "../support/sse-text.ts";
import { requestsFor } from "./fallback-gateway.ts";

/** Numbers from 0 to 1 that a seed determines (mulberry32). */
export function openRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const GROUPS = ["saver", "standard", "reserve"] as const;
const MODELS = ["asked", "other"] as const;
const CONDITIONS = ["busy", "failing", "too_long", "subscription_used", "window_used"] as const;
const CHARGES = ["none", "balance", "subscription"] as const;
const UPSTREAMS = [
  ...["sim-fast", "sim-fast", "sim-fast@events=30,interval=3ms", "fault/500", "fault/429", "fault/503"],
  ...[
    "fault/529",
    "fault/context",
    "fault/refuse",
    "fault/rst@chunk1",
    "fault/rst@chunk8",
    "fault/400",
    "fault/401",
  ],
];
const INTERFACES = ["chat", "responses", "messages", "gemini", "embeddings"];

interface Price {
  readonly input: string;
  readonly cached_input: string;
  readonly output: string;
}

interface Step {
  readonly group?: string;
  readonly model?: string;
  readonly when: readonly string[];
  readonly pay?: (typeof CHARGES)[number];
  readonly max_price?: string;
}

interface Group {
  readonly charge: (typeof CHARGES)[number];
  readonly multiplier: string;
}

export interface World {
  readonly file: string;
  readonly groups: Readonly<Record<string, Group>>;
  readonly prices: Readonly<Record<string, Price>>;
  /** The steps of the key's group for the asked model, in their order. */
  readonly chain: readonly Step[];
  readonly balanceNano: bigint;
}

export function makeWorld(random: () => number): World {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const usd = (most: number) => (0.000001 + random() * most).toFixed(6);
  const price = (): Price => ({ input: usd(9), cached_input: usd(2), output: usd(40) });
  const prices = { asked: price(), other: price() };
  const groups = Object.fromEntries(
    GROUPS.map((name): [string, Group] => [name, { charge: pick(CHARGES), multiplier: usd(4) }]),
  );
  const when = () => {
    const chosen = CONDITIONS.filter(() => random() < 0.6);
    return chosen.length === 0 ? ["failing"] : chosen;
  };
  const conditions = () => {
    const chosen = when();
    const leavesEarly = chosen.includes("busy") && random() < 0.3;
    return { when: chosen, ...(leavesEarly ? { leave_after: "100ms" } : {}) };
  };
  const step = (target: object): Step => ({
    ...target,
    ...conditions(),
    ...(random() < 0.4 ? { pay: pick(CHARGES) } : {}),
    ...(random() < 0.3 ? { max_price: (0.1 + random() * 6).toFixed(3) } : {}),
    ...(random() < 0.2 ? { stay: "2s" } : {}),
  });
  const groupSteps = GROUPS.slice(1).flatMap((group) => (random() < 0.8 ? [step({ group })] : []));
  const modelSteps = random() < 0.6 ? [step({ model: "other" })] : [];
  const limits = () => ({
    ...(random() < 0.1 ? { limits: { rpm: 10 + Math.floor(random() * 200) } } : {}),
    ...(random() < 0.2 ? { group_limits: { concurrency: 1 + Math.floor(random() * 3) } } : {}),
    ...(random() < 0.1 ? { limits: { windows: [{ per: "5h", usd: usd(0.2) }] } } : {}),
  });
  const balance = usd(random() < 0.2 ? 0.05 : 20);
  const accounts = GROUPS.flatMap((group) =>
    ["a", "b"].map((letter) => ({
      name: `${group}-${letter}`,
      kind: "openai",
      base_url: SIMULATOR,
      credential: `${group}-${letter}`,
      private_network: true,
      models: Object.fromEntries(MODELS.map((model) => [model, pick(UPSTREAMS)])),
      ...(random() < 0.3 ? { limits: { concurrency: 1 } } : {}),
    })),
  );
  const file = JSON.stringify({
    models: MODELS.map((id) => ({
      id,
      interfaces: INTERFACES,
      price: prices[id],
      context_tokens: 200_000,
      ...(id === "asked" && modelSteps.length > 0 ? { fallback: modelSteps } : {}),
    })),
    accounts,
    plans: [{ name: "plan", windows: [{ per: "day", usd: usd(1) }] }],
    groups: GROUPS.map((name) => ({
      name,
      interfaces: INTERFACES,
      models: MODELS,
      accounts: [`${name}-a`, `${name}-b`],
      billing: groups[name],
      queue: { timeout: "200ms", max_waiting: 20 },
      ...limits(),
      ...(name === "saver" && groupSteps.length > 0 ? { fallback: groupSteps } : {}),
    })),
    users: [{ email: PAYER, balance, ...(random() < 0.7 ? { subscriptions: [{ plan: "plan" }] } : {}) }],
    keys: [
      {
        ...(random() < 0.5 ? { limits: { concurrency: 4 } } : {}),
        name: "test",
        user: PAYER,
        group: "saver",
        secret: TEST_KEY,
        ...(random() < 0.2 ? { limits: { windows: [{ per: "5h", usd: usd(0.1) }] } } : {}),
      },
    ],
  });
  const [whole = "0", fraction = ""] = balance.split(".");
  return {
    file,
    groups,
    prices,
    chain: [...groupSteps, ...modelSteps],
    balanceNano: BigInt(`${whole}${fraction.padEnd(9, "0")}`),
  };
}

/** What the client has seen of one request; null if it was aborted, or its node was killed. */
export interface SeenResponse {
  readonly requestId: string;
  readonly status: number;
  readonly group: string | null;
  readonly step: string | null;
}

/** Sends a random request. A part of the clients disconnect before the end. */
export async function sendRandom(random: () => number, url: () => string): Promise<SeenResponse | null> {
  const requests = Object.values(requestsFor("asked"));
  const request = requests[Math.floor(random() * requests.length)];
  const abortMs = random() < 0.15 ? random() * 60 : null;
  const client = new AbortController();
  const timer = abortMs === null ? null : setTimeout(() => client.abort(), abortMs);
  try {
    const response = await fetch(`${url()}${request?.path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
      body: JSON.stringify(request?.body),
      signal: client.signal,
    });
    await response.arrayBuffer();
    const { headers, status } = response;
    return {
      requestId: headers.get("x-request-id") ?? "",
      status,
      group: headers.get("x-gateway-group"),
      step: headers.get("x-gateway-step"),
    };
  } catch {
    return null;
  } finally {
    if (timer !== null) clearTimeout(timer);
  }
}

interface Records {
  readonly db: Db;
  readonly records: BillingRecords;
}

/** Judges a world whose requests have all ended. Returns how many were served, and of those by a later step. */
export async function judgeWorld(
  world: World,
  { db, records }: Records,
  seen: readonly (SeenResponse | null)[],
): Promise<{ served: number; moved: number }> {
  await eventually(async () => ((await records.holds()) === 0 ? true : null));
  const names = new Map(
    (await db.sql`SELECT id, name FROM key_group`).map((row): [string, string] => [
      String(asRecord(row).id),
      String(asRecord(row).name),
    ]),
  );
  const ids = (await db.sql`SELECT request_id FROM usage`).map((row) => String(asRecord(row).request_id));
  const rows = new Map<string, UsageRow>();
  for (const id of ids) {
    const row = await findUsage(db, id);
    if (row !== null) rows.set(id, row);
  }
  let fromBalance = 0n;
  let hasOverrun = false;
  for (const row of rows.values()) {
    judgeRow(world, row, names.get(row.groupId) ?? "");
    if (row.payer === "balance") fromBalance += row.chargedNano;
    hasOverrun ||= row.flags.includes("overrun");
  }
  for (const one of seen) {
    if (one === null || one.status !== 200) continue;
    const row = rows.get(one.requestId);
    expect([one.requestId, row === undefined]).toEqual([one.requestId, false]);
    if (row === undefined || one.group === null) continue;
    expect([one.group, one.step]).toEqual([names.get(row.groupId) ?? "", String(row.fallbackStep ?? 0)]);
  }
  const { balanceNano, heldNano } = await records.wallet();
  expect([balanceNano, heldNano]).toEqual([world.balanceNano - fromBalance, 0n]);
  if (!hasOverrun) expect(balanceNano >= 0n).toBe(true);
  await records.expectReconciled();
  const served = [...rows.values()].filter(isServed);
  return { served: served.length, moved: served.filter((row) => row.fallbackStep !== null).length };
}

/** The oracle: group, model, payer and price of a row must be those of its step, computed without the gateway's code. */
function judgeRow({ groups, prices, chain }: World, row: UsageRow, groupName: string): void {
  const step = row.flags.includes("recovered")
    ? findHeldStep(chain, row, groupName)
    : row.fallbackStep === null
      ? null
      : chain[row.fallbackStep - 1];
  const what = `${row.requestId} step ${row.fallbackStep} ${row.fallbackReason} ${groupName}/${row.publicModel}`;
  expect([what, groupName, row.publicModel]).toEqual([what, step?.group ?? "saver", step?.model ?? "asked"]);
  if (step === undefined) throw new Error(`no such step: ${what}`);
  if (step !== null && row.fallbackStep !== null) {
    expect(step.when).toContain(row.fallbackReason ?? "");
    expect(row.requestedModel).toBe("asked");
  }
  const group = groups[groupName];
  const price = prices[row.publicModel];
  if (group === undefined || price === undefined) throw new Error(`unknown target: ${what}`);
  if (!isServed(row)) {
    expect([what, row.chargedNano]).toEqual([what, 0n]);
    return;
  }
  if (step?.max_price !== undefined)
    expect(lowestRatio(prices, groups, row, groupName)).toBeLessThanOrEqual(
      Number(step.max_price) * 1.000_001,
    );
  const charge = step?.pay ?? group.charge;
  const cost = bill(
    [
      [row.inputTokens - row.cachedTokens, price.input],
      [row.cachedTokens, price.cached_input],
      [row.outputTokens, price.output],
    ],
    group.multiplier,
  );
  if (row.outcome === "client_gone" && row.costNano === 0n) return;
  if (charge === "none") expect([what, row.payer, row.chargedNano]).toEqual([what, null, 0n]);
  else expect([what, row.payer, row.chargedNano]).toEqual([what, charge, cost]);
}

/** A request that no step has served is a row of the requested target, also if its error was sent as an event. */
function isServed({ outcome, usageSource }: UsageRow): boolean {
  return outcome !== "refused" && (outcome !== "failed" || usageSource !== "none");
}

/** A request of a killed process is charged by the hold that it has left, which has the group, model and payer of its step. */
function findHeldStep(chain: readonly Step[], row: UsageRow, groupName: string): Step | null | undefined {
  if (groupName === "saver" && row.publicModel === "asked") return null;
  const targets = chain.filter(
    ({ group = "saver", model = "asked" }) => group === groupName && model === row.publicModel,
  );
  return targets.find(({ pay }) => pay === undefined || pay === row.payer);
}

/** A forecast has some input and some output, so its ratio is at least the smaller one of both. */
function lowestRatio(
  prices: World["prices"],
  groups: World["groups"],
  { publicModel }: UsageRow,
  groupName: string,
): number {
  const [from, to] = [prices.asked, prices[publicModel]];
  const multiplier = Number(groups[groupName]?.multiplier) / Number(groups.saver?.multiplier);
  const ratios = (["input", "output"] as const).map((kind) => Number(to?.[kind]) / Number(from?.[kind]));
  return Math.min(...ratios) * multiplier;
}
