/** Fills the queue of a pooled gateway step by step, so that a test does not depend on when its requests arrive. */

import { createTokenClient } from "./console-client.ts";
import { eventually } from "./eventually.ts";
import type { PooledGateway } from "./pooled-gateway.ts";

/** An account's models with `stuck`, whose requests occupy slots: they get no response. */
export const stuckBeside = (pooled: string) => ({ pooled, stuck: "sim-fast@first=60s" });

/** Requests that wait: for an account or a slot, and those of them that wait for a slot. */
export async function countWaiting(gateway: PooledGateway): Promise<{ all: number; forSlot: number }> {
  const admin = await createTokenClient(gateway, "root@example.com", "read", "admin");
  const text = await (await admin.fetch("/metrics")).text();
  const value = (name: string) =>
    Number(new RegExp(`^${name}\\{group="default"\\} (\\d+)$`, "m").exec(text)?.[1]);
  return { all: value("gateway_requests_waiting"), forSlot: value("gateway_requests_waiting_for_slot") };
}

/** Resolves when this many requests wait. */
export async function untilWaiting(gateway: PooledGateway, count: number): Promise<void> {
  await eventually(async () => (await countWaiting(gateway)).all, { equals: count });
}

/**
 * Occupies this many slots with requests of a key, so that further requests wait. Returns a function that frees all of
 * them.
 */
export async function occupySlots(
  gateway: PooledGateway,
  count: number,
  key?: string,
): Promise<() => Promise<void>> {
  const leaving = new AbortController();
  const ask = { model: "stuck", signal: leaving.signal, ...(key === undefined ? {} : { key }) };
  const occupying = Array.from({ length: count }, () => gateway.send(ask).catch(() => null));
  const inFlight = () => gateway.upstreams.map(({ ledger }) => ledger.totals().inFlight);
  await eventually(() => inFlight().reduce((sum, each) => sum + each, 0), { equals: count });
  return async () => {
    leaving.abort();
    await Promise.all(occupying);
  };
}

/** The requests of one upstream model. An upstream may notice that `stuck` ones were aborted after it has others. */
export const listSeen = ({ upstreams }: PooledGateway, model: string) =>
  upstreams.map(({ ledger }) => ledger.modelTotals(model));
