/** The usage export of a gateway that is killed while it delivers, to a receiver that keeps its own cursor. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { openDb } from "../../src/store/engine/db.ts";
import { text } from "../../src/store/engine/row.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { paidFile } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type ReceivedBatch, startUsageReceiver, type UsageReceiver } from "../support/usage-receiver.ts";

setDefaultTimeout(120_000);

const KILLS = 3;
const REQUESTS_PER_LIFE = 15;

const folder = mkdtempSync(join(tmpdir(), "model-gateway-export-"));
let simulator: Simulator;
let receiver: UsageReceiver;

beforeAll(async () => {
  simulator = startSimulator({ seed: 1, tokens: "o200k" });
  receiver = startUsageReceiver();
  const file = {
    ...JSON.parse(paidFile({ balance: "9" })),
    usage_export: { webhooks: [{ name: "warehouse", url: receiver.url, private_network: true }] },
  };
  await Bun.write(join(folder, "gateway.yaml"), JSON.stringify(file));
});

afterAll(async () => {
  await receiver?.stop();
  await simulator?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const start = () =>
  startGatewayProcess({
    folder,
    args: ["--config", "gateway.yaml"],
    env: { SIMULATOR_URL: simulator.url, DRAIN_DELAY: "0s" },
  });

async function chat({ url }: GatewayProcess): Promise<void> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "paid", messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  expect(response.status).toBe(200);
}

/** The receiver of docs/usage-export.md: it stores records and cursor together, and compares. */
class Warehouse {
  readonly ids: string[] = [];
  repetitions = 0;
  gaps = 0;
  #cursor: string | null = null;

  receive({ headers, ids }: ReceivedBatch): Response {
    const before = headers.get("x-gateway-cursor-before") ?? "";
    const after = headers.get("x-gateway-cursor") ?? "";
    const number = (cursor: string) => Number(cursor.split(":")[1]);
    if (this.#cursor === null || before === this.#cursor) {
      this.ids.push(...ids);
      this.#cursor = after;
      return new Response("stored");
    }
    if (number(after) <= number(this.#cursor)) {
      this.repetitions += 1;
      return new Response("known");
    }
    this.gaps += 1;
    return new Response("gap", { status: 409, headers: { "x-gateway-cursor": this.#cursor } });
  }
}

test("a receiver with a cursor stores each request once, although the gateway is killed after each delivery", async () => {
  const warehouse = new Warehouse();
  for (let life = 0; life < KILLS; life += 1) {
    const gateway = await start();
    // The batch is stored, but its acceptance never reaches the gateway.
    const { promise: stored, resolve } = Promise.withResolvers<void>();
    receiver.respond((batch) => {
      warehouse.receive(batch);
      resolve();
      return new Promise<Response>(() => {});
    });
    for (let i = 0; i < REQUESTS_PER_LIFE; i += 1) await chat(gateway);
    await stored;
    process.kill(gateway.pid, "SIGKILL");
    await gateway.exited;
  }
  receiver.respond((batch) => warehouse.receive(batch));
  const gateway = await start();
  await chat(gateway);
  const total = KILLS * REQUESTS_PER_LIFE + 1;
  await eventually(() => warehouse.ids.length >= total, 60_000);
  expect(await gateway.stop()).toBe(0);
  const db = await openDb(`sqlite:${join(folder, "data/gateway.db")}`);
  const rows = await db.sql`SELECT request_id FROM usage_row ORDER BY request_id`;
  await db.close();
  expect(rows).toHaveLength(total);
  expect(warehouse.ids.toSorted()).toEqual(rows.map((row) => text(row, "request_id")));
  expect(warehouse.repetitions).toBeGreaterThan(0);
});
