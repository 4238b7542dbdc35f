import { describe, expect, test } from "bun:test";
import { openRetryBudget, type Retries, type RetryBudget } from "./retry-budget.ts";

const openMany = (budget: RetryBudget, count: number) => Array.from({ length: count }, () => budget.open());
const allowed = (requests: readonly Retries[]) => requests.filter((request) => request.mayRetry()).length;

describe("the retry budget", () => {
  test("allows every request one failover, with no limit on their number", () => {
    expect(allowed(openMany(openRetryBudget(), 500))).toBe(500);
  });

  test("allows a fifth of the requests in flight a third account", () => {
    const requests = openMany(openRetryBudget(), 500);
    allowed(requests);
    expect(allowed(requests)).toBe(100);
  });

  test("allows at least ten requests a third account", () => {
    const requests = openMany(openRetryBudget(), 30);
    allowed(requests);
    expect(allowed(requests)).toBe(10);
  });

  test("counts a request once, independent of its retries", () => {
    const [first, ...others] = openMany(openRetryBudget(), 11);
    for (let i = 0; i < 5; i++) expect(first?.mayRetry()).toBe(true);
    allowed(others);
    expect(allowed(others)).toBe(9);
  });

  test("frees the share of a request when it ends", () => {
    const budget = openRetryBudget();
    const requests = openMany(budget, 10);
    allowed(requests);
    allowed(requests);
    const [next] = openMany(budget, 1);
    next?.mayRetry();
    expect(next?.mayRetry()).toBe(false);
    requests[0]?.close();
    expect(next?.mayRetry()).toBe(true);
  });
});
