/** Random fallback chains on processes that are killed while they serve, judged by the oracle of test/fallback. */

import {
  judgeWorld,
  makeWorld,
  openRandom,
  type SeenResponse,
  sendRandom,
} from "../fallback/random-world.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { PaidNodes } from "../support/paid-nodes.ts";
import { startPostgres } from "../support/postgres.ts";
import type { LimitsRunOptions } from "./limits-over-nodes.ts";

const REQUESTS = 10_000;
const REQUESTS_OF_WORLD = 200;
const AT_ONCE = 8;

interface Run extends Pick<LimitsRunOptions, "say"> {
  readonly nodes: number;
  /** A new database for each world; null for SQLite. */
  readonly openDatabase: (() => Promise<{ url: string; stop(): Promise<unknown> }>) | null;
}

export function fallbackHoldsOnSqlite({ say }: LimitsRunOptions): Promise<string> {
  return runWorlds({ say, nodes: 1, openDatabase: null });
}

export function fallbackHoldsOnPostgres({ say }: LimitsRunOptions): Promise<string> {
  return runWorlds({ say, nodes: 3, openDatabase: startPostgres });
}

async function runWorlds(run: Run): Promise<string> {
  const requests = Number(process.env.FALLBACK_REQUESTS ?? REQUESTS);
  const seed = Number(process.env.FALLBACK_SEED ?? "1");
  const worlds = Math.ceil(requests / REQUESTS_OF_WORLD);
  const sum = { rows: 0, moved: 0 };
  for (let i = 0; i < worlds; i++) {
    const judged = await runWorld(run, seed + i).catch((cause) => {
      throw new Error(`the world of seed ${seed + i}: ${cause instanceof Error ? cause.message : cause}`);
    });
    sum.rows += judged.rows;
    sum.moved += judged.moved;
    if (i % 10 === 9) run.say(`${i + 1} of ${worlds} worlds: ${sum.rows} rows, ${sum.moved} of later steps`);
  }
  return `${worlds * REQUESTS_OF_WORLD} requests to ${run.nodes} nodes, one killed in each of ${worlds} worlds: ${sum.rows} usage rows, ${sum.moved} of later steps, all at their price`;
}

async function runWorld(
  { nodes: count, openDatabase }: Run,
  seed: number,
): Promise<{ rows: number; moved: number }> {
  const random = openRandom(seed);
  const world = makeWorld(random);
  const database = openDatabase === null ? null : await openDatabase();
  const nodes = await PaidNodes.open(database?.url, world.file);
  try {
    const running: GatewayProcess[] = [];
    for (let n = 0; n < count; n++) running.push(await nodes.start(`node-${n}`));
    let sent = 0;
    const killAt = Math.floor(random() * REQUESTS_OF_WORLD);
    const lanes = Array.from({ length: AT_ONCE }, async () => {
      const seen: (SeenResponse | null)[] = [];
      while (sent < REQUESTS_OF_WORLD) {
        const number = sent++;
        const at = number % count;
        if (number === killAt) {
          const killed = running[at];
          if (killed !== undefined) {
            await nodes.kill(killed);
            running[at] = await nodes.start(`node-${at}`);
          }
        }
        seen.push(await sendRandom(random, () => running[at]?.url ?? ""));
      }
      return seen;
    });
    const seen = (await Promise.all(lanes)).flat();
    for (const node of running) await nodes.stop(node);
    // What the killed process has left is settled by a process that starts later.
    const last = await nodes.start("node-0");
    const judged = await judgeWorld(world, nodes, seen);
    await nodes.stop(last);
    return judged;
  } finally {
    await nodes.close();
    await database?.stop();
  }
}
