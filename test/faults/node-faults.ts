/**
 * `npm run faults -- --nodes 3`: several nodes on one PostgreSQL, under traffic. Clients, usage rows and the simulator
 * must agree after each fault, the ledger must agree with the rows, and the audit must be clean.
 */

import { basename } from "node:path";
import { listPartitions } from "../../src/store/engine/range-partitions.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import type { ClientRecord } from "./client.ts";
import { checked, type Fault, type FaultOptions, type Finding, figure, none } from "./fault.ts";
import { nodesMixed } from "./kill9-mixed.ts";
import { readMarker } from "./killable-gateway.ts";
import { checkBooks, checkRecovered, checkRouting, listed, MUST_NOT } from "./ledger-checks.ts";
import { checkLimits, chooseLimits, isMeasurable } from "./limit-checks.ts";
import { type ClusterOptions, NodeCluster } from "./node-cluster.ts";
import {
  fillDisk,
  freezeNode,
  killAndRestart,
  killForGood,
  mountTmpfs,
  partitionNode,
  partitionUntilTakeover,
  pickNode,
  unmount,
  upgradeAndReturn,
} from "./node-disruptions.ts";
import { describeOperator, Operator } from "./operator.ts";
import { buildPaidSetup, buildPlainSetup, type Payer, UNPAID_KEYS, USER_KEYS } from "./paid-setup.ts";
import { PauseMeter } from "./pause-meter.ts";
import {
  AsynchronousFailover,
  failOver,
  failOverAndLoseNode,
  freezeServer,
  restartServer,
  stopServer,
} from "./postgres-disruptions.ts";
import { buildOracle, type PriceOracle, readGroupNames } from "./price-oracle.ts";
import { type Reconciliation, reconcile } from "./reconcile.ts";
import { RoutingSwitch } from "./routing-switch.ts";
import { buildConfiguration } from "./setup.ts";
import { oneCentOnNodes } from "./small-balance.ts";
import { StepOracle } from "./step-oracle.ts";
import { FAULTY, type Mix, NODES_MIX, ROUTED_NODES_MIX, startTraffic } from "./traffic.ts";
import { waitUntilSettled } from "./wait-until-settled.ts";

const PER_SECOND = 60;
const BEFORE_MS = 3_000;
const AFTER_MS = 4_000;
const SKEWED_MS = 12_000;
/** After a longer pause of this process, checkpoints show how busy the machine is. */
const PAUSE_MS_MAX = 150;
/** Characters of a node's log that are printed when a fault cannot be completed. */
const LOG_SHOWN = 3_000;
const FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
/** Seconds by which the clock of a node is wrong. */
const SKEWS_S = [0, 600, -600];

interface Scenario
  extends Pick<
    ClusterOptions,
    "settings" | "environment" | "prepareFolder" | "wantsNamespaces" | "checksReadiness"
  > {
  /** `balance` unless set. */
  payer?: Payer;
  /** Does something to the cluster under traffic, and returns what was seen of it. */
  disrupt(cluster: NodeCluster, options: FaultOptions, routing: RoutingSwitch): Promise<Finding[]>;
  /** The nodes begin with the other version. */
  startsOther?: true;
  /** Further checks of what clients received. */
  checkResponses?(responses: readonly ClientRecord[]): Finding[];
  /** Further checks of all usage rows at the end. */
  compare?(rows: readonly UsageRow[]): Finding[];
  /** What may happen in this fault, and is only shown. */
  tolerated?: readonly (keyof Reconciliation)[];
  /** A node cannot learn new prices meanwhile, and charges those that it knows. */
  isCutOff?: true;
  /** Ids of requests have wrong times, so it is not known which price was in force. */
  hasWrongClocks?: true;
  /** PostgreSQL loses what it has confirmed. The nodes restore their charges, but no top-up, refund or price. */
  losesConfirmed?: true;
  /** All keys unless set. */
  keys?: readonly string[];
  /** Undoes what `prepareFolder` did, when no node runs. */
  cleanUp?(cluster: NodeCluster): void;
}

async function underTraffic(options: FaultOptions, scenario: Scenario): Promise<Finding[]> {
  const { nodes, withRedis, say } = options;
  const { payer = "balance", keys = USER_KEYS } = scenario;
  const routed = { ...buildPaidSetup(payer), limitsOf: chooseLimits };
  const plain = { ...buildPlainSetup(payer), limitsOf: chooseLimits };
  const otherVersion = scenario.startsOther ? options.otherVersion : null;
  const isSwitched = otherVersion !== null;
  const setup = isSwitched ? plain : routed;
  const prices = buildOracle(routed);
  const cluster = await NodeCluster.start({
    ...scenario,
    nodes,
    withRedis,
    program: otherVersion ?? undefined,
    buildFile: (url) => buildConfiguration(setup, url),
  });
  const mix = isSwitched ? NODES_MIX : ROUTED_NODES_MIX;
  const traffic = startTraffic({
    url: () => cluster.url(),
    keys,
    perSecond: PER_SECOND,
    mix,
    isMeasurable,
  });
  const duties = {
    booksMoney: payer === "balance" && !scenario.losesConfirmed,
    changesPrices: !scenario.isCutOff && !scenario.losesConfirmed && !scenario.hasWrongClocks,
  };
  const operator = new Operator({ cluster, setup, prices, ...duties });
  const routing = new RoutingSwitch({ cluster, operator, traffic, plain, routed, isSwitched });
  const pauses = new PauseMeter();
  try {
    await Bun.sleep(BEFORE_MS);
    const seen = await scenario.disrupt(cluster, options, routing);
    const readyMs = await cluster.waitUntilReady();
    const overMs = Date.now();
    await Bun.sleep(AFTER_MS);
    const sums = await operator.stop();
    const responses = await traffic.stop();
    const isTimed = pauses.takeLongestMs() <= PAUSE_MS_MAX;
    say(`${responses.length} requests sent; waiting for the last settlements`);
    const served = responses.filter(({ sentAtMs, status }) => sentAtMs >= overMs && status === 200).length;
    return [
      ...seen,
      figure("all nodes ready again after, ms", readyMs.toFixed(0)),
      checked("served after it was over", served, "some", served > 0),
      ...describeOperator(sums, duties),
      checkServed(mix, responses),
      ...(await cluster.checkRedis()),
      ...(scenario.checkResponses?.(responses) ?? []),
      ...(await compareLedgers(
        cluster,
        { responses, prices, steps: new StepOracle(routed), isTimed },
        scenario,
      )),
      ...(await checkBooks(cluster, payer, sums)),
      ...(await checkLeftovers(cluster)),
    ];
  } catch (error) {
    for (const { folder, output } of cluster.nodes) say(`${basename(folder)}: ${output.slice(-LOG_SHOWN)}`);
    throw error;
  } finally {
    pauses.stop();
    const ended = Promise.all([traffic.stop(), operator.stop()]);
    const { nodes: stopped } = cluster;
    for (const node of stopped) if (node.isRunning) process.kill(node.pid, "SIGCONT");
    for (const node of stopped) if (node.isRunning) await node.kill();
    await ended;
    scenario.cleanUp?.(cluster);
    await cluster.stop();
  }
}

interface Sent {
  readonly responses: readonly ClientRecord[];
  readonly prices: PriceOracle;
  readonly steps: StepOracle;
  readonly isTimed: boolean;
}

/** Ends the nodes, and compares what clients, usage rows and the simulator have. */
async function compareLedgers(
  cluster: NodeCluster,
  { responses, prices, steps, isTimed }: Sent,
  { tolerated = [], compare }: Scenario,
): Promise<Finding[]> {
  // Looking at a background response is no request of its own.
  const truth = (await cluster.takeTruth()).filter((entry) => readMarker(entry) !== "");
  const holdsLeft = await waitUntilSettled(cluster);
  await cluster.end();
  const rows = await cluster.rows(0);
  const one = reconcile({
    asked: responses,
    rows,
    truth,
    prices,
    steps,
    groupNames: await readGroupNames(cluster),
    unpaidKeys: UNPAID_KEYS,
    isTimed,
  });
  const partitions = await listPartitions(cluster.db, { name: "usage_row", key: "request_id" });
  return [
    figure("client: sent / saw the end / cut off", `${one.asked} / ${one.whole} / ${one.cutByKill}`),
    figure("rejected meanwhile, by error", describeErrors(responses)),
    figure("partitions of usage rows, half a minute after the first start", partitions.length),
    figure("rows / of these recovered", `${one.rows} / ${one.recovered}`),
    figure("completed, and to the token as the simulator produced it", one.exact),
    ...MUST_NOT.map(([name, what]) =>
      tolerated.includes(name) ? figure(what, listed(one, name).length) : none(what, listed(one, name)),
    ),
    ...checkRouting([one]),
    ...checkRecovered([one], { isTimed }),
    ...(await checkLimits(cluster.db, { asked: responses, rows, truth })),
    ...(compare?.(rows) ?? []),
    checked("holds left", holdsLeft, "0", holdsLeft === 0),
  ];
}

async function checkLeftovers(cluster: NodeCluster): Promise<Finding[]> {
  const reservations = await cluster.count("wallet_reservation");
  const lost = cluster.countLogged("settlement_lost");
  const audit = await cluster.audit();
  return [
    figure("failovers that nodes noticed", cluster.countLogged("store_replaced")),
    figure("journals replayed", cluster.countLogged("journal_replayed")),
    figure("reservations lost to another node", cluster.countLogged("wallet_reservations_lost")),
    checked("wallet reservations left", reservations, "0", reservations === 0),
    checked("settlements lost, by the log", lost, "0", lost === 0),
    checked("audit", audit.output.trim(), "clean", audit.code === 0),
  ];
}

function describeErrors(responses: readonly ClientRecord[]): string {
  const counts = new Map<string, number>();
  for (const { errorCode } of responses)
    if (errorCode !== null) counts.set(errorCode, (counts.get(errorCode) ?? 0) + 1);
  return [...counts].map(([code, many]) => `${many} ${code}`).join(", ") || "none";
}

/** A kind of request that is always rejected shows nothing. */
function checkServed(mix: Mix, responses: readonly ClientRecord[]): Finding {
  const kinds = mix.map(([, { family, model, stream }]) => `${family} ${model} ${stream}`);
  const served = new Set(
    responses
      .filter(({ isWhole, status, errorCode }) => isWhole && status === 200 && errorCode === null)
      .map(({ family, model, stream }) => `${family} ${model} ${stream}`),
  );
  return none(
    "kinds of requests that were never served",
    kinds.filter((kind) => !served.has(kind)),
  );
}

/** Requests that neither the client, a limit nor the upstream ended. */
function checkNoneFailed(responses: readonly ClientRecord[]): Finding[] {
  const failed = responses.filter(
    ({ status, isWhole, leftAfterMs, model }) =>
      leftAfterMs === null &&
      !(model in FAULTY) &&
      (status === null || status >= 500 || (status === 200 && !isWhole)),
  );
  return [
    none(
      "failed requests",
      failed.map(({ family, model, status, errorCode }) => `${family} ${model}: ${status} ${errorCode}`),
    ),
  ];
}

/** The environment of a node whose clock is wrong. */
function shiftClock(node: number): Readonly<Record<string, string>> {
  const skewS = SKEWS_S[node % SKEWS_S.length] ?? 0;
  return skewS === 0 ? {} : { LD_PRELOAD: FAKETIME, FAKETIME: `${skewS > 0 ? "+" : ""}${skewS}` };
}

function fault(name: string, promise: string, scenario: Scenario): Fault {
  return { name, promise, run: (options) => underTraffic(options, scenario) };
}

export const NODE_FAULTS: readonly Fault[] = [
  oneCentOnNodes,
  fault(
    "nodes-kill9",
    "a node is killed and starts again, several times: every token is charged exactly once",
    {
      checksReadiness: true,
      disrupt: killAndRestart,
    },
  ),
  fault("nodes-subscriptions", "the same where a subscription pays: its windows are the sum of its entries", {
    payer: "subscription",
    checksReadiness: true,
    disrupt: killAndRestart,
  }),
  nodesMixed,
  fault("nodes-takeover", "a node is killed, and others settle its requests before it starts again", {
    checksReadiness: true,
    disrupt: killForGood,
  }),
  fault("nodes-upgrade", "nodes are replaced one after the other by this version, and back: none fails", {
    startsOther: true,
    checksReadiness: true,
    // Longer than the load balancer takes to notice.
    environment: () => ({ DRAIN_DELAY: "2s" }),
    disrupt: upgradeAndReturn,
    checkResponses: checkNoneFailed,
  }),
  fault(
    "nodes-frozen",
    "a node is frozen, others settle its requests, and it returns: nothing is charged twice",
    {
      isCutOff: true,
      disrupt: freezeNode,
    },
  ),
  fault("nodes-partition", "a node loses its network to PostgreSQL without a reset, and gets it back", {
    isCutOff: true,
    wantsNamespaces: true,
    disrupt: partitionNode,
  }),
  fault("nodes-partition-long", "the same until others have settled its requests: nothing is charged twice", {
    isCutOff: true,
    wantsNamespaces: true,
    disrupt: partitionUntilTakeover,
  }),
  fault("nodes-clock", "the clocks of two nodes are ten minutes wrong, ahead and behind", {
    hasWrongClocks: true,
    environment: shiftClock,
    async disrupt() {
      await Bun.sleep(SKEWED_MS);
      return [figure("skews, s", SKEWS_S.join(" / "))];
    },
  }),
  fault("nodes-disk", "the disk of a node is full for eight seconds", {
    prepareFolder: (folder, node) => {
      if (node === 0) mountTmpfs(folder);
    },
    disrupt: fillDisk,
    cleanUp: (cluster) => unmount(pickNode(cluster, 0).folder),
  }),
  fault("pg-stop", "PostgreSQL is gone for eight seconds", { disrupt: stopServer }),
  fault("pg-restart", "PostgreSQL is restarted, several times", { disrupt: restartServer }),
  fault("pg-frozen", "PostgreSQL answers nothing for fifteen seconds", { disrupt: freezeServer }),
  fault("pg-failover", "PostgreSQL fails over to a synchronous standby: no confirmed charge is lost", {
    disrupt: failOver,
  }),
  fault(
    "pg-failover-store",
    "the same with DURABILITY=store while a node and its folder are lost: every end that a client saw is charged",
    {
      environment: () => ({ DURABILITY: "store" }),
      disrupt: failOverAndLoseNode,
      // Unpaid rows and young holds are in the lost folder alone.
      keys: USER_KEYS.filter((key) => !UNPAID_KEYS.has(key)),
      tolerated: ["producedWithoutRow"],
    },
  ),
  {
    name: "pg-failover-async",
    promise:
      "PostgreSQL fails over to a standby without the last second: nodes book its requests again, nothing twice",
    run(options) {
      const failover = new AsynchronousFailover();
      return underTraffic(options, {
        losesConfirmed: true,
        disrupt: (cluster) => failover.disrupt(cluster),
        compare: (rows) => failover.compare(rows),
      });
    },
  },
];
