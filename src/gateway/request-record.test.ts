import { describe, expect, test } from "bun:test";
import { upstreamFailure } from "../accounts/failure.ts";
import { ApiError } from "../errors.ts";
import { NO_MONEY } from "../store/usage/usage.ts";
import {
  callerWho,
  ENDING,
  endpointOf,
  ROUTE,
  requestOf,
  TARIFF,
  usageOf,
} from "./charging/paying.test-support.ts";
import { asReported } from "./metering/meter.ts";
import { beginAttempt, endWait, failAttempt, noteFirstByte, traceRecord } from "./request/trace.ts";
import { buildUsageRow, openRecord } from "./request-record.ts";

const CALL = {
  request: new Request("http://gateway.example"),
  requestId: "req_1",
  startedMs: 100,
  clientAddress: () => "",
  conversation: null,
  cutOff() {},
};

const clockAt = (nowMs: number, monotonicMs: number) => ({
  nowMs: () => nowMs,
  monotonicMs: () => monotonicMs,
});

const open = () => openRecord(CALL, endpointOf("chat.completions"));

describe("the row of a request", () => {
  test("holds who asked for what, who served it, what it used and cost, and how long it took", () => {
    const record = open();
    record.request = requestOf("chat.completions", { stream: true });
    record.trace.waitingSinceMs = 100;
    endWait(record.trace, 105);
    beginAttempt(record.trace, ROUTE, 105);
    failAttempt(record.trace, upstreamFailure("server", "status 500", 500), 105);
    beginAttempt(record.trace, ROUTE, 105);
    noteFirstByte(record.trace, "req_up", 112.4);
    const usage = usageOf({
      input_tokens: 5,
      output_tokens: 7,
      input_tokens_details: { cached_tokens: 2, cache_write_tokens: 1 },
      output_tokens_details: { reasoning_tokens: 3 },
    });
    const money = {
      costNano: 30n,
      chargedNano: 20n,
      upstreamNano: 15n,
      payer: "balance",
      tariffId: TARIFF.id,
      flags: ["overrun"],
    } as const;
    const ending = { ...ENDING, responseId: "resp_1" };
    const clock = clockAt(5_000, 350.6);
    expect(
      buildUsageRow({ ...record, caller: callerWho("balance") }, ending, asReported(usage, 2), money, clock),
    ).toEqual({
      requestId: "req_1",
      requestCount: 1,
      atMs: 5_000,
      keyId: "k1",
      userId: "u1",
      groupId: "g1",
      accountId: "a1",
      interface: "chat",
      endpoint: "chat.completions",
      publicModel: "fast",
      upstreamModel: "gpt-6",
      stream: true,
      status: 200,
      outcome: "completed",
      errorCode: null,
      inputTokens: 5,
      cachedTokens: 2,
      cacheWriteTokens: 1,
      outputTokens: 7,
      reasoningTokens: 3,
      imageInputTokens: 0,
      audioInputTokens: 0,
      audioOutputTokens: 0,
      images: 2,
      ...money,
      usageSource: "upstream",
      attempts: 2,
      firstByteMs: 12,
      durationMs: 251,
      waitMs: 5,
      trace: JSON.stringify(traceRecord(record.trace, 350.6)),
      responseId: "resp_1",
      upstreamRequestId: "req_up",
    });
  });

  test("of a request that was refused early has what was known by then", () => {
    const error = new ApiError("invalid_json", "no");
    const ending = { ...ENDING, outcome: "refused", status: error.status, error, usage: null } as const;
    const clock = clockAt(5_000, 100);
    expect(
      buildUsageRow({ ...open(), caller: callerWho("none") }, ending, asReported(null, 0), NO_MONEY, clock),
    ).toMatchObject({
      publicModel: "",
      upstreamModel: null,
      accountId: null,
      stream: false,
      status: 400,
      errorCode: "invalid_json",
      usageSource: "none",
      inputTokens: 0,
      outputTokens: 0,
      attempts: 0,
      firstByteMs: null,
      durationMs: 0,
      waitMs: 0,
      trace: JSON.stringify({ waitedMs: 0, candidates: [], attempts: [], refusal: "no" }),
    });
  });

  test("tells a usage of 0 from none", () => {
    const nothing = asReported(usageOf({ input_tokens: 0, output_tokens: 0 }), 0);
    const clock = clockAt(5_000, 100);
    expect(
      buildUsageRow({ ...open(), caller: callerWho("none") }, ENDING, nothing, NO_MONEY, clock),
    ).toMatchObject({
      usageSource: "upstream",
      inputTokens: 0,
    });
  });
});
