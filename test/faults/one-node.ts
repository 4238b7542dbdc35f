/**
 * A node whose disk fails, is full or slow, or that is stopped for two minutes, under traffic. Every request
 * whose end a client saw is booked, nothing is booked twice, and the gateway recovers by itself.
 */

import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { ClientRecord } from "./client.ts";
import { checked, type Fault, type FaultOptions, type Finding, figure, none } from "./fault.ts";
import { whileInjecting } from "./inject-disk-faults.ts";
import { openRig, type Rig } from "./killable-gateway.ts";
import { listed, MUST_NOT } from "./ledger-checks.ts";
import { buildOracle, readGroupNames } from "./price-oracle.ts";
import { reconcile } from "./reconcile.ts";
import { buildConfiguration, buildKey, type Setup } from "./setup.ts";
import { StepOracle } from "./step-oracle.ts";
import { FAULTY, MODELS, startTraffic } from "./traffic.ts";

const USERS = 4;
const isUnpaid = (user: number) => user === 0;
const PER_SECOND = 60;
const BEFORE_MS = 2_000;
const FAULT_MS = 6_000;
const AFTER_MS = 3_000;
const READY_WITHIN_MS = 60_000;
const FROZEN_MS = 120_000;

const SETUP: Setup = {
  models: MODELS,
  faulty: FAULTY,
  users: USERS,
  balance: "5000.00",
  groups: [
    { name: "default", billing: { charge: "balance", multiplier: "1.3" } },
    { name: "unpaid", billing: { charge: "none" } },
  ],
  findGroup: (user) => (isUnpaid(user) ? "unpaid" : "default"),
};

/** Does something to the running process, and returns what was seen of it. */
type Blow = (rig: Rig) => Promise<Finding[]>;

interface Expected {
  /** Whether some paid requests must be rejected meanwhile. */
  refuses: boolean;
}

async function underTraffic(
  { times, say }: FaultOptions,
  blow: Blow,
  { refuses }: Expected,
): Promise<Finding[]> {
  const rig = await openRig("sqlite", (url) => buildConfiguration(SETUP, url));
  const keys = Array.from({ length: USERS }, (_, user) => buildKey(user));
  const sinceMs = Date.now();
  const responses: ClientRecord[] = [];
  const seen: Finding[] = [];
  try {
    for (let round = 1; round <= (times ?? 1); round++) {
      const url = rig.url();
      const traffic = startTraffic({ url: () => url, keys, perSecond: PER_SECOND });
      await Bun.sleep(BEFORE_MS);
      seen.push(...(await blow(rig)));
      const backMs = await untilReady(rig);
      seen.push(figure("ready again after, ms", backMs.toFixed(0)));
      const fromMs = Date.now();
      await Bun.sleep(AFTER_MS);
      const asked = await traffic.stop();
      responses.push(...asked);
      const after = asked.filter(({ sentAtMs, status }) => sentAtMs >= fromMs && status === 200).length;
      seen.push(checked("served after it was over", after, "some", after > 0));
      say(`round ${round}: ${asked.length} asked`);
    }
    const truth = await rig.takeTruth();
    await rig.end();
    const rows = await rig.rows(sinceMs);
    const unpaidKeys = new Set(keys.filter((_, user) => isUnpaid(user)));
    const one = reconcile({
      asked: responses,
      rows,
      truth,
      prices: buildOracle(SETUP),
      steps: new StepOracle(SETUP),
      groupNames: await readGroupNames(rig),
      unpaidKeys,
      isTimed: false,
    });
    const refused = responses.filter(({ errorCode }) => errorCode === "store_unavailable").length;
    const audit = await rig.audit();
    return [
      ...seen,
      figure("client: asked / saw the end", `${one.asked} / ${one.whole}`),
      figure("simulator: requests reached", one.reached),
      figure("completed, and to the token as the simulator produced it", one.exact),
      refuses
        ? checked("paid requests refused meanwhile", refused, "some", refused > 0)
        : figure("paid requests refused meanwhile", refused),
      ...MUST_NOT.map(([name, what]) => none(what, listed(one, name))),
      checked("holds left", await rig.count("hold"), "0", (await rig.count("hold")) === 0),
      checked("audit", audit.output.trim(), "the books agree", audit.code === 0),
    ];
  } finally {
    await rig.stop();
  }
}

async function untilReady(rig: Rig): Promise<number> {
  const beganMs = performance.now();
  for (;;) {
    const status = await fetch(`${rig.url()}/readyz`).then(
      (response) => response.status,
      () => 0,
    );
    const tookMs = performance.now() - beganMs;
    if (status === 200) return tookMs;
    if (tookMs > READY_WITHIN_MS) throw new Error("it is still not ready");
    await Bun.sleep(50);
  }
}

/** The store, its log, and the segments that the journal has at this moment. */
function billingFiles({ folder }: Rig): string[] {
  const settlements = join(folder, "data", "settlements");
  const segments = readdirSync(settlements).filter((name) => name.startsWith("journal-"));
  return [
    ...["gateway.db", "gateway.db-wal"].map((name) => join(folder, name)),
    ...segments.map((name) => join(settlements, name)),
  ];
}

const injecting =
  (inject: string, ms = FAULT_MS): Blow =>
  async (rig) => {
    const changed = await whileInjecting(rig.pid(), { paths: billingFiles(rig), inject }, () =>
      Bun.sleep(ms),
    );
    return [checked(`system calls changed (${inject})`, changed, "some", changed > 0)];
  };

export const diskFull: Fault = {
  name: "enospc",
  promise: "the store's disk is full for six seconds: paid requests are refused, and no charge is lost",
  run: (options) => underTraffic(options, injecting("pwrite64:error=ENOSPC"), { refuses: true }),
};

export const diskErrors: Fault = {
  name: "eio",
  promise: "every write to the store fails for six seconds: paid requests are refused, and no charge is lost",
  run: (options) => underTraffic(options, injecting("pwrite64:error=EIO"), { refuses: true }),
};

/** Each thread of the process fails its first one: a few in all. */
export const syncFails: Fault = {
  name: "sync",
  promise: "a sync of the store fails once: nothing is promised before its content is safe elsewhere",
  run: (options) => underTraffic(options, injecting("fdatasync:error=EIO:when=1"), { refuses: false }),
};

export const slowDisk: Fault = {
  name: "slowdisk",
  promise: "every sync takes 300 ms and every write 2 ms: requests are slower, and the books agree",
  async run(options) {
    const slow: Blow = async (rig) => [
      ...(await injecting("fdatasync:delay_enter=300000")(rig)),
      ...(await injecting("pwrite64:delay_enter=2000")(rig)),
    ];
    return underTraffic(options, slow, { refuses: false });
  },
};

export const frozen: Fault = {
  name: "frozen",
  promise: "the process is stopped for two minutes and continued: nothing is lost, and nothing booked twice",
  run: (options) =>
    underTraffic(
      options,
      async (rig) => {
        const pid = rig.pid();
        process.kill(pid, "SIGSTOP");
        try {
          await Bun.sleep(FROZEN_MS);
        } finally {
          process.kill(pid, "SIGCONT");
        }
        return [figure("stopped for, seconds", FROZEN_MS / 1_000)];
      },
      { refuses: false },
    ),
};
