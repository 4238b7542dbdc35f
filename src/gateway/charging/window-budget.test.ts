import { describe, expect, test } from "bun:test";
import { makeTariff } from "../../money/tariff.ts";
import type { PublishedModel } from "../../policy/snapshot.ts";
import type { EndpointName } from "../../protocols/shared/endpoint.ts";
import { lookUpEndpoint, MODEL, makeCaller, makeRequest } from "./charging.test-support.ts";
import {
  forecastBudget,
  likelyCost,
  outputCapWithin,
  reserveWithin,
  searchesWithin,
} from "./window-budget.ts";

const INPUT_TOKENS = 40;
const INPUT_NANO = 80n;
const outputNano = (tokens: number) => 4n * BigInt(tokens);

function budgetFor(name: EndpointName, fields = {}, model: Partial<PublishedModel> = {}) {
  const input = {
    caller: makeCaller("none"),
    endpoint: lookUpEndpoint(name),
    request: makeRequest(name, fields),
    model: { ...MODEL, ...model },
    windowCap: null,
    windowSearches: null,
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

  test("covers web searches: a window that has less left affords fewer of them", () => {
    const tariff = makeTariff({ input: "0", output: "0.1", per_call: { web_search: "0.000001" } });
    const tools = [{ type: "web_search" }];
    const budget = budgetFor("responses", { tools }, { tariff, outputTokensMax: 100 });
    expect(budget.wantedNano).toBe(20_000n);
    expect(searchesWithin(budget, 20_000n)).toBe(10);
    expect(reserveWithin(budget, 11_300)).toBe(11_300n);
    expect(searchesWithin(budget, 11_300n)).toBe(5);
    expect(outputCapWithin(budget, 11_300n)).toBe(63);
    // One search and the shortest output: the limiter rejects the request.
    expect(reserveWithin(budget, 2_599)).toBe(2_600n);
  });
});
