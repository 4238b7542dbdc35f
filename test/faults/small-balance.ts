/** Many at once on a balance that pays for few of them. */

import { buildTariff, computeTariffCost, NOTHING_USED } from "../../src/money/tariff.ts";
import { nano, text } from "../../src/store/engine/row.ts";
import { readTerms } from "../../src/store/money/tariffs.ts";
import { type Asked, askAs } from "./client.ts";
import { checked, type Fault, none, told } from "./fault.ts";
import { markerOf, openRig } from "./killable-gateway.ts";
import { fileWith, keyOf } from "./setup.ts";

const AT_ONCE = 200;
const ROUNDS = 4;
const CENT = 10_000_000n;

export const oneCent: Fault = {
  name: "onecent",
  promise: "200 requests at once on a balance of one cent overspend nothing",
  async run({ times, store, say }) {
    const rig = await openRig(store, (url) =>
      fileWith(
        {
          models: { talk: "sim-fast@events=20,interval=10ms", long: "sim-fast@bytes=3000" },
          users: 1,
          balance: "0.01",
          groups: [{ name: "default", billing: { charge: "balance" } }],
        },
        url,
      ),
    );
    try {
      const asked: Asked[] = [];
      for (let round = 1; round <= (times ?? ROUNDS); round++) {
        const answers = await Promise.all(
          Array.from({ length: AT_ONCE }, (_, i) =>
            askAs({
              url: rig.url(),
              key: keyOf(0),
              family: i % 2 === 0 ? "chat" : "responses",
              model: i % 3 === 0 ? "long" : "talk",
              stream: i % 4 < 2,
              prompt: `Round ${round}, question ${i}: what does a cent buy?`,
              // Who names no bound holds all there is: a few of them, and not the first.
              more: i % 50 === 49 ? {} : i % 2 === 0 ? { max_tokens: 24 } : { max_output_tokens: 24 },
            }),
          ),
        );
        asked.push(...answers);
        const served = answers.filter(({ status }) => status === 200).length;
        say(`round ${round}: ${served} of ${AT_ONCE} served`);
      }
      const truth = await rig.takeTruth();
      await rig.end();
      const rows = await rig.rows(0);
      const [wallet] = await rig.db.sql`
        SELECT CAST(balance_nano AS TEXT) AS balance, CAST(held_nano AS TEXT) AS held FROM wallet`;
      if (wallet === undefined) throw new Error("there is no wallet");
      const balance = nano(wallet, "balance");
      const charged = rows.reduce((sum, row) => sum + row.chargedNano, 0n);
      const terms = await readTerms(rig.db, rows.find(({ tariffId }) => tariffId !== null)?.tariffId ?? "");
      const tariff = buildTariff(terms ?? "");
      const produced = truth.reduce(
        (sum, { inputTokens, outputTokens }) =>
          sum + computeTariffCost(tariff, { ...NOTHING_USED, inputTokens, outputTokens }),
        0n,
      );
      const served = asked.filter(({ status }) => status === 200);
      const refused = asked.filter(({ status }) => status !== 200);
      const reached = new Set(truth.map(markerOf));
      const audit = await rig.audit();
      return [
        told("asked / served / refused", `${asked.length} / ${served.length} / ${refused.length}`),
        told("answers bounded to what was left", rows.filter(({ flags }) => flags.includes("capped")).length),
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
    } finally {
      await rig.stop();
    }
  },
};
