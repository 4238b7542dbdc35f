/** Several processes on one port: one is killed, or all are replaced, under traffic. Always on PostgreSQL. */

import type { LedgerEntry } from "../../simulator/ledger.ts";
import { startSimulator } from "../../simulator/simulator.ts";
import { openDb } from "../../src/store/engine/db.ts";
import { toUsageRow } from "../../src/store/usage/usage-row.ts";
import { SELECT_USAGE } from "../../src/store/usage/usage-values.ts";
import { eventually } from "../support/eventually.ts";
import { ProcessesGateway } from "../support/processes-gateway.ts";
import type { ClientRecord } from "./client.ts";
import { checked, type Fault, type FaultOptions, type Finding, figure, none } from "./fault.ts";
import { checkBooks, checkRouting, summarize } from "./ledger-checks.ts";
import { buildPaidSetup, UNPAID_KEYS, USER_KEYS } from "./paid-setup.ts";
import { buildOracle, readGroupNames } from "./price-oracle.ts";
import { reconcile } from "./reconcile.ts";
import { buildConfiguration } from "./setup.ts";
import { StepOracle } from "./step-oracle.ts";
import { FAULTY, ROUTED_MIX, startTraffic } from "./traffic.ts";

const ROUNDS = 10;
const PROCESSES = 4;
const PER_SECOND = 60;
const LIFE_MS = 3_000;
const QUIET_WITHIN_MS = 90_000;
/** A request that was sent this long after the kill cannot have reached the killed process. */
const GONE_AFTER_MS = 500;

export const processes: Fault = {
  name: "processes",
  promise:
    "four processes on one port: a kill -9 of one harms only its own requests, a replacement of all harms none, and every token is charged exactly once",
  needsOwnNetwork: true,
  run,
};

async function run({ times, say }: FaultOptions): Promise<Finding[]> {
  const simulator = startSimulator({ seed: 1, record: "full", tokens: "o200k" });
  const setup = buildPaidSetup("balance");
  const gateway = await ProcessesGateway.create({
    count: PROCESSES,
    file: JSON.stringify(buildConfiguration(setup, simulator.url)),
    environment: {},
  });
  const db = await openDb(gateway.databaseUrl);
  const rounds = times ?? ROUNDS;
  const asked: ClientRecord[] = [];
  const truth: LedgerEntry[] = [];
  const harmed: string[] = [];
  let cut = 0;
  try {
    await gateway.start();
    for (let round = 1; round <= rounds; round += 1) {
      const isKill = round % 2 === 1;
      const { all, inFlight, others } = await disturb(gateway, isKill ? killOne : replaceAll);
      await eventually(() => simulator.ledger.totals().inFlight, { equals: 0, withinMs: QUIET_WITHIN_MS });
      truth.push(...simulator.ledger.entries());
      simulator.ledger.reset();
      asked.push(...all);
      // A killed process takes its requests in flight with it. No other request may fail.
      if (isKill) cut += inFlight.length;
      harmed.push(...(isKill ? others : [...inFlight, ...others]).map(describe));
      const failed = inFlight.length + others.length;
      say(`${isKill ? "kill" : "replacement"} ${round}: ${all.length} asked, ${failed} failed`);
    }
    // Everything is booked afterwards.
    gateway.supervisor.signal("SIGTERM");
    const code = await gateway.supervisor.exited;
    const rows = (await db.sql.text(SELECT_USAGE, [])).map(toUsageRow);
    const one = reconcile({
      asked,
      rows,
      truth,
      prices: buildOracle(setup),
      steps: new StepOracle(setup),
      groupNames: await readGroupNames({ db }),
      unpaidKeys: UNPAID_KEYS,
      isTimed: false,
    });
    const audit = await gateway.run("audit");
    return [
      figure("processes / rounds", `${PROCESSES} / ${rounds}`),
      figure("requests of killed processes that failed", cut),
      none("other requests that failed", harmed),
      checked("exit code", code, "0", code === 0),
      ...summarize([one]),
      ...checkRouting([one]),
      none("audits that found a contradiction", audit.code === 0 ? [] : [audit.output.trim()]),
      ...(await checkBooks({ db }, "balance")),
    ];
  } finally {
    await db.close();
    await gateway.remove();
    await simulator.stop();
  }
}

/** The requests of one round, and those that failed: in flight at the disturbance, and others. */
async function disturb(gateway: ProcessesGateway, work: (gateway: ProcessesGateway) => Promise<void>) {
  const traffic = startTraffic({
    url: () => gateway.url,
    keys: USER_KEYS,
    perSecond: PER_SECOND,
    mix: ROUTED_MIX,
  });
  await Bun.sleep(LIFE_MS);
  const disturbedMs = performance.now();
  await work(gateway);
  await Bun.sleep(GONE_AFTER_MS);
  const all = await traffic.stop();
  const failed = all.filter(hasFailed);
  const isInFlight = ({ sentMs }: ClientRecord) => sentMs < disturbedMs + GONE_AFTER_MS;
  return { all, inFlight: failed.filter(isInFlight), others: failed.filter((one) => !isInFlight(one)) };
}

async function killOne(gateway: ProcessesGateway): Promise<void> {
  const pids = gateway.pids();
  const killed = pids[Math.floor(Math.random() * pids.length)] ?? 0;
  process.kill(killed, "SIGKILL");
  await gateway.waitUntilAll((pid) => pid !== killed);
}

async function replaceAll(gateway: ProcessesGateway): Promise<void> {
  const former = gateway.pids();
  gateway.supervisor.signal("SIGUSR2");
  await gateway.waitUntilAll((pid) => !former.includes(pid));
}

/** Not a client that left, and not an account that fails. */
function hasFailed({ model, leftAfterMs, isWhole, errorCode }: ClientRecord): boolean {
  return !(model in FAULTY) && leftAfterMs === null && (!isWhole || errorCode !== null);
}

function describe({ marker, model, status, errorCode }: ClientRecord): string {
  return `${marker} ${model}: ${status ?? "no response"} ${errorCode ?? ""}`.trim();
}
