/** `model-gateway wallet` beside a running server that keeps wallet reservations and unwritten charges in memory. */

import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { PAYER, paidFile } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

const AT_ONCE = 200;

let folder: string;
let upstream: Simulator;
let gateway: GatewayProcess;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-wallet-"));
  upstream = startSimulator();
  await Bun.write(join(folder, "gateway.yaml"), paidFile({ balance: "1000.00" }));
  gateway = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"], env: env() });
});

afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
  rmSync(folder, { recursive: true, force: true });
});

const env = () => ({ SIMULATOR_URL: upstream.url });
const run = async (...args: string[]) => (await runCommand(args, { folder, env: env() })).output;

/** The id of the last one. */
async function manyAtOnce(): Promise<string> {
  const ids = Array.from({ length: AT_ONCE }, async () => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "paid", messages: [{ role: "user", content: "Hello" }] }),
    });
    await response.text();
    expect(response.status).toBe(200);
    return response.headers.get("x-request-id") ?? "";
  });
  return (await Promise.all(ids)).at(-1) ?? "";
}

/** The reserved amount in the database, without calling the server. */
function leased(): number {
  const store = new Database(join(folder, "data", "gateway.db"), { readonly: true });
  try {
    return (
      store
        .query<{ nano: number }, []>("SELECT COALESCE(SUM(amount_nano), 0) AS nano FROM wallet_reservation")
        .get()?.nano ?? 0
    );
  } finally {
    store.close();
  }
}

/** A second burst uses write-behind billing. */
async function untilSomethingIsSetAside(): Promise<string> {
  for (;;) {
    const id = await manyAtOnce();
    if (leased() > 0) return id;
  }
}

test("wallet show returns the balance after all charges, and no wallet reservation as held", async () => {
  await untilSomethingIsSetAside();
  const shown = JSON.parse(await run("wallet", "show", "--user", PAYER, "--json"));
  expect(shown).toMatchObject({ held: "0.00", reserved: "0.00", available: shown.balance });
  const usage = await fetch(`${gateway.url}/v1/usage`, { headers: { authorization: `Bearer ${TEST_KEY}` } });
  const { billing } = (await usage.json()) as { billing: { balance: string } };
  expect(shown.balance).toBe(billing.balance);
});

test("wallet refund refunds a request whose charge is not in the database yet, and explain shows it", async () => {
  const id = await untilSomethingIsSetAside();
  expect(await run("wallet", "refund", id)).toContain("refunded to the user's balance");
  expect(await run("explain", id)).toContain(`charged to the balance of ${PAYER}`);
});
