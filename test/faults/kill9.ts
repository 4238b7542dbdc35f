/** `kill -9` under load, again and again, on one store. */

import { buildTariff, type Tariff } from "../../src/money/tariff.ts";
import { nano, text } from "../../src/store/engine/row.ts";
import { REVENUE } from "../../src/store/money/ledger.ts";
import { checked, type Fault, type FaultOptions, type Finding, none, quantile, told } from "./fault.ts";
import { openRig, type Rig } from "./killable-gateway.ts";
import { type Reconciled, reconcile } from "./reconcile.ts";
import { fileWith, keyOf, type Setup } from "./setup.ts";
import { FAULTY, MODELS, startTraffic } from "./traffic.ts";

const KILLS = 100;
const SUBSCRIPTION_KILLS = 20;
const USERS = 8;
const isUnpaid = (user: number) => user % 4 === 0;
const PER_SECOND = 230;
const PER_SECOND_LEAST = 200;
/** A life lasts this long: long enough for streams that are seconds old, now and then hardly begun. */
const LIFE_MS = { least: 200, most: 4_200 };
/** Longer than a settlement waits for the store. No checkpoint is written meanwhile. */
const STORE_HANGS_MS = 1_300;
const STORE_HANGS_EVERY = 4;
/** About what a start takes. */
const SUCCESSOR_DIES_WITHIN_MS = 600;
/** What a process that dies may leave uncharged of a stream. A stalled machine delays a beat now and then. */
const UNCHARGED_SECONDS = 1;
const UNCHARGED_SECONDS_MOST = 1.5;

export const USER_KEYS: readonly string[] = Array.from({ length: USERS }, (_, user) => keyOf(user));
export const unpaidKeys: ReadonlySet<string> = new Set(USER_KEYS.filter((_, user) => isUnpaid(user)));

type Payer = "balance" | "subscription";

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

export function buildPaidSetup(payer: Payer): Setup {
  const setup: Setup = {
    models: MODELS,
    faulty: FAULTY,
    users: USERS,
    groups: [
      { name: "default", billing: { charge: payer, multiplier: "1.3" }, on_disconnect: "cancel" },
      { name: "drain", billing: { charge: payer }, on_disconnect: "drain" },
      { name: "unpaid", billing: { charge: "none" } },
    ],
    groupOf: (user) => (isUnpaid(user) ? "unpaid" : user % 2 === 0 ? "default" : "drain"),
  };
  if (payer === "balance") return { ...setup, balance: "5000.00" };
  const windows = [
    { per: "day", usd: "5000.00" },
    { per: "week", usd: "20000.00", counted: "rolling" },
  ];
  return { ...setup, plans: [{ name: "pro", windows }], subscriptions: [{ plan: "pro" }] };
}

async function killAgainAndAgain(
  { times, store, say }: FaultOptions,
  payer: Payer,
  usual: number,
): Promise<Finding[]> {
  const kills = times ?? usual;
  const rig = await openRig(store, (url) => fileWith(buildPaidSetup(payer), url));
  const all: Reconciled[] = [];
  const unsettled: string[] = [];
  const audits: Promise<void>[] = [];
  const badAudits: string[] = [];
  const restarts: number[] = [];
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
      const traffic = startTraffic(rig.url(), USER_KEYS, PER_SECOND);
      await Bun.sleep(lifeMs);
      // Settlements are then kept on disk, and their clients told the end: the successor has to find them there.
      const hangs = store === "postgres" && kill % STORE_HANGS_EVERY === 0;
      const killedMs = hangs ? await rig.whileStoreHangs(STORE_HANGS_MS, rig.kill) : await rig.kill();
      underLoadMs += killedMs - beganMs;
      const answers = await traffic.stop();
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
        asked: answers,
        rows,
        truth,
        tariffs: await tariffsOf(rig),
        unpaidKeys,
        killedMs: hangs ? null : killedMs,
      });
      all.push(one);
      asked += one.asked;
      const wrong = listWrong(one).length;
      if (wrong > 0 || kill % 10 === 0 || kills <= 10)
        say(
          `kill ${kill}/${kills} after ${(lifeMs / 1000).toFixed(1)} s: ${one.asked} asked, ${one.rows} rows, ${one.recovered} recovered, ${wrong} wrong`,
        );
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
      told("store / kills", `${store} / ${kills}`),
      checked(
        "requests a second under load",
        rate.toFixed(0),
        `${PER_SECOND_LEAST} or more`,
        rate >= PER_SECOND_LEAST,
      ),
      told("restart to ready, median / slowest", milliseconds(restarts)),
      ...summarize(all),
      ...(store === "postgres" ? [replays(replayed, kills)] : []),
      told("ended before the kill, and booked from the journal by the successor", fromJournals),
      none("holds still open after recovery", unsettled),
      none("audits that found a contradiction", badAudits),
      ...(await checkBooks(rig, payer)),
    ];
  } finally {
    await rig.stop();
  }
}

export const MUST_NOT: readonly (readonly [keyof Reconciled, string])[] = [
  ["terminalWithoutRow", "client saw the end, and there is no row"],
  ["terminalBeforeRow", "client saw the end before it was booked"],
  ["producedWithoutRow", "upstream worked, and there is no row"],
  ["chargedWithoutUpstream", "charged, and no upstream worked"],
  ["rowTwice", "recorded twice"],
  ["wrongTokens", "completed with other tokens than were produced"],
  ["chargedAboveTruth", "charged for more output than was produced"],
  ["wrongCost", "cost or charge not by the tariff"],
];

export function listed(one: Reconciled, name: keyof Reconciled): string[] {
  const value = one[name];
  return Array.isArray(value) ? value.map(String) : [];
}

/** Everything that must not happen and did, in words. */
export function listWrong(one: Reconciled): string[] {
  return MUST_NOT.flatMap(([name, what]) => listed(one, name).map((request) => `${what}: ${request}`));
}

export function summarize(all: readonly Reconciled[]): Finding[] {
  const sum = (of: (one: Reconciled) => number) => all.reduce((total, one) => total + of(one), 0);
  const seconds = all.flatMap(({ unchargedSeconds }) => unchargedSeconds).sort((a, b) => a - b);
  const mean = seconds.reduce((total, one) => total + one, 0) / Math.max(1, seconds.length);
  const most = seconds.at(-1) ?? 0;
  const p99 = quantile(seconds, 0.99);
  const charged = sum(({ recoveredOutput }) => recoveredOutput.charged);
  const produced = sum(({ recoveredOutput }) => recoveredOutput.produced);
  const above = sum(({ recoveredOutput }) => recoveredOutput.above);
  return [
    told(
      "client: asked / saw the end / left / cut by the kill",
      [sum((o) => o.asked), sum((o) => o.whole), sum((o) => o.left), sum((o) => o.cutByKill)].join(" / "),
    ),
    told(
      "of those that saw the end, nobody pays for",
      sum((o) => o.unpaidWhole),
    ),
    told("gateway: rows / of these recovered", `${sum((o) => o.rows)} / ${sum((o) => o.recovered)}`),
    told(
      "simulator: requests reached",
      sum((o) => o.reached),
    ),
    told(
      "completed, and to the token as the simulator produced it",
      sum((o) => o.exact),
    ),
    ...MUST_NOT.map(([name, what]) =>
      none(
        what,
        all.flatMap((one) => listed(one, name)),
      ),
    ),
    told("streams in flight when killed, and recovered", seconds.length),
    told(
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
    told("recovered streams: output charged / produced, tokens", `${charged} / ${produced}`),
    checked(
      "recovered streams: charged above what was produced, tokens",
      above,
      "at most 1 % of it",
      above <= produced / 100,
    ),
    told(
      "delivered and not charged, tokens in all",
      sum((o) => o.unchargedTokens),
    ),
  ];
}

export async function tariffsOf({ db }: Pick<Rig, "db">): Promise<Map<string, Tariff>> {
  const rows = await db.sql`SELECT id, terms FROM tariff`;
  return new Map(rows.map((row) => [text(row, "id"), buildTariff(text(row, "terms"))]));
}

/** Computed here from rows and entries alone, without the audit's own questions. */
export async function checkBooks(rig: Pick<Rig, "db">, payer: Payer): Promise<Finding[]> {
  const one = async (question: string) => {
    const [row] = await rig.db.sql.text(`SELECT CAST(COALESCE(${question}, 0) AS TEXT) AS n`, []);
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
    told("charged in all, nano-dollars", charged),
    checked("sum of the charges and corrections", entries, `${charged}`, entries === charged),
  ];
  if (payer === "balance") {
    const opening = await one("(SELECT SUM(amount_nano) FROM entry WHERE kind = 'opening')");
    const left = await one("(SELECT SUM(balance_nano) FROM wallet)");
    const held = await one("(SELECT SUM(held_nano) FROM wallet)");
    findings.push(
      checked(
        "opening balances",
        opening,
        `${5_000n * 1_000_000_000n * BigInt(USERS)}`,
        opening === 5_000n * 1_000_000_000n * BigInt(USERS),
      ),
      checked("balances at the end", left, `${opening - charged}`, left === opening - charged),
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

/** Of a number that is told with an event. */
function loggedSum(log: string, event: string, field: string): number {
  const lines = log.split("\n").filter((line) => line.includes(event));
  const told = new RegExp(`"${field}":(\\d+)`);
  return lines.reduce((sum, line) => sum + Number(told.exec(line)?.[1] ?? 0), 0);
}

function replays(replayed: number, kills: number): Finding {
  const what = "kept on disk while the store hung, and booked by the successor";
  return kills < STORE_HANGS_EVERY ? told(what, replayed) : checked(what, replayed, "some", replayed > 0);
}

function milliseconds(times: readonly number[]): string {
  const sorted = [...times].sort((a, b) => a - b);
  return `${quantile(sorted, 0.5).toFixed(0)} ms / ${(sorted.at(-1) ?? 0).toFixed(0)} ms`;
}
