/** Many clients on several nodes, on a balance that pays for few of their requests. */

import { buildTariff, computeTariffCost, NOTHING_USED } from "../../src/money/tariff.ts";
import { nano, text } from "../../src/store/engine/row.ts";
import { readTerms } from "../../src/store/money/tariffs.ts";
import { type Asked, askAs } from "./client.ts";
import { checked, type Fault, none, told } from "./fault.ts";
import { NodeCluster } from "./node-cluster.ts";
import { fileWith, keyOf } from "./setup.ts";

const CLIENTS = 300;
const ROUNDS = 3;
const CENT = 10_000_000n;

export const nodesLastCent: Fault = {
  name: "nodes-lastcent",
  promise: "300 clients on all nodes share a wallet of one cent: nothing is overspent",
  async run({ times, nodes, say }) {
    const setup = {
      models: { talk: "sim-fast@events=20,interval=10ms", long: "sim-fast@bytes=3000" },
      users: 1,
      balance: "0.01",
      groups: [{ name: "default", billing: { charge: "balance" } }],
    };
    const cluster = await NodeCluster.start({ nodes, buildFile: (url) => fileWith(setup, url) });
    try {
      const answers: Asked[] = [];
      for (let round = 1; round <= (times ?? ROUNDS); round += 1) {
        const ofRound = await sendRound(cluster, round);
        answers.push(...ofRound);
        say(`round ${round}: ${ofRound.filter(({ status }) => status === 200).length} of ${CLIENTS} served`);
      }
      const truth = await cluster.readTruth();
      await cluster.stopNodes();
      const rows = await cluster.readRows();
      const [wallet] = await cluster.db.sql`
        SELECT CAST(balance_nano AS TEXT) AS balance, CAST(held_nano AS TEXT) AS held FROM wallet`;
      if (wallet === undefined) throw new Error("there is no wallet");
      const balance = nano(wallet, "balance");
      const charged = rows.reduce((sum, row) => sum + row.chargedNano, 0n);
      const tariffId = rows.find((row) => row.tariffId !== null)?.tariffId ?? "";
      const tariff = buildTariff((await readTerms(cluster.db, tariffId)) ?? "");
      const produced = truth.reduce(
        (sum, { inputTokens, outputTokens }) =>
          sum + computeTariffCost(tariff, { ...NOTHING_USED, inputTokens, outputTokens }),
        0n,
      );
      const served = answers.filter(({ status }) => status === 200);
      const rejected = answers.filter(({ status }) => status !== 200);
      const audit = await cluster.audit();
      return [
        told(
          "nodes / sent / served / rejected",
          [nodes, answers.length, served.length, rejected.length].join(" / "),
        ),
        checked("charged, nano-dollars", charged, `at most ${CENT}`, charged > 0n && charged <= CENT),
        checked("balance left", balance, `${CENT - charged}, not negative`, balance === CENT - charged),
        checked("held at the end", text(wallet, "held"), "0", nano(wallet, "held") === 0n),
        checked(
          "overspent: produced upstream above the cent",
          excess(produced),
          "0",
          excess(produced) === 0n,
        ),
        checked("produced and not charged", produced - charged, "0", produced === charged),
        none(
          "rejections that are no 429 insufficient_quota",
          rejected
            .filter(({ status, errorCode }) => status !== 429 || errorCode !== "insufficient_quota")
            .map(({ status, errorCode }) => `${status} ${errorCode}`),
        ),
        none(
          "served without its end",
          served.filter(({ isWhole }) => !isWhole).map(({ requestId }) => `${requestId}`),
        ),
        checked("audit", audit.output.trim(), "clean", audit.code === 0),
      ];
    } finally {
      await cluster.stop();
    }
  },
};

const excess = (produced: bigint): bigint => (produced > CENT ? produced - CENT : 0n);

function sendRound(cluster: NodeCluster, round: number): Promise<Asked[]> {
  const { nextUrl } = cluster;
  return Promise.all(
    Array.from({ length: CLIENTS }, (_, i) =>
      askAs({
        url: nextUrl(),
        key: keyOf(0),
        family: i % 2 === 0 ? "chat" : "responses",
        model: i % 3 === 0 ? "long" : "talk",
        stream: i % 4 < 2,
        prompt: `Round ${round}, question ${i}: what does a cent buy?`,
        // Without a maximum a request holds the whole balance: a few of them, and not the first.
        more: i % 50 === 49 ? {} : i % 2 === 0 ? { max_tokens: 24 } : { max_output_tokens: 24 },
      }),
    ),
  );
}
