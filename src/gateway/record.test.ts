import { describe, expect, test } from "bun:test";
import { ApiError } from "../errors.ts";
import { ENDPOINTS } from "../interfaces/request.ts";
import { compileSnapshot } from "../policy/snapshot.ts";
import { DEFAULT_QUEUE, NO_BILLING, NO_LIMITS, NO_RATE_LIMITS } from "../records.ts";
import type { UsageRow } from "../store/usage.ts";
import { failed } from "../upstreams/failure.ts";
import type { Caller } from "./authenticate.ts";
import { type Ending, openRecord } from "./record.ts";
import { beginAttempt, endWait, failAttempt, noteFirstByte, traceRecord } from "./trace.ts";

const SNAPSHOT = compileSnapshot(
  {
    models: [{ id: "fast", interfaces: ["chat"], price: null, createdAtMs: 1 }],
    accounts: [
      {
        id: "a1",
        name: "upstream",
        kind: "openai",
        baseUrl: "https://upstream.example",
        sealedCredential: null,
        interfaces: ["chat"],
        apiVersion: null,
        privateNetwork: false,
        priority: 1,
        weight: 1,
        models: { fast: "gpt-6" },
        limits: NO_RATE_LIMITS,
        enabled: true,
        createdAtMs: 1,
      },
    ],
    groups: [
      {
        id: "g1",
        name: "team",
        interfaces: ["chat"],
        models: ["fast"],
        accounts: ["a1"],
        billing: NO_BILLING,
        onDisconnect: "cancel",
        limits: NO_LIMITS,
        groupLimits: NO_LIMITS,
        queue: DEFAULT_QUEUE,
        createdAtMs: 1,
      },
    ],
  },
  { simulatorUrl: null, unseal: () => null },
);

function caller(): Caller {
  const group = SNAPSHOT.groups.get("g1");
  if (!group) throw new Error("the group is not in the snapshot");
  const key = {
    id: "k1",
    name: "laptop",
    publicId: "pub",
    userId: "u1",
    groupId: "g1",
    expiresAtMs: null,
    limits: NO_LIMITS,
    userLimits: NO_LIMITS,
    createdAtMs: 1,
  };
  return { key, group };
}

const ENDING: Ending = {
  outcome: "completed",
  status: 200,
  error: null,
  usage: { inputTokens: 5, cachedTokens: 2, cacheWriteTokens: 1, outputTokens: 7, reasoningTokens: 3 },
  images: 0,
  responseId: null,
};

function open() {
  const rows: UsageRow[] = [];
  const clock = {
    wallMs: 5_000,
    passedMs: 100,
    nowMs: () => clock.wallMs,
    monotonicMs: () => clock.passedMs,
  };
  const endpoint = ENDPOINTS.find(({ name }) => name === "chat.completions");
  if (!endpoint) throw new Error("no chat endpoint");
  const record = openRecord(
    clock,
    {
      request: new Request("http://gateway.example"),
      requestId: "req_1",
      startedMs: 100,
      clientAddress: () => "",
      cutOff() {},
    },
    endpoint,
    { push: (row) => void rows.push(row), flush: async () => {}, hasRoom: () => true },
  );
  return { rows, clock, record };
}

describe("the record of a request", () => {
  test("holds who asked for what, who served it, what it used and how long it took", () => {
    const { rows, clock, record } = open();
    record.caller = caller();
    record.request = { publicModel: "fast", stream: true };
    const [route] = record.caller.group.models.get("fast")?.routes.get("chat") ?? [];
    if (!route) throw new Error("there is no way to the model");
    record.trace.waitingSinceMs = clock.monotonicMs();
    clock.passedMs = 105;
    endWait(record.trace, clock.monotonicMs());
    beginAttempt(record.trace, route, clock.monotonicMs());
    failAttempt(record.trace, failed("server", "status 500", 500), clock.monotonicMs());
    beginAttempt(record.trace, route, clock.monotonicMs());
    clock.passedMs = 112.4;
    noteFirstByte(record.trace, "req_up", clock.monotonicMs());
    clock.passedMs = 350.6;
    record.close({ ...ENDING, responseId: "resp_1", images: 2 });
    expect(rows).toEqual([
      {
        requestId: "req_1",
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
        images: 2,
        usageSource: "upstream",
        attempts: 2,
        firstByteMs: 12,
        durationMs: 251,
        waitMs: 5,
        trace: JSON.stringify(traceRecord(record.trace, clock.monotonicMs())),
        responseId: "resp_1",
        upstreamRequestId: "req_up",
      },
    ]);
  });

  test("is written once, by the first ending", () => {
    const { rows, record } = open();
    record.caller = caller();
    record.close({ ...ENDING, outcome: "client_gone" });
    record.close(ENDING);
    expect(rows.map(({ outcome }) => outcome)).toEqual(["client_gone"]);
  });

  test("of a request that was refused early has what was known by then", () => {
    const { rows, record } = open();
    record.caller = caller();
    const error = new ApiError("invalid_json", "no");
    record.close({ ...ENDING, outcome: "refused", status: error.status, error, usage: null });
    expect(rows[0]).toMatchObject({
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
      trace: null,
    });
  });

  test("tells a usage of 0 from none", () => {
    const { rows, record } = open();
    record.caller = caller();
    const nothing = {
      inputTokens: 0,
      cachedTokens: 0,
      cacheWriteTokens: 0,
      outputTokens: 0,
      reasoningTokens: 0,
    };
    record.close({ ...ENDING, usage: nothing });
    expect(rows[0]).toMatchObject({ usageSource: "upstream", inputTokens: 0 });
  });

  test("is not written for someone without a key", () => {
    const { rows, record } = open();
    record.close(ENDING);
    record.caller = caller();
    record.close(ENDING);
    expect(rows).toEqual([]);
  });
});
