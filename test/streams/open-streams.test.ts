/** One gateway process serves 1,000 streams at once. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { eventually } from "../support/eventually.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type SpawnedGateway, spawnGateway } from "../support/spawned-gateway.ts";
import { openStreamClient } from "../support/stream-client.ts";

const STREAMS = 1_000;
const MODELS = { steady: "sim-fast@events=8,interval=500ms" } as const;

let simulator: Simulator;
let gateway: SpawnedGateway;

beforeAll(async () => {
  simulator = startSimulator({ seed: 1 });
  gateway = await spawnGateway(MODELS, simulator.url);
});

afterAll(async () => {
  await gateway.stop();
  await simulator.stop();
});

test("1,000 open streams all complete", async () => {
  const clients = Array.from({ length: STREAMS }, () =>
    openStreamClient(gateway.url, "/v1/chat/completions", {
      model: "steady",
      messages: [{ role: "user", content: "Hello" }],
      stream: true,
    }),
  );
  let residentBytes = 0;
  await eventually(() => {
    residentBytes = Math.max(residentBytes, gateway.residentBytes());
    return simulator.ledger.totals().finished === STREAMS;
  }, 45_000);
  console.log(`${STREAMS} open streams: the gateway takes ${(residentBytes / 1e6).toFixed(0)} MB`);
  expect(simulator.ledger.totals().peakInFlight).toBe(STREAMS);
  for (const client of clients) {
    expect(await client.ended).toBe("message");
    const text = client.text();
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(text.split('"content":"').length).toBeGreaterThan(8);
  }
  const usage = await fetch(`${gateway.url}/v1/usage`, { headers: { authorization: `Bearer ${TEST_KEY}` } });
  expect(JSON.stringify(await usage.json())).toContain(`"requests":${STREAMS}`);
});
