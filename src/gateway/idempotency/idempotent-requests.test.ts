import { describe, expect, test } from "bun:test";
import { joinParts } from "../../base/parts.ts";
import type {
  Idempotency,
  IdempotencyClaim,
  IdempotencyStart,
} from "../../billing/idempotency/idempotency.ts";
import { ApiError } from "../../errors.ts";
import type { LogFields } from "../../observe/log.ts";
import type { EndpointName } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { lookUpEndpoint, makeCaller, makeRequest } from "../charging/charging.test-support.ts";
import { claimRequest, endClaim } from "./idempotent-requests.ts";

type ClaimStore = Pick<Idempotency, "begin" | "finish" | "releaseClaim">;

/** An idempotency store that returns this start and records its calls. */
function setUp(begun: IdempotencyStart = { kind: "new" }) {
  const claims: IdempotencyClaim[] = [];
  const ends: unknown[] = [];
  const idempotency: ClaimStore = {
    async begin(claim) {
      claims.push(claim);
      return begun;
    },
    finish: async (_, response) => void ends.push(response),
    releaseClaim: async () => void ends.push("forgotten"),
  };
  async function claim(token: string | null, name: EndpointName, request: ModelRequest = makeRequest(name)) {
    const headers = token === null ? {} : { "idempotency-key": token };
    const call = { request: new Request("http://gateway.example", { headers }), requestId: "req_1" };
    return claimRequest(idempotency, {
      call,
      caller: makeCaller("none"),
      endpoint: lookUpEndpoint(name),
      request,
    });
  }
  return { claims, ends, idempotency, claim };
}

async function rejection(work: Promise<unknown>): Promise<ApiError> {
  const thrown = await work.then(
    () => new Error("it was not refused"),
    (error: unknown) => error,
  );
  if (thrown instanceof ApiError) return thrown;
  throw thrown;
}

describe("a request with an Idempotency-Key", () => {
  test("is claimed in the scope of the API key", async () => {
    const { claims, claim } = setUp();
    const claimed = await claim("t1", "chat.completions");
    expect(claims).toEqual([
      { scope: "k1", token: "t1", fingerprint: expect.any(String), requestId: "req_1" },
    ]);
    expect(claimed).toMatchObject({ kind: "first", claim: claims[0] });
  });

  test("claims nothing without the header, and is rejected with an invalid key", async () => {
    const { claims, claim } = setUp();
    expect(await claim(null, "chat.completions")).toBeNull();
    expect(await rejection(claim("two words", "chat.completions"))).toMatchObject({
      code: "invalid_value",
      param: "idempotency-key",
    });
    expect(claims).toEqual([]);
  });

  test("is identified by endpoint and body", async () => {
    const { claims, claim } = setUp();
    const form = (formDigest: string) => ({
      ...makeRequest("images.edits"),
      inputText: { kind: "texts" as const, texts: ["a cat"], formDigest },
    });
    await claim("t", "responses");
    await claim("t", "responses");
    await claim("t", "responses.compact");
    await claim("t", "responses", makeRequest("responses", { temperature: 1 }));
    await claim("t", "images.edits", form("one picture"));
    await claim("t", "images.edits", form("another"));
    const [first, ...others] = claims.map(({ fingerprint }) => fingerprint);
    expect(others[0]).toBe(first ?? "");
    expect(new Set(others).size).toBe(5);
  });

  test("gets the first response again, with the first request id", async () => {
    const stored = { status: 200, contentType: "application/json", body: '{"id":"x"}' };
    const claimed = await setUp({ kind: "done", requestId: "req_0", stored }).claim("t", "responses");
    if (claimed?.kind !== "repeat") throw new Error("there is no answer");
    const { response } = claimed;
    expect([response.status, Buffer.from(joinParts(response.body)).toString()]).toEqual([200, '{"id":"x"}']);
    expect(response.headers.split("\r\n")).toEqual([
      "content-type: application/json",
      "x-request-id: req_0",
      "idempotency-replayed: true",
      "",
    ]);
  });

  test.each([
    ["is in progress", { kind: "running", requestId: "req_0" }, "idempotency_in_progress"],
    ["was not stored", { kind: "done", requestId: "req_0", stored: null }, "idempotency_response_gone"],
    ["had another body", { kind: "other_body", requestId: "req_0" }, "idempotency_key_reused"],
  ] as const)("is rejected when the first %s", async (_, begun, code) => {
    expect(await rejection(setUp(begun).claim("t", "responses"))).toMatchObject({ code });
  });

  test("is rejected while the store is unavailable, because it might be a repeat", async () => {
    const { idempotency, claim } = setUp();
    idempotency.begin = () => Promise.reject(new Error("away"));
    expect(await rejection(claim("t", "chat.completions"))).toMatchObject({ code: "store_unavailable" });
  });
});

describe("the end of a claim", () => {
  const CLAIM = { scope: "k1", token: "t", fingerprint: "f", requestId: "req_1" };
  const RESPONSE = { status: 200, contentType: "application/json", body: "{}" };

  function createEnd(change: Partial<ClaimStore> = {}) {
    const { ends, idempotency } = setUp();
    const logged: { event: string; fields: LogFields | undefined }[] = [];
    const note = (event: string, fields?: LogFields) => void logged.push({ event, fields });
    const gateway = {
      idempotency: { ...idempotency, ...change },
      log: { info: note, warn: note, error: note },
    };
    return { ends, logged, gateway };
  }

  test("stores the response, stores only its completion, or deletes the claim", async () => {
    const { ends, gateway } = createEnd();
    for (const end of [RESPONSE, null, "forget"] as const) await endClaim(gateway, CLAIM, end);
    expect(ends).toEqual([RESPONSE, null, "forgotten"]);
  });

  test("logs a failure of the store and does not fail the response", async () => {
    const { logged, gateway } = createEnd({ finish: () => Promise.reject(new Error("away")) });
    await endClaim(gateway, CLAIM, RESPONSE);
    expect(logged).toEqual([
      { event: "idempotency_not_ended", fields: { request_id: "req_1", reason: "away" } },
    ]);
  });
});
