/** Computes the examples of the pages about money again. */

import { expect, test } from "bun:test";
import { resolve } from "node:path";
import { parse } from "yaml";
import { applyCharge, holdFromWallet } from "../../src/billing/engine/debt.ts";
import { parseUsd, usdText } from "../../src/money/nano.ts";
import { computeTariffCost, makeTariff, NOTHING_USED } from "../../src/money/tariff.ts";

const DOCS = resolve(import.meta.dir, "../../docs");
const [billing = "", disconnects = "", wallets = ""] = await Promise.all(
  ["billing", "disconnects", "wallets"].map((page) => Bun.file(resolve(DOCS, `${page}.md`)).text()),
);
const ROW = /^\| (?:[^|`]+ \| )?`(\{.*?\})` \| `([\d.]+)` \| `(\{.*?\})` \| \$([\d.]+) \|$/gm;
const examples = [...`${billing}\n${disconnects}`.matchAll(ROW)].map(
  ([, price = "", times = "", used = "", cost = ""]) => [price, times, used, cost],
);

test("docs/billing.md and docs/disconnects.md contain cost examples", () => {
  expect(examples.length).toBe(15);
});

test.each(examples)("%s times %s for %s", (price = "", group = "", used = "", cost = "") => {
  const { input, cached, output, reasoning, images, kind } = parse(used);
  const metered = {
    ...NOTHING_USED,
    inputTokens: input ?? 0,
    cachedTokens: cached ?? 0,
    outputTokens: output ?? 0,
    reasoningTokens: reasoning ?? 0,
    images: images ?? 0,
    imageKind: kind ?? null,
  };
  expect(usdText(computeTariffCost(makeTariff(parse(price), { group }), metered))).toBe(cost);
});

const HOLD_ROW = /^\| `(-?[\d.]+)` \| `([\d.]+)` \| (\$[\d.]+|nothing[^|]*) \|$/gm;
const holds = [...wallets.matchAll(HOLD_ROW)].map(([, balance = "", others = "", held = ""]) => [
  balance,
  others,
  held,
]);

/** The request of that table: minimum, upper estimate and maximum. */
const REQUEST = {
  leastNano: parseUsd("0.001"),
  firmNano: parseUsd("0.32"),
  wantedNano: parseUsd("0.40"),
};

test.each(holds)(
  "of %s, with %s held for others, a file request holds %s",
  (balance = "", others = "", held = "") => {
    const [balanceNano, heldNano] = [parseUsd(balance), parseUsd(others)];
    const debtNano = balanceNano < heldNano ? heldNano - balanceNano : 0n;
    const result = holdFromWallet({ balanceNano, heldNano, debtNano }, REQUEST);
    const expected =
      result.kind === "held"
        ? `$${usdText(result.amountNano)}`
        : result.kind === "blocked"
          ? "nothing: it waits for the others, then it is rejected"
          : result.kind === "in_debt"
            ? `nothing: rejected until $${usdText(result.debtNano)} is paid in`
            : "nothing: rejected";
    expect(expected).toBe(held);
  },
);

const END_ROW =
  /^\| `(-?[\d.]+)` \| `([\d.]+)` \| `([\d.]+)` \| `([\d.]+)` \| (-?)\$([\d.]+) \| \$([\d.]+) \|$/gm;
const ends = [...wallets.matchAll(END_ROW)].map(([, ...columns]) => columns);

test.each(ends)(
  "of %s, with %s held for others, %s held and %s charged leave %s%s and a debt of %s",
  (...columns) => {
    const [balance = "", others = "", hold = "", cost = "", sign = "", after = "", debt = ""] = columns;
    const [balanceNano, holdNano] = [parseUsd(balance), parseUsd(hold)];
    const heldNano = parseUsd(others) + holdNano;
    const debtNano = balanceNano < heldNano ? heldNano - balanceNano : 0n;
    const wallet = applyCharge({ balanceNano, heldNano, debtNano }, holdNano, parseUsd(cost));
    expect([usdText(wallet.balanceNano), usdText(wallet.debtNano)]).toEqual([`${sign}${after}`, debt]);
  },
);

test("docs/wallets.md contains examples of holds and of debts", () => {
  expect([holds.length, ends.length]).toEqual([6, 5]);
});
