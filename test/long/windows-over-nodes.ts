/**
 * A window of hours over three nodes, of which one is killed and one is replaced. The log of the upstream decides: what
 * ended nodes have used still counts, and what they had left is used by the others.
 */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startSimulator } from "../../simulator/simulator.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { poolFile, sendToGateway } from "../support/pooled-gateway.ts";
import { startPostgres } from "../support/postgres.ts";
import type { LimitsRunOptions } from "./limits-over-nodes.ts";

const REQUESTS = 60;
const NODES = 3;
const USED_BY_EACH = 9;
/** What a node counts and has not stored when it is killed is lost, as with one node. */
const STORED_MS = 1_000;
const SHARES_MOVED_WITHIN_MS = 150_000;
const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");

export async function windowsHold({ say }: LimitsRunOptions): Promise<string> {
  const postgres = await startPostgres();
  const upstream = startSimulator({});
  const root = mkdtempSync(join(tmpdir(), "model-gateway-windows-"));
  const running: GatewayProcess[] = [];
  const file = poolFile(
    { accounts: [{}], keys: { own: { limits: { windows: [{ per: "5h", requests: REQUESTS }] } } } },
    [upstream.url],
  );
  const start = async (name: string): Promise<GatewayProcess> => {
    const folder = join(root, name);
    mkdirSync(folder, { recursive: true });
    await Bun.write(join(folder, "gateway.yaml"), file);
    const env = { DATABASE_URL: postgres.url, MODEL_GATEWAY_MASTER_KEY: MASTER_KEY, DRAIN_DELAY: "0s" };
    const node = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"], env });
    running.push(node);
    return node;
  };
  const send = async ({ url }: GatewayProcess): Promise<boolean> => {
    const response = await sendToGateway(url, { key: "own" });
    await response.text();
    if (response.status !== 200 && response.status !== 429) throw new Error(`status ${response.status}`);
    return response.status === 200;
  };
  const countServed = () => upstream.ledger.totals().requests;
  try {
    for (let index = 0; index < NODES; index++) await start(`node-${index}`);
    const [killed, replaced, ...others] = running;
    if (killed === undefined || replaced === undefined) throw new Error("there are too few nodes");
    for (const node of running) for (let sent = 0; sent < USED_BY_EACH; sent++) await send(node);
    await Bun.sleep(STORED_MS);
    process.kill(killed.pid, "SIGKILL");
    await replaced.stop();
    const serving = [...others, await start("node-new")];
    say(`a node is killed and one is replaced; ${countServed()} of ${REQUESTS} are used`);
    const untilMs = performance.now() + SHARES_MOVED_WITHIN_MS;
    while (countServed() < REQUESTS && performance.now() < untilMs) {
      for (const node of serving) await send(node);
      await Bun.sleep(250);
    }
    const tookS = ((performance.now() - untilMs + SHARES_MOVED_WITHIN_MS) / 1_000).toFixed(0);
    // Both nodes would now serve more if one of them did not know what the ended nodes have used.
    for (let more = 0; more < REQUESTS; more++) for (const node of serving) await send(node);
    const served = countServed();
    if (served !== REQUESTS)
      throw new Error(`${served} requests were served, and the window allows ${REQUESTS}`);
    return `${served} of ${REQUESTS} requests were served, the last of them after ${tookS} s`;
  } finally {
    for (const node of running) await node.stop();
    await upstream.stop();
    await postgres.stop();
    rmSync(root, { recursive: true, force: true });
  }
}
