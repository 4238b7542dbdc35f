/** Paid requests while PostgreSQL gets only a part of its time, as on an overloaded machine: they wait and do not fail. */

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startSimulator } from "../../simulator/simulator.ts";
import { sendRequest } from "../faults/client.ts";
import { buildConfiguration, buildKey } from "../faults/setup.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import { PostgresServer } from "../support/postgres-server.ts";

setDefaultTimeout(180_000);

const CLIENTS = 80;
const ROUNDS = 3;
/** PostgreSQL is stopped for the first time and runs for the second, by turns. */
const STOPPED_MS = 1_600;
const RUNNING_MS = 200;

let closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.reverse()) await close();
  closers = [];
});

/** Returns the function that lets the server run all the time again. */
function starve(server: PostgresServer): () => Promise<void> {
  let isOver = false;
  const running = (async () => {
    while (!isOver) {
      server.freeze();
      await Bun.sleep(STOPPED_MS);
      server.thaw();
      await Bun.sleep(RUNNING_MS);
    }
  })();
  return () => {
    isOver = true;
    return running;
  };
}

async function startNodes(count: number) {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-starved-"));
  closers.push(() => rmSync(folder, { recursive: true, force: true }));
  const server = await PostgresServer.create();
  closers.push(() => server.remove());
  await server.run("CREATE DATABASE gateway");
  const upstream = startSimulator({});
  closers.push(() => upstream.stop());
  const setup = {
    models: { talk: "sim-fast@events=10,interval=10ms" },
    users: 1,
    balance: "0.05",
    groups: [{ name: "default", billing: { charge: "balance" } }],
  };
  const nodes = [];
  for (let index = 0; index < count; index += 1) {
    const nodeFolder = join(folder, `node-${index}`);
    mkdirSync(nodeFolder);
    await Bun.write(
      join(nodeFolder, "gateway.yaml"),
      JSON.stringify(buildConfiguration(setup, upstream.url)),
    );
    const node = await startGatewayProcess({
      folder: nodeFolder,
      args: ["--config", "gateway.yaml"],
      env: {
        DATABASE_URL: server.url("gateway"),
        MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
        DRAIN_DELAY: "0s",
      },
    });
    closers.push(() => node.stop());
    nodes.push(node);
  }
  return { server, nodes };
}

test("requests of one wallet on two nodes wait for a starved PostgreSQL, and none fails", async () => {
  const { server, nodes } = await startNodes(2);
  const stopStarving = starve(server);
  closers.push(stopStarving);
  const outcomes = new Map<string, number>();
  for (let round = 0; round < ROUNDS; round += 1) {
    const responses = await Promise.all(
      Array.from({ length: CLIENTS }, (_, i) =>
        sendRequest({
          url: nodes[i % nodes.length]?.url ?? "",
          key: buildKey(0),
          family: "chat",
          model: "talk",
          stream: i % 2 === 0,
          prompt: `Round ${round}, question ${i}`,
          more: { max_tokens: 24 },
        }),
      ),
    );
    for (const { status, errorCode } of responses) {
      const outcome = `${status} ${errorCode ?? ""}`.trim();
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
  }
  await stopStarving();
  const failures = [...outcomes.keys()].filter(
    (outcome) => outcome !== "200" && outcome !== "429 insufficient_quota",
  );
  expect(failures).toEqual([]);
  expect(outcomes.get("200") ?? 0).toBeGreaterThan(0);
});
