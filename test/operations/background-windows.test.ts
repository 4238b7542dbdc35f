/** USD windows count a paid background response once, whichever node settles it and whichever node has ended. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { paidFile } from "../support/paid-gateway.ts";
import { BACKGROUND_MODELS, type BegunResponse, PaidNodes } from "../support/paid-nodes.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";

setDefaultTimeout(180_000);

/** A report of use takes a second, and a window is read again by the call after it. */
const REPORTED_MS = 3_000;
const NANO_PER_USD = 1_000_000_000;

let postgres: Postgres;
let cluster: PaidNodes;
let names = 0;

beforeAll(async () => {
  postgres = await startPostgres();
  const group = { group_limits: { windows: [{ per: "5h", usd: "90" }] } };
  cluster = await PaidNodes.open(
    postgres.url,
    paidFile({ balance: "100", models: BACKGROUND_MODELS, group }),
  );
}, 300_000);

afterAll(async () => {
  await cluster?.records.expectReconciled();
  await cluster?.close();
  await postgres?.stop();
});

interface UsedMoney {
  readonly limits: { readonly group: { readonly windows: readonly { usd: { used: string } }[] } };
}

/** In nano-USD, of the window of the group, over all nodes. */
async function readUsed(node: GatewayProcess): Promise<number> {
  await Bun.sleep(200);
  const response = await cluster.call(node, "GET", "/usage");
  if (response.status !== 200) throw new Error(await response.text());
  const report = (await response.json()) as UsedMoney;
  return Math.round(Number(report.limits.group.windows[0]?.usd.used) * NANO_PER_USD);
}

async function readHeld({ requestId }: BegunResponse): Promise<number> {
  const [hold] = await cluster.db.sql`SELECT amount_nano FROM hold WHERE request_id = ${requestId}`;
  return Number(hold?.amount_nano);
}

async function sumRows(): Promise<number> {
  const [sum] = await cluster.db.sql`SELECT CAST(SUM(cost_nano) AS BIGINT) AS nano FROM usage_row`;
  return Number(sum?.nano ?? 0);
}

async function cancel(node: GatewayProcess, { id }: BegunResponse): Promise<void> {
  expect((await cluster.call(node, "POST", `/responses/${id}/cancel`)).status).toBe(200);
}

test("a killed node whose folder starts again leaves its response in the window until the response is settled", async () => {
  const name = `node-${names++}`;
  const killed = await cluster.start(name);
  const other = await cluster.start(`node-${names++}`);
  const before = await sumRows();
  const begun = await cluster.begin(killed, "endless");
  const held = await readHeld(begun);
  expect(held).toBeGreaterThan(0);
  await cluster.kill(killed);
  const next = await cluster.start(name);
  for (const node of [next, other]) expect(await readUsed(node)).toBe(before + held);
  await cancel(other, begun);
  await cluster.records.row(begun.requestId);
  await eventually(async () => (await readUsed(next)) === (await sumRows()));
  expect(await sumRows()).toBeGreaterThan(before);
  await cluster.stop(next);
  await cluster.stop(other);
});

test("a stopped node leaves its response in the window when another response is settled", async () => {
  const [stopped, other] = [await cluster.start(`node-${names++}`), await cluster.start(`node-${names++}`)];
  const before = await sumRows();
  const [left, settled] = [await cluster.begin(stopped, "endless"), await cluster.begin(stopped, "endless")];
  const held = await readHeld(left);
  await cluster.stop(stopped);
  await cancel(other, settled);
  const { costNano } = await cluster.records.row(settled.requestId);
  await eventually(() => readUsed(other), { equals: before + held + Number(costNano) });
  await cancel(other, left);
  await cluster.records.row(left.requestId);
  await eventually(async () => (await readUsed(other)) === (await sumRows()));
  await cluster.stop(other);
});

test("a response that another node settles while its own node runs counts once", async () => {
  const [own, other] = [await cluster.start(`node-${names++}`), await cluster.start(`node-${names++}`)];
  const begun = await cluster.begin(own);
  await cluster.waitForEnd(other, begun);
  await cluster.records.row(begun.requestId);
  await Bun.sleep(REPORTED_MS);
  for (const node of [own, other]) await eventually(() => readUsed(node), { equals: await sumRows() });
  await cluster.stop(own);
  await cluster.stop(other);
});
