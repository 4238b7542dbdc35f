/** Random fallback chains on processes that are killed while they serve, judged by the oracle of test/fallback. */

import { countSlotsInUse } from "../fallback/fallback-gateway.ts";
import {
  judgeWorld,
  makeWorld,
  openRandom,
  type SeenResponse,
  sendRandom,
} from "../fallback/random-world.ts";
import { eventually } from "../support/eventually.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { PaidNodes } from "../support/paid-nodes.ts";
import { startPostgres } from "../support/postgres.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import type { LimitsRunOptions } from "./limits-over-nodes.ts";

/** Requests that got a response, whatever it was. */
const REQUESTS = 10_000;
const REQUESTS_OF_WORLD = 200;
/** Few clients are billed directly. Many at once are billed by write-behind. The worlds take turns. */
const AT_ONCE = [8, 48] as const;
/** Fewer responses of later steps than one in ten would mean that the worlds reject nearly everything. */
const MOVED_MIN = 0.1;

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
  const sum = { answered: 0, served: 0, moved: 0 };
  for (let i = 0; i < worlds; i++) {
    const judged = await runWorld(run, { seed: seed + i, atOnce: AT_ONCE[i % 2] ?? 8 }).catch((cause) => {
      throw new Error(`the world of seed ${seed + i}: ${cause instanceof Error ? cause.message : cause}`);
    });
    sum.answered += judged.answered;
    sum.served += judged.served;
    sum.moved += judged.moved;
    if (i % 10 === 9) run.say(`${i + 1} of ${worlds} worlds: ${describe(sum)}`);
  }
  if (sum.moved < MOVED_MIN * requests)
    throw new Error(`too few were served by later steps: ${describe(sum)}`);
  return `${run.nodes} nodes, one killed in each of ${worlds} worlds: ${describe(sum)}, all at their price`;
}

interface WorldSums {
  /** Requests whose clients got a response. */
  readonly answered: number;
  readonly served: number;
  /** Served by a later step than the first. */
  readonly moved: number;
}

function describe({ answered, served, moved }: WorldSums): string {
  return `${answered} requests got a response, ${served} were served, ${moved} of them by later steps`;
}

async function runWorld(
  { nodes: count, openDatabase }: Run,
  { seed, atOnce }: { readonly seed: number; readonly atOnce: number },
): Promise<WorldSums> {
  const random = openRandom(seed);
  const world = makeWorld(random);
  const database = openDatabase === null ? null : await openDatabase();
  const nodes = await PaidNodes.open(database?.url, world.file);
  try {
    // Requests to a node that starts wait for it.
    const running: Promise<GatewayProcess>[] = [];
    for (let n = 0; n < count; n++) {
      const starting = nodes.start(`node-${n}`);
      running.push(starting);
      await starting;
    }
    let sent = 0;
    let answered = 0;
    const killAt = Math.floor(random() * REQUESTS_OF_WORLD);
    const lanes = Array.from({ length: atOnce }, async () => {
      const seen: (SeenResponse | null)[] = [];
      while (answered < REQUESTS_OF_WORLD) {
        const number = sent++;
        const at = number % count;
        const node = await running[at];
        if (node === undefined) throw new Error(`there is no node ${at}`);
        if (number === killAt) running[at] = nodes.kill(node).then(() => nodes.start(`node-${at}`));
        const response = await sendRandom(random, () => node.url);
        if (response !== null) answered++;
        seen.push(response);
      }
      return seen;
    });
    const seen = (await Promise.all(lanes)).flat();
    const ended = await Promise.all(running);
    for (const node of ended)
      await eventually(() => countSlotsInUse((path) => fetchAsKey(node, path)), { equals: 0 });
    for (const node of ended) await nodes.stop(node);
    // What the killed process has left is settled by a process that starts later.
    const last = await nodes.start("node-0");
    const judged = await judgeWorld(world, nodes, seen);
    await nodes.stop(last);
    return { answered, ...judged };
  } finally {
    await nodes.close();
    await database?.stop();
  }
}

function fetchAsKey({ url }: GatewayProcess, path: string): Promise<Response> {
  return fetch(url + path, { headers: { authorization: `Bearer ${TEST_KEY}` } });
}
