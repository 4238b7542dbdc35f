/** What must hold for the ledgers after a fault, as findings of the table. */

import type { Db } from "../../src/store/engine/db.ts";
import { nano } from "../../src/store/engine/row.ts";
import { REVENUE } from "../../src/store/money/ledger.ts";
import { checked, type Finding, figure, none, quantile } from "./fault.ts";
import type { OperatorSums } from "./operator.ts";
import { OPENING_NANO, type Payer } from "./paid-setup.ts";
import type { Reconciliation } from "./reconcile.ts";

/** Seconds of a stream that a killed process may leave uncharged. A busy machine delays some checkpoints. */
const UNCHARGED_SECONDS = 1;
const UNCHARGED_SECONDS_MOST = 1.5;
const NOTHING_BOOKED = { toppedUpNano: 0n, refundedNano: 0n };

export const MUST_NOT: readonly (readonly [keyof Reconciliation, string])[] = [
  ["terminalWithoutRow", "client saw the end, and there is no row"],
  ["terminalBeforeRow", "client saw the end before it was booked"],
  ["producedWithoutRow", "upstream worked, and there is no row"],
  ["chargedWithoutUpstream", "charged, and no upstream worked"],
  ["rowTwice", "recorded twice"],
  ["wrongTokens", "completed with other tokens than were produced"],
  ["chargedAboveTruth", "charged for more output than was produced"],
  ["wrongCost", "cost or charge not by the configured price"],
  ["wrongStep", "recorded for another step or payer than served"],
  ["wrongSearches", "charged for other searches than were made and allowed"],
  ["wrongBackground", "background response charged for another use than was produced"],
];

export function listed(one: Reconciliation, name: keyof Reconciliation): string[] {
  const value = one[name];
  return Array.isArray(value) ? value.map(String) : [];
}

/** Everything that must not happen and did, in words. */
export function listWrong(one: Reconciliation): string[] {
  return MUST_NOT.flatMap(([name, what]) => listed(one, name).map((request) => `${what}: ${request}`));
}

export function summarize(all: readonly Reconciliation[]): Finding[] {
  const sum = (of: (one: Reconciliation) => number) => all.reduce((total, one) => total + of(one), 0);
  return [
    figure(
      "client: asked / saw the end / left / cut by the kill",
      [sum((o) => o.asked), sum((o) => o.whole), sum((o) => o.left), sum((o) => o.cutByKill)].join(" / "),
    ),
    figure(
      "of those that saw the end, unpaid",
      sum((o) => o.unpaidWhole),
    ),
    figure("gateway: rows / of these recovered", `${sum((o) => o.rows)} / ${sum((o) => o.recovered)}`),
    figure(
      "simulator: requests reached",
      sum((o) => o.reached),
    ),
    figure(
      "completed, and to the token as the simulator produced it",
      sum((o) => o.exact),
    ),
    ...MUST_NOT.map(([name, what]) =>
      none(
        what,
        all.flatMap((one) => listed(one, name)),
      ),
    ),
    ...checkRecovered(all),
  ];
}

/** For traffic with fallback and searches: there were some. */
export function checkRouting(all: readonly Reconciliation[]): Finding[] {
  const fellBack = all.reduce((sum, one) => sum + one.fellBack, 0);
  const searches = all.reduce((sum, one) => sum + one.searches, 0);
  return [
    checked("completed by another step than the first", fellBack, "some", fellBack > 0),
    checked("searches charged", searches, "some", searches > 0),
  ];
}

const TIMED = "streams in flight when killed, and recovered";
const NOT_TIMED = "recovered: not timed";

/** Whether the lower bound of recovered requests was checked; null if the fault has none. */
export function wasTimed(findings: readonly Finding[]): boolean | null {
  if (findings.some(({ what }) => what === TIMED)) return true;
  return findings.some(({ what }) => what === NOT_TIMED) ? false : null;
}

/**
 * Requests that another process settled, bounded from both sides: what had arrived, and what was produced. If the machine
 * had no time to write checkpoints, what had arrived proves nothing.
 */
export function checkRecovered(all: readonly Reconciliation[], { isTimed = true } = {}): Finding[] {
  const lower = isTimed
    ? checkUncharged(all)
    : [figure(NOT_TIMED, "this process was paused, so only the upper bound is checked")];
  return [...lower, ...checkOvercharged(all)];
}

function checkUncharged(all: readonly Reconciliation[]): Finding[] {
  const seconds = all.flatMap(({ unchargedSeconds }) => unchargedSeconds).sort((a, b) => a - b);
  const mean = seconds.reduce((total, one) => total + one, 0) / Math.max(1, seconds.length);
  const most = seconds.at(-1) ?? 0;
  const p99 = quantile(seconds, 0.99);
  return [
    figure(TIMED, seconds.length),
    figure(
      "delivered and not charged, seconds of stream: mean / median",
      `${mean.toFixed(2)} / ${quantile(seconds, 0.5).toFixed(2)}`,
    ),
    checked(
      "delivered and not charged, seconds of stream: p99",
      p99.toFixed(2),
      `at most ${UNCHARGED_SECONDS}`,
      p99 <= UNCHARGED_SECONDS,
    ),
    checked(
      "delivered and not charged, seconds of stream: the most",
      most.toFixed(2),
      `at most ${UNCHARGED_SECONDS_MOST}`,
      most <= UNCHARGED_SECONDS_MOST,
    ),
    figure(
      "delivered and not charged, tokens in all",
      all.reduce((total, { unchargedTokens }) => total + unchargedTokens, 0),
    ),
  ];
}

function checkOvercharged(all: readonly Reconciliation[]): Finding[] {
  const sum = (of: (one: Reconciliation) => number) => all.reduce((total, one) => total + of(one), 0);
  const charged = sum(({ recoveredOutput }) => recoveredOutput.charged);
  const produced = sum(({ recoveredOutput }) => recoveredOutput.produced);
  const above = sum(({ recoveredOutput }) => recoveredOutput.above);
  return [
    figure("recovered streams: output charged / produced, tokens", `${charged} / ${produced}`),
    checked(
      "recovered streams: charged above what was produced, tokens",
      above,
      "at most 1 % of it",
      above <= produced / 100,
    ),
  ];
}

/** Computed here from rows and entries alone, without the audit's own questions. */
export async function checkBooks(
  { db }: { db: Db },
  payer: Payer,
  { toppedUpNano, refundedNano }: Pick<OperatorSums, "toppedUpNano" | "refundedNano"> = NOTHING_BOOKED,
): Promise<Finding[]> {
  const one = async (question: string) => {
    const [row] = await db.sql.text(`SELECT CAST(COALESCE(${question}, 0) AS TEXT) AS n`, []);
    if (row === undefined) throw new Error("the database does not respond");
    return nano(row, "n");
  };
  const charged = await one("(SELECT SUM(charged_nano) FROM usage)");
  // A correction replaces what another node has estimated, and may return a part of it.
  const entries = await one(
    `(SELECT SUM(CASE WHEN debit = '${REVENUE}' THEN -amount_nano ELSE amount_nano END)
      FROM entry WHERE kind IN ('charge', 'correction'))`,
  );
  const findings = [
    figure("charged in all, nano-dollars", charged),
    checked("sum of the charges and corrections", entries, `${charged}`, entries === charged),
  ];
  if (payer === "balance") {
    const opening = await one("(SELECT SUM(amount_nano) FROM entry WHERE kind = 'opening')");
    const left = await one("(SELECT SUM(balance_nano) FROM wallet)");
    const held = await one("(SELECT SUM(held_nano) FROM wallet)");
    const ought = opening + toppedUpNano + refundedNano - charged;
    findings.push(
      checked("opening balances", opening, `${OPENING_NANO}`, opening === OPENING_NANO),
      checked("balances at the end", left, `${ought}`, left === ought),
      checked("held at the end", held, "0", held === 0n),
    );
  } else {
    for (const per of ["day", "week"]) {
      const used = await one(`(SELECT SUM(used_nano) FROM subscription_window WHERE per = '${per}')`);
      const held = await one(`(SELECT SUM(held_nano) FROM subscription_window WHERE per = '${per}')`);
      findings.push(
        checked(`used by the windows of a ${per}`, used, `${entries}`, used === entries),
        checked(`held by the windows of a ${per}`, held, "0", held === 0n),
      );
    }
  }
  return findings;
}
