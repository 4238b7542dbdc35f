import { describe, expect, test } from "bun:test";
import { upstreamFailure } from "../../accounts/failure.ts";
import { ApiError } from "../../errors.ts";
import { NO_FALLBACK, NO_MONEY } from "../../store/usage/usage.ts";
import {
  ENDING,
  lookUpEndpoint,
  makeCaller,
  makeRequest,
  makeUsage,
  ROUTE,
  TARIFF,
} from "../charging/charging.test-support.ts";
import { asReported } from "../metering/meter.ts";
import { UNCHANGED } from "../request/attempt-trace.ts";
import { endWait, traceRecord } from "../request/trace.ts";
import { openContext } from "../request-context.ts";
import { buildUsageRow } from "./build-usage-row.ts";

const CALL = {
  request: new Request("http://gateway.example"),
  requestId: "req_1",
  startedMs: 100,
  bodyBytes: 0,
  clientAddress: () => "",
  networkAddress: () => "",
  socketTurn: null,
  closeConnection() {},
};

const clockAt = (nowMs: number, monotonicMs: number) => ({
  nowMs: () => nowMs,
  monotonicMs: () => monotonicMs,
});

const open = () => openContext(CALL, lookUpEndpoint("chat.completions"));

describe("the usage row of a request", () => {
  test("contains the caller, the model, the account, the usage, the cost and the timing", () => {
    const context = open();
    context.request = makeRequest("chat.completions", { stream: true });
    context.trace.waitingSinceMs = 100;
    endWait(context.trace, 105);
    context.trace.beginAttempt({ route: ROUTE, changes: UNCHANGED, nowMs: 105 });
    context.trace.lastAttempt?.fail(upstreamFailure("server", "status 500", 500), 105);
    context.trace.beginAttempt({ route: ROUTE, changes: UNCHANGED, nowMs: 105 });
    context.trace.lastAttempt?.recordFirstByte("req_up", 112.4);
    const usage = makeUsage({
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
      buildUsageRow(
        { ...context, caller: makeCaller("balance") },
        { ending, use: asReported(usage, 2), money },
        clock,
      ),
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
      cacheWrite1hTokens: 0,
      outputTokens: 7,
      reasoningTokens: 3,
      imageInputTokens: 0,
      audioInputTokens: 0,
      audioOutputTokens: 0,
      images: 2,
      webSearches: 0,
      ...money,
      ...NO_FALLBACK,
      usageSource: "upstream",
      attempts: 2,
      firstByteMs: 12,
      durationMs: 251,
      waitMs: 5,
      trace: JSON.stringify(traceRecord(context.trace, 350.6)),
      responseId: "resp_1",
      upstreamRequestId: "req_up",
    });
  });

  test("of an early rejection contains what was known by then", () => {
    const error = new ApiError("invalid_json", "no");
    const ending = { ...ENDING, outcome: "refused", status: error.status, error, usage: null } as const;
    const clock = clockAt(5_000, 100);
    expect(
      buildUsageRow(
        { ...open(), caller: makeCaller("none") },
        { ending, use: asReported(null, 0), money: NO_MONEY },
        clock,
      ),
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
      trace: JSON.stringify({ waitedMs: 0, candidates: [], attempts: [], rejection: "no" }),
    });
  });

  test("distinguishes a usage of zero from no usage", () => {
    const nothing = asReported(makeUsage({ input_tokens: 0, output_tokens: 0 }), 0);
    const clock = clockAt(5_000, 100);
    expect(
      buildUsageRow(
        { ...open(), caller: makeCaller("none") },
        { ending: ENDING, use: nothing, money: NO_MONEY },
        clock,
      ),
    ).toMatchObject({
      usageSource: "upstream",
      inputTokens: 0,
    });
  });
});
