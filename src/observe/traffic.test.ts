import { expect, test } from "bun:test";
import { countTraffic, openTraffic } from "./traffic.ts";

const ENDED = {
  status: 200,
  outcome: "completed",
  fallbackStep: 1,
  inputTokens: 10,
  outputTokens: 5,
  costNano: 7n,
};

test("traffic counts requests, tokens and their cost", () => {
  const traffic = openTraffic();
  countTraffic(traffic, ENDED);
  countTraffic(traffic, {
    ...ENDED,
    status: 429,
    outcome: "refused",
    fallbackStep: null,
    inputTokens: 0,
    outputTokens: 0,
    costNano: 0n,
  });
  expect(traffic).toEqual({
    requests: 2,
    refused: 1,
    errors: 0,
    fallbacks: 1,
    inputTokens: 10,
    outputTokens: 5,
    costNano: 7,
  });
});

test.each([
  [500, "failed", 1],
  [503, "refused", 1],
  [200, "failed", 1],
  [200, "upstream_cut", 1],
  [400, "failed", 0],
  [200, "incomplete", 0],
  [499, "client_gone", 0],
])("a request with status %p and outcome %p counts as %p errors", (status, outcome, errors) => {
  const traffic = openTraffic();
  countTraffic(traffic, { ...ENDED, status, outcome });
  expect(traffic.errors).toBe(errors);
});
