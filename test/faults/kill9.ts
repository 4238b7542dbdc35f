/** `kill -9` under load, again and again, on one store. */

import { checked, type Fault, type FaultOptions, type Finding, figure, none, quantile } from "./fault.ts";
import { openRig } from "./killable-gateway.ts";
import { checkBooks, checkRouting, listWrong, summarize } from "./ledger-checks.ts";
import { buildPaidSetup, type Payer, UNPAID_KEYS, USER_KEYS } from "./paid-setup.ts";
import { PauseMeter } from "./pause-meter.ts";
import { buildOracle, readGroupNames } from "./price-oracle.ts";
import { type Reconciliation, reconcile } from "./reconcile.ts";
import { buildConfiguration } from "./setup.ts";
import { StepOracle } from "./step-oracle.ts";
import { ROUTED_MIX, startTraffic } from "./traffic.ts";

const KILLS = 100;
const SUBSCRIPTION_KILLS = 20;
const PER_SECOND = 230;
const PER_SECOND_LEAST = 200;
/** A life lasts this long: long enough for streams that are seconds old, now and then hardly begun. */
const LIFE_MS = { least: 200, most: 4_200 };
/** Longer than a settlement waits for the store. Checkpoints are written meanwhile. */
const STORE_HANGS_MS = 1_300;
const STORE_HANGS_EVERY = 4;
/** After a longer pause of this process, the time of checkpoints shows how busy the machine is. */
const PAUSE_MS_MAX = 150;
/** About what a start takes. */
const SUCCESSOR_DIES_WITHIN_MS = 600;
export const kill9: Fault = {
  name: "kill9",
  promise:
    "kill -9 at random moments under 200+ requests/s: every token charged exactly once, and a row of every end, paid or not",
  run: (options) => killAgainAndAgain(options, "balance", KILLS),
};

export const subscriptions: Fault = {
  name: "subscriptions",
  promise:
    "the same kills and aborts where a subscription pays: what its windows say is the sum of its entries",
  run: (options) => killAgainAndAgain(options, "subscription", SUBSCRIPTION_KILLS),
};

async function killAgainAndAgain(
  { times, store, say }: FaultOptions,
  payer: Payer,
  usual: number,
): Promise<Finding[]> {
  const kills = times ?? usual;
  const setup = buildPaidSetup(payer);
  const prices = buildOracle(setup);
  const rig = await openRig(store, (url) => buildConfiguration(setup, url));
  const all: Reconciliation[] = [];
  const unsettled: string[] = [];
  const audits: Promise<void>[] = [];
  const badAudits: string[] = [];
  const restarts: number[] = [];
  const pauses = new PauseMeter();
  let untimed = 0;
  let timedHangs = 0;
  let asked = 0;
  let replayed = 0;
  let fromJournals = 0;
  let underLoadMs = 0;
  const audit = async (when: string) => {
    const { code, output } = await rig.audit();
    if (code !== 0) badAudits.push(`${when}: ${output.trim()}`);
  };
  try {
    for (let kill = 1; kill <= kills; kill++) {
      const sinceMs = Date.now();
      const lifeMs = LIFE_MS.least + Math.random() * (LIFE_MS.most - LIFE_MS.least);
      const beganMs = performance.now();
      const url = rig.url();
      const traffic = startTraffic({
        url: () => url,
        keys: USER_KEYS,
        perSecond: PER_SECOND,
        mix: ROUTED_MIX,
      });
      pauses.takeLongestMs();
      await Bun.sleep(lifeMs);
      // Settlements are then saved on disk before clients see the end: the successor has to book them from there.
      const hangs = store === "postgres" && kill % STORE_HANGS_EVERY === 0;
      const killedMs = hangs ? await rig.whileStoreHangs(STORE_HANGS_MS, rig.kill) : await rig.kill();
      underLoadMs += killedMs - beganMs;
      const isTimed = pauses.takeLongestMs() <= PAUSE_MS_MAX;
      if (!isTimed) untimed++;
      else if (hangs) timedHangs++;
      const responses = await traffic.stop();
      const truth = await rig.takeTruth();
      // Now and then the successor dies as well, somewhere in its start.
      if (kill % 3 === 0) await rig.startAndKill(SUCCESSOR_DIES_WITHIN_MS * Math.random());
      restarts.push(await rig.start());
      replayed += loggedSum(rig.log(), "settlements_replayed", "settlements");
      fromJournals += loggedSum(rig.log(), "journal_replayed", "ended");
      const holds = await rig.count("hold");
      if (holds > 0) unsettled.push(`${holds} after kill ${kill}`);
      const rows = await rig.rows(sinceMs);
      const one = reconcile({
        asked: responses,
        rows,
        truth,
        prices,
        steps: new StepOracle(setup),
        groupNames: await readGroupNames(rig),
        unpaidKeys: UNPAID_KEYS,
        isTimed,
      });
      all.push(one);
      asked += one.asked;
      const wrong = listWrong(one);
      if (wrong.length > 0 || kill % 10 === 0 || kills <= 10)
        say(
          `kill ${kill}/${kills} after ${(lifeMs / 1000).toFixed(1)} s: ${one.asked} asked, ${one.rows} rows, ${one.recovered} recovered, ${wrong.length} wrong`,
        );
      for (const line of wrong) say(`  ${line}`);
      for (const late of one.late) say(`  uncharged: ${late}`);
      // While the next load runs: what is booked meanwhile must not disturb it.
      audits.push(audit(`after kill ${kill}`));
      if (audits.length > 2) await audits.shift();
    }
    await Promise.all(audits);
    await rig.end();
    await audit("at the end");
    const rate = asked / (underLoadMs / 1000);
    return [
      figure("store / kills", `${store} / ${kills}`),
      checked(
        "requests a second under load",
        rate.toFixed(0),
        `${PER_SECOND_LEAST} or more`,
        rate >= PER_SECOND_LEAST,
      ),
      figure("restart to ready, median / slowest", milliseconds(restarts)),
      figure("kills after which checkpoints were not timed: the machine paused", untimed),
      ...summarize(all),
      ...checkRouting(all),
      ...(store === "postgres" ? [describeReplays(replayed, timedHangs)] : []),
      figure("ended before the kill, and booked from the journal by the successor", fromJournals),
      none("holds still open after recovery", unsettled),
      none("audits that found a contradiction", badAudits),
      ...(await checkBooks(rig, payer)),
    ];
  } finally {
    pauses.stop();
    await rig.stop();
  }
}

/** Sum of a numeric field over all log lines of an event. */
function loggedSum(log: string, event: string, field: string): number {
  const lines = log.split("\n").filter((line) => line.includes(event));
  const pattern = new RegExp(`"${field}":(\\d+)`);
  return lines.reduce((sum, line) => sum + Number(pattern.exec(line)?.[1] ?? 0), 0);
}

/** Without CPU time, no paid request ends while the store hangs. */
function describeReplays(replayed: number, timedHangs: number): Finding {
  const what = "kept on disk while the store hung, and booked by the successor";
  return timedHangs === 0 ? figure(what, replayed) : checked(what, replayed, "some", replayed > 0);
}

function milliseconds(times: readonly number[]): string {
  const sorted = [...times].sort((a, b) => a - b);
  return `${quantile(sorted, 0.5).toFixed(0)} ms / ${(sorted.at(-1) ?? 0).toFixed(0)} ms`;
}
