/** Many at once on a balance that pays for few of them. */

import { buildTariff, computeTariffCost, NOTHING_USED } from "../../src/money/tariff.ts";
import { nano, text } from "../../src/store/engine/row.ts";
import { readTerms } from "../../src/store/money/tariffs.ts";
import { type ClientRecord, sendRequest } from "./client.ts";
import { checked, type Fault, type FaultOptions, type Finding, figure, none } from "./fault.ts";
import { openRig, type Rig, readMarker } from "./killable-gateway.ts";
import { NodeCluster } from "./node-cluster.ts";
import { buildConfiguration, buildKey, type Setup } from "./setup.ts";

const ROUNDS = 4;
const CENT = 10_000_000n;

const SETUP: Setup = {
  models: { talk: "sim-fast@events=20,interval=10ms", long: "sim-fast@bytes=3000" },
  users: 1,
  balance: "0.01",
  groups: [{ name: "default", billing: { charge: "balance" } }],
};

export const oneCent: Fault = {
  name: "onecent",
  promise: "200 requests at once on a balance of one cent overspend nothing",
  async run(options) {
    const rig = await openRig(options.store, (url) => buildConfiguration(SETUP, url));
    return spendOneCent(options, rig, 200);
  },
};

export const oneCentOnNodes: Fault = {
  name: "nodes-lastcent",
  promise: "300 requests at once on all nodes and a balance of one cent overspend nothing",
  async run(options) {
    const { nodes, withRedis } = options;
    const buildFile = (url: string) => buildConfiguration(SETUP, url);
    const cluster = await NodeCluster.start({ nodes, withRedis, buildFile });
    return spendOneCent(options, cluster, 300);
  },
};

type Target = Pick<Rig, "url" | "db" | "takeTruth" | "end" | "rows" | "audit" | "stop">;

/** `atOnce`: requests in one round. */
async function spendOneCent(options: FaultOptions, target: Target, atOnce: number): Promise<Finding[]> {
  try {
    return await checkOneCent(target, await sendRounds(options, target, atOnce));
  } finally {
    await target.stop();
  }
}

async function sendRounds(
  { times, say }: FaultOptions,
  target: Target,
  atOnce: number,
): Promise<ClientRecord[]> {
  const asked: ClientRecord[] = [];
  for (let round = 1; round <= (times ?? ROUNDS); round++) {
    const responses = await Promise.all(
      Array.from({ length: atOnce }, (_, i) =>
        sendRequest({
          url: target.url(),
          key: buildKey(0),
          family: i % 2 === 0 ? "chat" : "responses",
          model: i % 3 === 0 ? "long" : "talk",
          stream: i % 4 < 2,
          prompt: `Round ${round}, question ${i}: what does a cent buy?`,
          // Without a maximum a request holds the whole balance: a few of them, and not the first.
          more: i % 50 === 49 ? {} : i % 2 === 0 ? { max_tokens: 24 } : { max_output_tokens: 24 },
        }),
      ),
    );
    asked.push(...responses);
    const served = responses.filter(({ status }) => status === 200).length;
    say(`round ${round}: ${served} of ${atOnce} served`);
  }
  return asked;
}

async function checkOneCent(target: Target, asked: readonly ClientRecord[]): Promise<Finding[]> {
  const truth = await target.takeTruth();
  await target.end();
  const rows = await target.rows(0);
  const [wallet] = await target.db.sql`
        SELECT CAST(balance_nano AS TEXT) AS balance, CAST(held_nano AS TEXT) AS held FROM wallet`;
  if (wallet === undefined) throw new Error("there is no wallet");
  const balance = nano(wallet, "balance");
  const charged = rows.reduce((sum, row) => sum + row.chargedNano, 0n);
  const terms = await readTerms(target.db, rows.find(({ tariffId }) => tariffId !== null)?.tariffId ?? "");
  const tariff = buildTariff(terms ?? "");
  const produced = truth.reduce(
    (sum, { inputTokens, outputTokens }) =>
      sum + computeTariffCost(tariff, { ...NOTHING_USED, inputTokens, outputTokens }),
    0n,
  );
  const served = asked.filter(({ status }) => status === 200);
  const refused = asked.filter(({ status }) => status !== 200);
  const reached = new Set(truth.map(readMarker));
  const audit = await target.audit();
  return [
    figure("asked / served / refused", `${asked.length} / ${served.length} / ${refused.length}`),
    figure("answers bounded to what was left", rows.filter(({ flags }) => flags.includes("capped")).length),
    checked("charged, nano-dollars", charged, `at most ${CENT}`, charged > 0n && charged <= CENT),
    checked("balance left", balance, `${CENT - charged}, not negative`, balance === CENT - charged),
    checked("held at the end", text(wallet, "held"), "0", nano(wallet, "held") === 0n),
    checked("produced upstream", produced, `at most ${CENT}`, produced <= CENT),
    checked("produced and not charged", produced - charged, "0", produced === charged),
    none(
      "refusals that are no 429 insufficient_quota with x-should-retry: false",
      refused
        .filter(
          ({ status, errorCode, headers }) =>
            status !== 429 ||
            errorCode !== "insufficient_quota" ||
            headers?.get("x-should-retry") !== "false",
        )
        .map(({ status, errorCode }) => `${status} ${errorCode}`),
    ),
    none(
      "refused and yet sent upstream",
      refused.filter(({ marker }) => reached.has(marker)).map(({ marker }) => marker),
    ),
    none(
      "served without its end",
      served.filter(({ isWhole }) => !isWhole).map(({ requestId }) => `${requestId}`),
    ),
    checked("audit", audit.output.trim(), "the books agree", audit.code === 0),
  ];
}
