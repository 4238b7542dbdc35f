import { expect, test } from "bun:test";
import { policyAccount } from "../../accounts/account.test-support.ts";
import { upstreamFailure } from "../../accounts/failure.ts";
import { makeUsage } from "../charging/charging.test-support.ts";
import { AttemptTrace, UNCHANGED } from "./attempt-trace.ts";

const ROUTE = { account: policyAccount("a1"), upstreamModel: "m", translation: null };

function begin(changes = UNCHANGED): AttemptTrace {
  return new AttemptTrace(1_000, { route: ROUTE, changes, nowMs: 1_010 });
}

test("an attempt begins, responds and serves", () => {
  const attempt = begin();
  expect([attempt.phase, attempt.latencyMs, attempt.toRecord().status]).toEqual(["begun", 0, null]);
  attempt.recordFirstByte("req_up", 1_035);
  expect([attempt.phase, attempt.latencyMs, attempt.toRecord().status]).toEqual(["responding", 25, 200]);
  attempt.serve();
  expect([attempt.phase, attempt.firstByteMs, attempt.upstreamRequestId]).toEqual(["served", 35, "req_up"]);
  expect([attempt.failure, attempt.endedMs, attempt.wastedUsage]).toEqual([null, null, null]);
});

test("a failed attempt keeps its first byte and its usage, and stays failed", () => {
  const attempt = begin();
  attempt.recordFirstByte("req_up", 1_035);
  const usage = makeUsage({ input_tokens: 100, output_tokens: 10 });
  attempt.fail({ ...upstreamFailure("bad_answer", "not a response", 200), usage }, 1_050);
  attempt.serve();
  attempt.recordFirstByte("req_other", 1_060);
  expect(attempt.phase).toBe("failed");
  expect(attempt.toRecord()).toMatchObject({ firstByteMs: 35, endedMs: 50, status: 200, usage });
  expect(attempt.upstreamRequestId).toBe("req_up");
});

test("the record of an attempt names what was changed and dropped for its account", () => {
  const attempt = begin({ dialect: "messages", dropped: ["seed"], isStateDropped: true });
  attempt.addDropped(["logprobs"]);
  expect(attempt.toRecord()).toMatchObject({
    translation: "messages",
    dropped: ["seed", "logprobs"],
    stateDropped: true,
  });
  expect(Object.keys(begin().toRecord())).not.toContain("dropped");
});
