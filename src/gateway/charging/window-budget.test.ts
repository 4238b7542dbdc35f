import { describe, expect, test } from "bun:test";
import { makeTariff } from "../../money/tariff.ts";
import type { PublishedModel } from "../../policy/snapshot.ts";
import type { EndpointName } from "../../protocols/shared/endpoint.ts";
import { lookUpEndpoint, MODEL, makeRequest } from "./charging.test-support.ts";
import { forecastBudget, likelyCost, outputCapWithin, reserveWithin } from "./window-budget.ts";

const INPUT_TOKENS = 40;
const INPUT_NANO = 80n;
const outputNano = (tokens: number) => 4n * BigInt(tokens);

function budgetFor(name: EndpointName, fields = {}, model: Partial<PublishedModel> = {}) {
  const input = {
    endpoint: lookUpEndpoint(name),
    request: makeRequest(name, fields),
    model: { ...MODEL, ...model },
    windowCap: null,
  };
  const budget = forecastBudget({ estimate: () => INPUT_TOKENS }, input);
  if (budget === null) throw new Error("there is no budget");
  return budget;
}

describe("the reservation in USD windows", () => {
  test("covers the input and the longest output that the client or the model allows", () => {
    const plenty = Number.POSITIVE_INFINITY;
    const reserved = (fields: object) => {
      const budget = budgetFor("chat.completions", fields);
      return [reserveWithin(budget, plenty), outputCapWithin(budget, reserveWithin(budget, plenty))];
    };
    expect(reserved({})).toEqual([INPUT_NANO + outputNano(1_000), null]);
    expect(reserved({ max_tokens: 20, n: 2 })).toEqual([INPUT_NANO + outputNano(40), null]);
    expect(reserved({ max_tokens: 5_000 })).toEqual([INPUT_NANO + outputNano(1_000), null]);
  });

  test("is what the window has left if that covers a minimal output, which is then capped", () => {
    const budget = budgetFor("chat.completions", { n: 2 });
    const rest = INPUT_NANO + outputNano(101);
    expect(reserveWithin(budget, Number(rest))).toBe(rest);
    expect(outputCapWithin(budget, rest)).toBe(50);
  });

  test("is the cost of a minimal output if less is left, so that the limiter rejects it", () => {
    const budget = budgetFor("chat.completions");
    expect(reserveWithin(budget, 100)).toBe(INPUT_NANO + outputNano(16));
    expect(reserveWithin(budget, 0)).toBe(INPUT_NANO + outputNano(16));
  });

  test("falls back to the cost of a typical output if the true cost is unknown", () => {
    expect(likelyCost(budgetFor("chat.completions"))).toBe(INPUT_NANO + outputNano(500));
    expect(likelyCost(budgetFor("chat.completions", { max_tokens: 20, n: 2 }))).toBe(
      INPUT_NANO + outputNano(40),
    );
  });

  test("is the full price if the output cannot be capped, and absent without a price", () => {
    const tariff = makeTariff({ image: "0.01" });
    const pictures = budgetFor("images.generations", { n: 2 }, { tariff });
    expect(reserveWithin(pictures, 5_000_000)).toBe(20_000_000n);
    expect(outputCapWithin(pictures, 20_000_000n)).toBeNull();
    expect(reserveWithin(budgetFor("embeddings"), 1)).toBe(INPUT_NANO);
    expect(() => budgetFor("chat.completions", {}, { tariff: null })).toThrow("no budget");
  });
});
