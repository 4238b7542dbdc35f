/**
 * Users who try to get responses below their price, at random and all at once, among honest traffic: by parking their
 * balance while files are read, by leaving streams before their end, by reading stored streams later, and by parallel
 * requests on a small window of money. What the simulator says it produced, times the price, is what has to be charged.
 *
 *     npm run faults -- --only fraud --scenarios parking,windows --times 3
 */

import type { LedgerEntry } from "../../simulator/ledger.ts";
import { buildTariff, computeTariffCost, NOTHING_USED, type Tariff } from "../../src/money/tariff.ts";
import { nano, text } from "../../src/store/engine/row.ts";
import { readTerms } from "../../src/store/money/tariffs.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import { type ClientRecord, sendRequest } from "./client.ts";
import { checked, type Fault, type Finding, figure, none, percent } from "./fault.ts";
import { SCENARIOS, type Scenario, type Trick } from "./fraud-scenarios.ts";
import { openRig, type Rig, readMarker } from "./killable-gateway.ts";
import { buildConfiguration, buildKey, userEmail } from "./setup.ts";

const USERS_EACH = 4;
const HONEST_USERS = 2;
const ROUNDS = 6;
const BALANCE = "0.70";
const HONEST_PAUSE_MS = 40;

export const fraud: Fault = {
  name: "fraud",
  promise: "users who park, leave, read later or overshoot pay for every token that was produced",
  async run({ times, store, say, scenarios }) {
    const played = SCENARIOS.filter(({ name }) => scenarios === null || scenarios.includes(name));
    const places = played.flatMap((scenario) => Array.from({ length: USERS_EACH }, () => scenario));
    const rig = await openRig(store, (url) =>
      buildConfiguration(
        {
          models: Object.assign({ fast: "sim-fast" }, ...played.map(({ models }) => models)),
          outputTokensMax: 12_000,
          users: places.length + HONEST_USERS,
          balance: BALANCE,
          groups: [
            { name: "default", billing: { charge: "balance" } },
            ...played.map(({ name, group }) => ({ name, billing: { charge: "balance" }, ...group })),
          ],
          findGroup: (user) => places[user]?.name ?? "default",
        },
        url,
      ),
    );
    try {
      const honest = startHonestTraffic(rig, places.length);
      const tricks = await Promise.all(
        places.map(async (scenario, user) => {
          const all: Trick[] = [];
          const by = { url: rig.url(), key: buildKey(user), leave: Math.random };
          for (let round = 0; round < (times ?? ROUNDS); round++) all.push(...(await scenario.play(by)));
          return all;
        }),
      );
      say(`${tricks.flat().length} requests of ${places.length} users who cheat`);
      const honestAsked = await honest.stop();
      const truth = await rig.takeTruth();
      await rig.end();
      const books = await readBooks(rig, truth);
      const audit = await rig.audit();
      return [
        ...played.flatMap((scenario) => {
          const users = places.flatMap((one, user) => (one === scenario ? [user] : []));
          return judge(
            scenario,
            users,
            users.flatMap((user) => tricks[user] ?? []),
            books,
          );
        }),
        ...judgeHonest(honestAsked, books),
        ...judgeWallets(books),
        checked("audit", audit.output.trim(), "the books agree", audit.code === 0),
      ];
    } finally {
      await rig.stop();
    }
  },
};

interface Books {
  rows: readonly UsageRow[];
  byMarker: ReadonlyMap<string, readonly LedgerEntry[]>;
  tariff: Tariff;
  userIds: ReadonlyMap<string, string>;
  wallets: ReadonlyMap<string, { balanceNano: bigint; heldNano: bigint; debtNano: bigint }>;
}

async function readBooks(rig: Rig, truth: readonly LedgerEntry[]): Promise<Books> {
  const rows = await rig.rows(0);
  const terms = await readTerms(rig.db, rows.find(({ tariffId }) => tariffId !== null)?.tariffId ?? "");
  const users = await rig.db.sql`SELECT id, email FROM app_user`;
  const wallets = await rig.db.sql`
    SELECT user_id, CAST(balance_nano AS TEXT) AS balance_nano, CAST(held_nano AS TEXT) AS held_nano,
      CAST(debt_nano AS TEXT) AS debt_nano FROM wallet`;
  return {
    rows,
    byMarker: Map.groupBy(truth, readMarker),
    tariff: buildTariff(terms ?? ""),
    userIds: new Map(users.map((row) => [text(row, "email"), text(row, "id")])),
    wallets: new Map(
      wallets.map((row) => [
        text(row, "user_id"),
        {
          balanceNano: nano(row, "balance_nano"),
          heldNano: nano(row, "held_nano"),
          debtNano: nano(row, "debt_nano"),
        },
      ]),
    ),
  };
}

/**
 * What the upstream produced for these requests, at the group's price. The simulator counts what it streamed: of a stored
 * response that was read later, all that was read was produced.
 */
function producedNano({ byMarker, tariff }: Books, tricks: readonly Trick[]): bigint {
  let sum = 0n;
  for (const { asked, readTokens = 0 } of tricks) {
    for (const { inputTokens, cachedTokens, outputTokens: streamed } of byMarker.get(asked.marker) ?? []) {
      const outputTokens = Math.max(streamed, readTokens);
      sum += computeTariffCost(tariff, { ...NOTHING_USED, inputTokens, outputTokens, cachedTokens });
    }
  }
  return sum;
}

function chargedNano({ rows, userIds }: Books, users: readonly number[]): bigint {
  const ids = new Set(users.map((user) => userIds.get(userEmail(user)) ?? ""));
  return rows.reduce((sum, row) => sum + (ids.has(row.userId ?? "") ? row.chargedNano : 0n), 0n);
}

/** What is missing of the price, as a share of it; below zero where more was charged. */
function missingShare(produced: bigint, charged: bigint): number {
  return produced === 0n ? 0 : Number(produced - charged) / Number(produced);
}

function judge(
  { name, tolerance, windowNano }: Scenario,
  users: readonly number[],
  tricks: readonly Trick[],
  books: Books,
): Finding[] {
  const produced = producedNano(books, tricks);
  const charged = chargedNano(books, users);
  const missing = missingShare(produced, charged);
  const refused = tricks.filter(({ asked }) => asked.status !== null && asked.status !== 200);
  const reached = refused.filter(({ asked }) => books.byMarker.has(asked.marker));
  const most = users.map((user) => Number(chargedNano(books, [user]))).reduce((a, b) => Math.max(a, b), 0);
  return [
    figure(`${name}: requests / refused / left early`, counts(tricks, refused.length)),
    figure(`${name}: produced / charged, nano-dollars`, `${produced} / ${charged}`),
    checked(
      `${name}: share of the price that is missing`,
      percent(missing),
      `between ${percent(-tolerance)} and ${percent(tolerance)}`,
      Math.abs(missing) <= tolerance && charged > 0n,
    ),
    none(
      `${name}: refused and yet sent upstream`,
      reached.map(({ asked }) => `${asked.status} ${asked.errorCode}`),
    ),
    none(
      `${name}: refusals that are no 429`,
      refused
        .filter(({ asked }) => asked.status !== 429)
        .map(({ asked }) => `${asked.status} ${asked.errorCode}`),
    ),
    ...(windowNano === undefined
      ? []
      : [
          checked(
            `${name}: the most that one window of ${windowNano} was used`,
            most,
            "at most 5 % above it",
            most <= windowNano * 1.05,
          ),
        ]),
  ];
}

function counts(tricks: readonly Trick[], refused: number): string {
  const left = tricks.filter(({ asked }) => asked.leftAfterMs !== null).length;
  return `${tricks.length} / ${refused} / ${left}`;
}

function judgeHonest(asked: readonly ClientRecord[], books: Books): Finding[] {
  const byId = new Map(books.rows.map((row) => [row.requestId, row]));
  const wrong = asked.filter((one) => {
    return byId.get(one.requestId ?? "")?.chargedNano !== producedNano(books, [{ asked: one }]);
  });
  return [
    figure("honest requests meanwhile", asked.length),
    none(
      "honest requests that were refused",
      asked.filter(({ status }) => status !== 200).map(({ status, errorCode }) => `${status} ${errorCode}`),
    ),
    none(
      "honest requests that were not charged exactly",
      wrong.map(({ requestId }) => `${requestId}`),
    ),
  ];
}

function judgeWallets({ wallets }: Books): Finding[] {
  const all = [...wallets];
  const debts = all.filter(([, { debtNano }]) => debtNano > 0n);
  return [
    figure(
      "wallets in debt / owed, nano-dollars",
      `${debts.length} / ${debts.reduce((sum, [, { debtNano }]) => sum + debtNano, 0n)}`,
    ),
    none(
      "wallets with money held at the end",
      all.filter(([, { heldNano }]) => heldNano !== 0n).map(([id]) => id),
    ),
    none(
      "debts that are not what the balance lacks",
      all
        .filter(([, { balanceNano, debtNano }]) => debtNano !== (balanceNano < 0n ? -balanceNano : 0n))
        .map(([id]) => id),
    ),
  ];
}

/** Short chats, one behind the other, by users who behave. */
function startHonestTraffic(rig: Rig, firstUser: number): { stop(): Promise<ClientRecord[]> } {
  let isStopped = false;
  const asked: ClientRecord[] = [];
  const users = Array.from({ length: HONEST_USERS }, async (_, i) => {
    const by = { url: rig.url(), key: buildKey(firstUser + i), family: "chat", model: "fast" } as const;
    while (!isStopped) {
      asked.push(
        await sendRequest({ ...by, stream: false, prompt: "What is 2 + 2?", more: { max_tokens: 20 } }),
      );
      await Bun.sleep(HONEST_PAUSE_MS);
    }
  });
  return {
    async stop() {
      isStopped = true;
      await Promise.all(users);
      return asked;
    },
  };
}
