import { describe, expect, test } from "bun:test";
import type {
  Idempotency,
  IdempotencyClaim,
  IdempotencyStart,
} from "../../billing/idempotency/idempotency.ts";
import { ApiError } from "../../errors.ts";
import { joinParts } from "../../net/wire/parts.ts";
import type { LogFields } from "../../observe/log.ts";
import type { EndpointName, ModelRequest } from "../../protocols/shared/request.ts";
import { callerWho, endpointOf, requestOf } from "../charging/paying.test-support.ts";
import { claimRequest, endClaim } from "./idempotent-requests.ts";

/** An idempotency store that returns this start and records its calls. */
function setUp(begun: IdempotencyStart = { kind: "new" }) {
  const claims: IdempotencyClaim[] = [];
  const ends: unknown[] = [];
  const idempotency: Idempotency = {
    async begin(claim) {
      claims.push(claim);
      return begun;
    },
    finish: async (_, answer) => void ends.push(answer),
    forget: async () => void ends.push("forgotten"),
    recover: async () => 0,
    sweep: async () => {},
  };
  async function claim(token: string | null, name: EndpointName, request: ModelRequest = requestOf(name)) {
    const headers = token === null ? {} : { "idempotency-key": token };
    const call = { request: new Request("http://gateway.example", { headers }), requestId: "req_1" };
    return claimRequest({
      gateway: { idempotency },
      call,
      caller: callerWho("none"),
      endpoint: endpointOf(name),
      request,
    });
  }
  return { claims, ends, idempotency, claim };
}

async function refusal(work: Promise<unknown>): Promise<ApiError> {
  const thrown = await work.then(
    () => new Error("it was not refused"),
    (error: unknown) => error,
  );
  if (thrown instanceof ApiError) return thrown;
  throw thrown;
}

describe("a request under an Idempotency-Key", () => {
  test("is claimed within the client's API key", async () => {
    const { claims, claim } = setUp();
    const claimed = await claim("t1", "chat.completions");
    expect(claims).toEqual([
      { scope: "k1", token: "t1", fingerprint: expect.any(String), requestId: "req_1" },
    ]);
    expect(claimed).toMatchObject({ kind: "first", claim: claims[0] });
  });

  test("claims nothing where there is no such header, and is refused where it is no key", async () => {
    const { claims, claim } = setUp();
    expect(await claim(null, "chat.completions")).toBeNull();
    expect(await refusal(claim("two words", "chat.completions"))).toMatchObject({
      code: "invalid_value",
      param: "idempotency-key",
    });
    expect(claims).toEqual([]);
  });

  test("is known again by endpoint and body", async () => {
    const { claims, claim } = setUp();
    const form = (formDigest: string) => ({
      ...requestOf("images.edits"),
      inputText: { kind: "texts" as const, texts: ["a cat"], formDigest },
    });
    await claim("t", "responses");
    await claim("t", "responses");
    await claim("t", "responses.compact");
    await claim("t", "responses", requestOf("responses", { temperature: 1 }));
    await claim("t", "images.edits", form("one picture"));
    await claim("t", "images.edits", form("another"));
    const [first, ...others] = claims.map(({ fingerprint }) => fingerprint);
    expect(others[0]).toBe(first ?? "");
    expect(new Set(others).size).toBe(5);
  });

  test("that was done gets the first answer again, under the first one's id", async () => {
    const stored = { status: 200, contentType: "application/json", body: '{"id":"x"}' };
    const claimed = await setUp({ kind: "done", requestId: "req_0", stored }).claim("t", "responses");
    if (claimed?.kind !== "repeat") throw new Error("there is no answer");
    const { answer } = claimed;
    expect([answer.status, Buffer.from(joinParts(answer.body)).toString()]).toEqual([200, '{"id":"x"}']);
    expect(answer.headers.split("\r\n")).toEqual([
      "content-type: application/json",
      "x-request-id: req_0",
      "idempotency-replayed: true",
      "",
    ]);
  });

  test.each([
    ["still runs", { kind: "running", requestId: "req_0" }, "idempotency_in_progress"],
    ["was not kept", { kind: "done", requestId: "req_0", stored: null }, "idempotency_answer_gone"],
    ["asked for something else", { kind: "other_body", requestId: "req_0" }, "idempotency_key_reused"],
  ] as const)("is refused when the first %s", async (_, begun, code) => {
    expect(await refusal(setUp(begun).claim("t", "responses"))).toMatchObject({ code });
  });

  test("is refused while the store is away: it might be a repeat", async () => {
    const { idempotency, claim } = setUp();
    idempotency.begin = () => Promise.reject(new Error("away"));
    expect(await refusal(claim("t", "chat.completions"))).toMatchObject({ code: "store_unavailable" });
  });
});

describe("the end of a claim", () => {
  const CLAIM = { scope: "k1", token: "t", fingerprint: "f", requestId: "req_1" };
  const ANSWER = { status: 200, contentType: "application/json", body: "{}" };

  function endOf(change: Partial<Idempotency> = {}) {
    const { ends, idempotency } = setUp();
    const logged: { event: string; fields: LogFields | undefined }[] = [];
    const note = (event: string, fields?: LogFields) => void logged.push({ event, fields });
    const gateway = {
      idempotency: { ...idempotency, ...change },
      log: { info: note, warn: note, error: note },
    };
    return { ends, logged, gateway };
  }

  test("keeps the answer, or that there was one, or forgets the request", async () => {
    const { ends, gateway } = endOf();
    for (const end of [ANSWER, null, "forget"] as const) await endClaim(gateway, CLAIM, end);
    expect(ends).toEqual([ANSWER, null, "forgotten"]);
  });

  test("that the store does not take is logged, and spoils no answer", async () => {
    const { logged, gateway } = endOf({ finish: () => Promise.reject(new Error("away")) });
    await endClaim(gateway, CLAIM, ANSWER);
    expect(logged).toEqual([
      { event: "idempotency_not_ended", fields: { request_id: "req_1", reason: "away" } },
    ]);
  });
});
