/**
 * `kill -9` among WebSocket turns, requests with idempotency keys, background responses and refunds. After each kill
 * the requests with a key are sent again: no account works twice under one key, and no charge is refunded twice.
 */

import type { LedgerEntry } from "../../simulator/ledger.ts";
import { systemClock, uuidV7 } from "../../src/base/clock.ts";
import { refund } from "../../src/billing/operations/operations.ts";
import { MoneyOperationRejected } from "../../src/billing/operations/rejection.ts";
import { nano } from "../../src/store/engine/row.ts";
import { type ClientRecord, type ClientRequest, sendRequest } from "./client.ts";
import { checked, type Fault, type FaultOptions, type Finding, figure, none } from "./fault.ts";
import { openRig, type Rig, readMarker } from "./killable-gateway.ts";
import { checkRouting, listed, listWrong, MUST_NOT } from "./ledger-checks.ts";
import { sendBySocket, sendInBackground } from "./more-clients.ts";
import { NodeCluster } from "./node-cluster.ts";
import { pickNode } from "./node-disruptions.ts";
import { buildOracle, readGroupNames } from "./price-oracle.ts";
import { type Reconciliation, reconcile } from "./reconcile.ts";
import { prepareRouting, useRouting } from "./routing-setup.ts";
import { buildConfiguration, buildKey, type Setup } from "./setup.ts";
import { StepOracle } from "./step-oracle.ts";
import { MODELS } from "./traffic.ts";
import { waitUntilSettled } from "./wait-until-settled.ts";

const KILLS = 20;
const USERS = 4;
const PER_SECOND = 60;
const LIFE_MS = { least: 500, most: 3_000 };
const REFUND_EVERY_MS = 150;

type Way = "socket" | "keyed" | "background";

interface Sent {
  way: Way;
  asking: ClientRequest;
  asked: ClientRecord;
}

const WAYS: readonly [Way, Pick<ClientRequest, "family" | "model" | "stream" | "search">][] = [
  ["socket", { family: "responses", model: "short", stream: true }],
  ["socket", { family: "responses", model: "long", stream: true }],
  ["keyed", { family: "chat", model: "fast", stream: false }],
  ["keyed", { family: "chat", model: "slow", stream: false }],
  ["keyed", { family: "chat", model: "short", stream: true }],
  ["background", { family: "responses", model: "short", stream: false }],
  ["socket", { family: "responses", model: "changed", stream: true }],
  ["socket", { family: "responses", model: "seeker", stream: true, search: { max: null } }],
  ["keyed", { family: "chat", model: "moved", stream: false }],
  ["keyed", { family: "messages", model: "finder", stream: true, search: { max: 2 } }],
];

/** One gateway, or several nodes of which one is killed. */
interface Target extends Pick<Rig, "url" | "db" | "takeTruth" | "rows" | "count" | "audit" | "end" | "stop"> {
  /** Returns when the signal was sent. */
  kill(): Promise<number>;
  /** Starts whatever does not run. */
  start(): Promise<unknown>;
}

const PROMISE =
  "kill -9 among WebSocket turns, idempotency keys, background responses and refunds: each is charged once";

const PLAIN: Setup = {
  models: MODELS,
  users: USERS,
  balance: "5000.00",
  groups: [{ name: "default", billing: { charge: "balance" } }],
};
const SETUP = useRouting(prepareRouting(PLAIN, "balance"));
const buildFile = (url: string) => buildConfiguration(SETUP, url);

export const mixed: Fault = {
  name: "mixed",
  promise: PROMISE,
  run: async (options) => killAmongMixed(options, await openRig(options.store, buildFile)),
};

export const nodesMixed: Fault = {
  name: "nodes-mixed",
  promise: `${PROMISE}, also when another node gets the repeat`,
  async run(options) {
    const { nodes, withRedis } = options;
    const cluster = await NodeCluster.start({ nodes, withRedis, buildFile });
    return killAmongMixed(options, {
      url: () => cluster.url(),
      db: cluster.db,
      kill: async () => {
        const atMs = performance.now();
        await pickNode(cluster).kill();
        return atMs;
      },
      start: () => cluster.startStopped(),
      takeTruth: () => cluster.takeTruth(),
      rows: (sinceMs) => cluster.rows(sinceMs),
      count: () => cluster.count("hold"),
      audit: () => cluster.audit(),
      end: () => cluster.end(),
      stop: () => cluster.stop(),
    });
  },
};

async function killAmongMixed({ times, say }: FaultOptions, rig: Target): Promise<Finding[]> {
  const kills = times ?? KILLS;
  const prices = buildOracle(SETUP);
  const all: Reconciliation[] = [];
  const workedTwice: string[] = [];
  const notReplayed: string[] = [];
  const badAudits: string[] = [];
  const counts: Record<Way, number> = { socket: 0, keyed: 0, background: 0 };
  let refunds = 0;
  let holdsLeft = 0;
  try {
    for (let kill = 1; kill <= kills; kill++) {
      const sinceMs = Date.now();
      const traffic = startMixed(() => rig.url());
      const refunding = startRefunds(rig, sinceMs);
      await Bun.sleep(LIFE_MS.least + Math.random() * (LIFE_MS.most - LIFE_MS.least));
      await rig.kill();
      const sent = await traffic.stop();
      refunds += await refunding.stop();
      const truth = marked(await rig.takeTruth());
      await rig.start();
      const again = await repeatKeyed(() => rig.url(), sent);
      const truthAgain = marked(await rig.takeTruth());
      // What is still in the journal is written before the rows are read.
      await rig.end();
      await rig.start();
      holdsLeft += await waitUntilSettled(rig);
      workedTwice.push(...findWorkedTwice(again, [...truth, ...truthAgain]));
      notReplayed.push(...again.filter(isLostResponse).map(({ first }) => first.marker));
      for (const { way } of sent) counts[way]++;
      const asked = [...sent.map((one) => one.asked), ...again.map((one) => one.second).filter(isNew)];
      const one = reconcile({
        asked,
        rows: await rig.rows(sinceMs),
        truth: [...truth, ...truthAgain],
        prices,
        steps: new StepOracle(SETUP),
        groupNames: await readGroupNames(rig),
        unpaidKeys: new Set(),
        isTimed: true,
      });
      all.push(one);
      say(`kill ${kill}/${kills}: ${one.asked} asked, ${one.whole} saw the end, ${one.rows} rows`);
      for (const wrong of listWrong(one)) say(`  ${wrong}`);
      const { code, output } = await rig.audit();
      if (code !== 0) badAudits.push(`after kill ${kill}: ${output.trim()}`);
    }
    return [
      figure(
        "socket turns / with a key / in the background",
        `${counts.socket} / ${counts.keyed} / ${counts.background}`,
      ),
      checked("refunds", refunds, "some", refunds > 0),
      ...MUST_NOT.map(([name, what]) =>
        none(
          what,
          all.flatMap((one) => listed(one, name)),
        ),
      ),
      ...checkRouting(all),
      checked("holds left after a start", holdsLeft, "0", holdsLeft === 0),
      none("an account worked twice under one key", workedTwice),
      none("a whole answer with a key, and its repeat was not the same", notReplayed),
      none("audits that found a contradiction", badAudits),
      await balances(rig),
    ];
  } finally {
    await rig.stop();
  }
}

/** Looking at a background response is no request of its own. */
const marked = (truth: readonly LedgerEntry[]) => truth.filter((entry) => readMarker(entry) !== "");

function startMixed(url: () => string) {
  const sent: Promise<Sent>[] = [];
  const beganMs = performance.now();
  const timer = setInterval(() => {
    while (sent.length < ((performance.now() - beganMs) / 1_000) * PER_SECOND) sent.push(sendOne(url));
  }, 5);
  return {
    stop() {
      clearInterval(timer);
      return Promise.all(sent);
    },
  };
}

async function sendOne(url: () => string): Promise<Sent> {
  const [way, shape] = WAYS[Math.floor(Math.random() * WAYS.length)] ?? WAYS[0] ?? fail();
  const key = buildKey(Math.floor(Math.random() * USERS));
  const asking: ClientRequest = { url: url(), nextUrl: url, key, prompt: "Why is the sky blue?", ...shape };
  if (way === "socket") return { way, asking, asked: await sendBySocket(asking) };
  if (way === "background") return { way, asking, asked: await sendInBackground(asking) };
  const keyed = { ...asking, idempotencyKey: uuidV7("key") };
  return { way, asking: keyed, asked: await sendRequest(keyed) };
}

interface Repeat {
  first: ClientRecord;
  second: ClientRecord;
}

async function repeatKeyed(url: () => string, sent: readonly Sent[]): Promise<Repeat[]> {
  const keyed = sent.filter(({ way }) => way === "keyed");
  return Promise.all(
    keyed.map(async ({ asking, asked }) => ({
      first: asked,
      second: await sendRequest({ ...asking, url: url() }),
    })),
  );
}

const isReplay = ({ headers }: ClientRecord) => headers?.get("idempotency-replayed") === "true";
/** A repeat with a row of its own: a replay has that of the first. */
const isNew = (one: ClientRecord) => !isReplay(one);
const isLostResponse = ({ first, second }: Repeat) =>
  first.isWhole && first.status === 200 && !first.stream && !isReplay(second);

function findWorkedTwice(repeats: readonly Repeat[], truth: readonly LedgerEntry[]): string[] {
  const worked = new Set(truth.filter(isWork).map(readMarker));
  return repeats
    .filter(({ first, second }) => worked.has(first.marker) && worked.has(second.marker))
    .map(({ first }) => `${first.marker} for ${first.model}, first ${first.status} ${first.errorCode}`);
}

/** The account of a step that fails has done nothing, and a request that then finds no step leaves its key free. */
const isWork = ({ model }: LedgerEntry) => !model.startsWith("fault/");

/** As an operator does it beside the running server: some of them twice, with one key. */
function startRefunds(rig: Target, sinceMs: number) {
  const desk = { db: rig.db, clock: systemClock, newId: uuidV7 };
  let isStopped = false;
  let done = 0;
  const running = (async () => {
    while (!isStopped) {
      await Bun.sleep(REFUND_EVERY_MS);
      const charged = (await rig.rows(sinceMs)).filter(({ chargedNano }) => chargedNano > 0n);
      const row = charged[Math.floor(Math.random() * charged.length)];
      if (row === undefined) continue;
      const { requestId } = row;
      const order = { actor: "faults", reason: null, idempotencyKey: `refund-${requestId}` };
      for (let tries = 0; tries < 2; tries++) {
        try {
          const { repeated } = await refund(desk, { requestId, amountNano: "all", ...order });
          if (!repeated) done++;
        } catch (error) {
          if (!(error instanceof MoneyOperationRejected)) throw error;
        }
      }
    }
  })();
  return {
    async stop() {
      isStopped = true;
      await running;
      return done;
    },
  };
}

async function balances(rig: Target): Promise<Finding> {
  const [row] = await rig.db.sql`
    SELECT CAST((SELECT SUM(balance_nano) FROM wallet) AS TEXT) AS balance,
      CAST(COALESCE((SELECT SUM(amount_nano) FROM entry WHERE kind = 'opening'), 0)
        + COALESCE((SELECT SUM(amount_nano) FROM entry WHERE kind = 'refund'), 0)
        - COALESCE((SELECT SUM(charged_nano) FROM usage), 0) AS TEXT) AS ought`;
  if (row === undefined) throw new Error("A sum is one row.");
  const [balance, ought] = [nano(row, "balance"), nano(row, "ought")];
  return checked("balances at the end: opened + refunded - charged", balance, `${ought}`, balance === ought);
}

function fail(): never {
  throw new Error("nothing to pick from");
}
