/** Paid background responses whose gateway is killed or stopped: the next process charges the upstream's usage. */

import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { type BegunResponse, PaidNodes } from "../support/paid-nodes.ts";

setDefaultTimeout(60_000);

let nodes: PaidNodes;

beforeEach(async () => {
  nodes = await PaidNodes.open();
});

afterEach(async () => {
  await nodes.records.expectReconciled();
  await nodes.close();
});

const ends = {
  killed: (node: GatewayProcess) => nodes.kill(node),
  stopped: (node: GatewayProcess) => nodes.stop(node),
};

/** A response that is in progress when its gateway ends, and the next process on the same data. */
async function interrupt(
  how: keyof typeof ends,
  meanwhile: (begun: BegunResponse) => Promise<unknown> = async () => {},
): Promise<{ begun: BegunResponse; node: GatewayProcess }> {
  const first = await nodes.start("node");
  const begun = await nodes.begin(first);
  await ends[how](first);
  await meanwhile(begun);
  return { begun, node: await nodes.start("node") };
}

for (const how of ["killed", "stopped"] as const) {
  test(`a gateway that is ${how} leaves the hold, and the next process charges the upstream's usage`, async () => {
    const { begun, node } = await interrupt(how);
    const row = await nodes.records.row(begun.requestId);
    expect(row).toMatchObject({
      outcome: "completed",
      status: 200,
      usageSource: "upstream",
      responseId: begun.id,
      flags: [],
    });
    expect(row.chargedNano).toBe(await nodes.price(begun));
    expect((await nodes.records.charge(begun.requestId))?.amountNano).toBe(row.chargedNano);
    expect(await nodes.records.holds()).toBe(0);
    expect(await nodes.status(node, begun)).toBe("completed");
  });
}

test("a response that is retrieved after its end is charged before it is served", async () => {
  const { begun, node } = await interrupt("killed", (one) => nodes.price(one));
  expect(await nodes.status(node, begun)).toBe("completed");
  const row = await nodes.records.findRow(begun.requestId);
  expect(row).toMatchObject({ outcome: "completed", usageSource: "upstream", flags: [] });
  expect(row?.chargedNano).toBe(await nodes.price(begun));
});

test("a stream that continues a response after its end is charged too", async () => {
  const { begun, node } = await interrupt("killed", (one) => nodes.price(one));
  const path = `/responses/${begun.id}?stream=true&starting_after=3`;
  expect(await (await nodes.call(node, "GET", path)).text()).toContain("response.completed");
  const row = await nodes.records.findRow(begun.requestId);
  expect(row?.chargedNano).toBe(await nodes.price(begun));
});

test("clients and the gateway that see the end at the same time charge it once", async () => {
  const { begun, node } = await interrupt("killed", (one) => nodes.price(one));
  const seen = await Promise.all(Array.from({ length: 20 }, () => nodes.status(node, begun)));
  expect(new Set(seen)).toEqual(new Set(["completed"]));
  await Bun.sleep(1_500);
  const entries = await nodes.db.sql`SELECT id FROM entry WHERE request_id = ${begun.requestId}`;
  expect(entries).toHaveLength(1);
  expect((await nodes.records.charge(begun.requestId))?.amountNano).toBe(await nodes.price(begun));
});

test("a response in progress can be cancelled, not deleted, and is charged as cancelled", async () => {
  const first = await nodes.start("node");
  const begun = await nodes.begin(first, "endless");
  await nodes.kill(first);
  const node = await nodes.start("node");
  expect((await nodes.call(node, "DELETE", `/responses/${begun.id}`)).status).toBe(400);
  expect((await nodes.call(node, "POST", `/responses/${begun.id}/cancel`)).status).toBe(200);
  const row = await nodes.records.findRow(begun.requestId);
  expect(row).toMatchObject({ outcome: "cancelled", usageSource: "partial", responseId: begun.id });
  expect(row?.chargedNano).toBeGreaterThan(0n);
  expect(await nodes.status(node, begun)).toBe("cancelled");
});

test("a response that is deleted after its end is charged first", async () => {
  const { begun, node } = await interrupt("stopped", (one) => nodes.price(one));
  const priceNano = await nodes.price(begun);
  expect((await nodes.call(node, "DELETE", `/responses/${begun.id}`)).status).toBe(200);
  expect((await nodes.records.findRow(begun.requestId))?.chargedNano).toBe(priceNano);
  expect(await nodes.status(node, begun)).toBe("404");
});

test("a response that its upstream forgets is charged by what is known, and is not found", async () => {
  const { begun, node } = await interrupt("killed", (one) => nodes.forget(one));
  expect(await nodes.status(node, begun)).toBe("404");
  const row = await nodes.records.row(begun.requestId);
  expect(row).toMatchObject({ outcome: "upstream_cut", responseId: null, flags: ["recovered"] });
  expect(row.chargedNano).toBeGreaterThan(0n);
  expect(await nodes.records.holds()).toBe(0);
});
