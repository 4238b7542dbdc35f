/** The system's clock is set ahead and back under traffic, while another node watches: no process is taken for dead. */

import type { Clock } from "../../src/base/clock.ts";
import { reconcileLedger } from "../../src/billing/maintenance/reconciliation.ts";
import { describeProcess } from "../../src/billing/recovery/process-watch.ts";
import { startRecovery } from "../../src/billing/recovery/recovery.ts";
import { limits } from "../../src/config/limits/product-limits.ts";
import { BillingFaults } from "../../src/observe/billing-faults.ts";
import { toUsageRow } from "../../src/store/usage/usage-row.ts";
import { SELECT_USAGE } from "../../src/store/usage/usage-values.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/running-gateway.ts";
import type { ClientRecord } from "./client.ts";
import { checked, type Fault, figure, none } from "./fault.ts";
import { listed, MUST_NOT } from "./ledger-checks.ts";
import { buildOracle, readGroupNames } from "./price-oracle.ts";
import { reconcile } from "./reconcile.ts";
import { buildConfiguration, buildKey } from "./setup.ts";
import { StepOracle } from "./step-oracle.ts";
import { FAULTY, MODELS, startTraffic } from "./traffic.ts";

const USERS = 4;
const PER_SECOND = 60;
const STEP_MS = 3_000;
const HOUR_MS = 3_600_000;
/** Where the clock stands beside the system's, one after the other. */
const SHIFTS_MS = [61_000, -HOUR_MS, 24 * HOUR_MS, 0];
/** Each step is several times as long as it takes to find a dead process. */
const RECOVERY = {
  ...limits.recovery,
  heartbeatIntervalMs: 100,
  recoveryIntervalMs: 200,
  deadAfterMs: 1_000,
};

export const clockSteps: Fault = {
  name: "clock",
  promise:
    "the clock is set a minute and a day ahead and an hour back under traffic: every charge is as it was",
  async run({ times, say }) {
    let shiftMs = 0;
    const clock: Clock = { nowMs: () => Date.now() + shiftMs, monotonicMs: () => performance.now() };
    const setup = {
      models: MODELS,
      faulty: FAULTY,
      users: USERS,
      balance: "5000.00",
      groups: [{ name: "default", billing: { charge: "balance" } }],
    };
    const file = JSON.stringify(buildConfiguration(setup, `$${"{SIMULATOR_URL}"}`));
    const gateway = await startTestGateway({
      file,
      clock,
      tokens: "o200k",
      limits: { recovery: RECOVERY, drainTimeoutMs: 30_000 },
    });
    const { db } = gateway.installation;
    const warned: string[] = [];
    const log = { info() {}, warn: (event: string) => void warned.push(event), error: console.error };
    // Another node, which cannot look the gateway's process up, and whose clock is never set.
    const watcher = await startRecovery({
      db,
      log,
      clock: { nowMs: () => Date.now(), monotonicMs: () => performance.now() },
      billingEngine: {
        book: () => Promise.reject(new Error("nothing is to be settled")),
        isOpen: () => false,
        recordHeartbeat() {},
      },
      self: { ...describeProcess("inc_watcher", Date.now()), host: "another" },
      spoolDir: "/nonexistent",
      faults: new BillingFaults(() => Date.now()),
      limits: RECOVERY,
    });
    const responses: ClientRecord[] = [];
    const keys = Array.from({ length: USERS }, (_, user) => buildKey(user));
    try {
      for (let round = 1; round <= (times ?? 1); round++) {
        const traffic = startTraffic({ url: () => gateway.url, keys, perSecond: PER_SECOND });
        for (const step of SHIFTS_MS) {
          await Bun.sleep(STEP_MS);
          shiftMs = step;
          say(`clock ${step >= 0 ? "+" : ""}${step / 1_000} s`);
        }
        await Bun.sleep(STEP_MS);
        responses.push(...(await traffic.stop()));
      }
      await eventually(() => gateway.simulator.ledger.totals().inFlight, { equals: 0 });
      await gateway.usageRows();
      const rows = (await db.sql.text(SELECT_USAGE, [])).map(toUsageRow);
      const truth = gateway.simulator.ledger.entries();
      const one = reconcile({
        asked: responses,
        rows,
        truth,
        prices: buildOracle(setup),
        steps: new StepOracle(setup),
        groupNames: await readGroupNames({ db }),
        unpaidKeys: new Set(),
        isTimed: false,
      });
      const { findings } = await reconcileLedger(db, {
        nowMs: clock.nowMs(),
        holdAgeMaxMs: HOUR_MS,
        findingsMax: 10,
      });
      const events = gateway.log.map((line) => String(JSON.parse(line).event ?? ""));
      return [
        figure("client: asked / saw the end", `${one.asked} / ${one.whole}`),
        checked("completed, and to the token as the simulator produced it", one.exact, "some", one.exact > 0),
        ...MUST_NOT.map(([name, what]) => none(what, listed(one, name))),
        checked("rows that were recovered", one.recovered, "0", one.recovered === 0),
        none(
          "processes taken for dead",
          [...warned, ...events].filter(
            (event) => event === "holds_recovered" || event === "wallet_reservations_lost",
          ),
        ),
        none(
          "findings of the audit",
          findings.map(({ check, subject }) => `${check} ${subject}`),
        ),
      ];
    } finally {
      await watcher.stop();
      await gateway.stop();
    }
  },
};
