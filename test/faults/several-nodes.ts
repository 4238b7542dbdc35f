/** Nodes on one PostgreSQL that are killed or frozen under load, while another node recovers their requests. */

import { checked, type Fault, type FaultOptions, type Finding, none, told } from "./fault.ts";
import {
  buildPaidSetup,
  checkBooks,
  listWrong,
  summarize,
  tariffsOf,
  USER_KEYS,
  unpaidKeys,
} from "./kill9.ts";
import { listIncarnations, type Nodes, openNodes, until } from "./nodes.ts";
import { type Reconciled, reconcile } from "./reconcile.ts";
import { fileWith } from "./setup.ts";
import { startTraffic } from "./traffic.ts";

const KILLS = 20;
const PER_SECOND = 60;
const LIFE_MS = { least: 500, most: 5_000 };
/** Every third time, the other node recovers the requests before the killed one returns with its journal. */
const TAKEOVER_EVERY = 3;
const BEFORE_FREEZE_MS = 3_000;
const AFTER_FREEZE_MS = 2_000;

export const killNodes: Fault = {
  name: "kill9-nodes",
  promise: "kill -9 of one of two nodes on one PostgreSQL: every token is charged exactly once",
  run: (options) => onTwoNodes(options, killOne, { isContained: false }),
};

export const frozenNode: Fault = {
  name: "frozen-node",
  promise:
    "a node is stopped until another has recovered its requests, and continues: nothing is booked twice",
  run: (options) => onTwoNodes({ ...options, times: options.times ?? 1 }, freezeOne, { isContained: true }),
};

/** Ends the traffic in its own way. Returns in words what was done. */
type Disturbance = (nodes: Nodes, round: number, stopTraffic: () => Promise<void>) => Promise<string>;

/** `isContained`: the first node can tell only by its heartbeats whether the second one is running. */
async function onTwoNodes(
  { times, say }: FaultOptions,
  disturb: Disturbance,
  { isContained }: { isContained: boolean },
): Promise<Finding[]> {
  const nodes = await openNodes({
    count: 2,
    isContained: (node) => isContained && node === 1,
    buildFile: (url) => fileWith(buildPaidSetup("balance"), url),
  });
  const all: Reconciled[] = [];
  const badAudits: string[] = [];
  try {
    for (let round = 1; round <= (times ?? KILLS); round++) {
      const sinceMs = Date.now();
      const traffic = nodes.list.map(({ url }) => startTraffic(url, USER_KEYS, PER_SECOND));
      let answers: Promise<Awaited<ReturnType<(typeof traffic)[number]["stop"]>>[]> | null = null;
      const what = await disturb(nodes, round, async () => {
        answers = Promise.all(traffic.map((one) => one.stop()));
        await answers;
      });
      const one = reconcile({
        asked: (await (answers ?? Promise.resolve([]))).flat(),
        truth: await nodes.takeTruth(),
        rows: await nodes.rows(sinceMs),
        tariffs: await tariffsOf(nodes),
        unpaidKeys,
        killedMs: null,
      });
      all.push(one);
      say(`${round}: ${what}: ${one.asked} asked, ${one.rows} rows, ${one.recovered} recovered`);
      for (const wrong of listWrong(one)) say(`  ${wrong}`);
      const { code, output } = await nodes.audit();
      if (code !== 0) badAudits.push(`${round}: ${output.trim()}`);
    }
    const log = nodes.list.map((node) => node.log).join("\n");
    await nodes.end();
    return [
      ...summarize(all),
      told("journals replayed", countLogged(log, "journal_replayed")),
      told("reservations lost to another node", countLogged(log, "lease_lost")),
      none("audits that found a contradiction", badAudits),
      ...(await checkBooks(nodes, "balance")),
      checked(
        "wallet reservations left",
        await countRows(nodes, "lease"),
        "0",
        (await countRows(nodes, "lease")) === 0,
      ),
      checked("holds left", await countRows(nodes, "hold"), "0", (await countRows(nodes, "hold")) === 0),
    ];
  } finally {
    await nodes.stop();
  }
}

const killOne: Disturbance = async (nodes, round, stopTraffic) => {
  const lifeMs = LIFE_MS.least + Math.random() * (LIFE_MS.most - LIFE_MS.least);
  await Bun.sleep(lifeMs);
  const isTakenOver = round % TAKEOVER_EVERY === 0;
  const node = nodes.list[round % 2];
  if (node === undefined) throw new Error("no such node");
  const before = await listIncarnations(nodes.db);
  await node.kill();
  await stopTraffic();
  if (isTakenOver)
    await until("the other node has recovered the dead one", async () => {
      return (await listIncarnations(nodes.db)).length < before.length;
    });
  await node.start();
  return `killed after ${(lifeMs / 1000).toFixed(1)} s${isTakenOver ? ", taken over" : ""}`;
};

const freezeOne: Disturbance = async (nodes, _round, stopTraffic) => {
  const [, node] = nodes.list;
  if (node === undefined) throw new Error("no such node");
  await Bun.sleep(BEFORE_FREEZE_MS);
  const before = await listIncarnations(nodes.db);
  node.signal("SIGSTOP");
  const frozenAtMs = performance.now();
  try {
    await until("the other node has recovered the frozen one", async () => {
      return (await listIncarnations(nodes.db)).length < before.length;
    });
  } finally {
    node.signal("SIGCONT");
  }
  const frozenMs = performance.now() - frozenAtMs;
  await Bun.sleep(AFTER_FREEZE_MS);
  await stopTraffic();
  return `frozen for ${(frozenMs / 1000).toFixed(0)} s`;
};

const countLogged = (log: string, event: string) =>
  log.split("\n").filter((line) => line.includes(`"${event}"`)).length;

async function countRows({ db }: Nodes, table: "lease" | "hold"): Promise<number> {
  const [row] = await db.sql.text(`SELECT COUNT(*) AS n FROM ${table}`, []);
  return Number(row?.n);
}
