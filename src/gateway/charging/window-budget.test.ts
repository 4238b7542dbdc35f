import { describe, expect, test } from "bun:test";
import { makeTariff } from "../../money/tariff.ts";
import type { PublishedModel } from "../../policy/snapshot.ts";
import type { EndpointName } from "../../protocols/shared/request.ts";
import { endpointOf, MODEL, requestOf } from "./paying.test-support.ts";
import { forecastBudget, likelyCost, outputCapWithin, reserveWithin } from "./window-budget.ts";

const INPUT_TOKENS = 40;
const INPUT_NANO = 80n;
const outputNano = (tokens: number) => 4n * BigInt(tokens);

function budgetFor(name: EndpointName, fields = {}, model: Partial<PublishedModel> = {}) {
  const question = {
    endpoint: endpointOf(name),
    request: requestOf(name, fields),
    model: { ...MODEL, ...model },
  };
  const budget = forecastBudget({ estimate: () => INPUT_TOKENS }, question);
  if (budget === null) throw new Error("there is no budget");
  return budget;
}

describe("what a request reserves in windows of money", () => {
  test("is its input and the longest answer that its client or its model allows", () => {
    const plenty = Number.POSITIVE_INFINITY;
    const reserved = (fields: object) => {
      const budget = budgetFor("chat.completions", fields);
      return [reserveWithin(budget, plenty), outputCapWithin(budget, reserveWithin(budget, plenty))];
    };
    expect(reserved({})).toEqual([INPUT_NANO + outputNano(1_000), null]);
    expect(reserved({ max_tokens: 20, n: 2 })).toEqual([INPUT_NANO + outputNano(40), null]);
    expect(reserved({ max_tokens: 5_000 })).toEqual([INPUT_NANO + outputNano(1_000), null]);
  });

  test("is what a window has left, where that buys the shortest answer: then the answer is bounded to it", () => {
    const budget = budgetFor("chat.completions", { n: 2 });
    const rest = INPUT_NANO + outputNano(101);
    expect(reserveWithin(budget, Number(rest))).toBe(rest);
    expect(outputCapWithin(budget, rest)).toBe(50);
  });

  test("is the shortest answer where less is left, which the limiter refuses", () => {
    const budget = budgetFor("chat.completions");
    expect(reserveWithin(budget, 100)).toBe(INPUT_NANO + outputNano(16));
    expect(reserveWithin(budget, 0)).toBe(INPUT_NANO + outputNano(16));
  });

  test("stays for an ordinary answer where nobody can say what it cost", () => {
    expect(likelyCost(budgetFor("chat.completions"))).toBe(INPUT_NANO + outputNano(500));
    expect(likelyCost(budgetFor("chat.completions", { max_tokens: 20, n: 2 }))).toBe(
      INPUT_NANO + outputNano(40),
    );
  });

  test("is the whole price of what cannot be bounded, and nothing where there is no price", () => {
    const tariff = makeTariff({ image: "0.01" });
    const pictures = budgetFor("images.generations", { n: 2 }, { tariff });
    expect(reserveWithin(pictures, 5_000_000)).toBe(20_000_000n);
    expect(outputCapWithin(pictures, 20_000_000n)).toBeNull();
    expect(reserveWithin(budgetFor("embeddings"), 1)).toBe(INPUT_NANO);
    expect(() => budgetFor("chat.completions", {}, { tariff: null })).toThrow("no budget");
  });
});
