import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { eventually } from "../test/support/eventually.ts";
import { Ledger, type LedgerEntry } from "./ledger.ts";
import { startSimulator } from "./simulator.ts";

const simulator = startSimulator({ seed: 7, record: "full", credential: "sk-ledger" });
afterAll(() => simulator.stop());
beforeEach(() => simulator.ledger.reset());

const headers = { authorization: "Bearer sk-ledger", "x-forwarded-thing": "42" };
const post = (body: string, init: RequestInit = {}) =>
  fetch(`${simulator.url}/chat/completions`, { method: "POST", body, headers, ...init });

async function settled() {
  await eventually(() => simulator.ledger.totals().inFlight, { equals: 0 });
  return simulator.ledger.last();
}

describe("a ledger entry", () => {
  test("records the request byte for byte", async () => {
    const body =
      '{ "model":"sim-fast",\n "big": 12345678901234567890, "messages":[{"role":"user","content":"Hé"}] }';
    await (await post(body)).text();
    const entry = simulator.ledger.last();
    expect(entry?.headers).toMatchObject(headers);
    expect(entry?.requestBytes).toBe(Buffer.byteLength(body));
    expect(entry?.bodySha256).toBe(new Bun.CryptoHasher("sha256").update(body).digest("hex"));
    const url = new URL(`/__ledger/${entry?.id}/body`, simulator.url);
    expect(await (await fetch(url, { headers })).text()).toBe(body);
  });

  test("counts the reported tokens of whole responses and of streams", async () => {
    const request = { model: "sim-reason", messages: [{ role: "user", content: "Count" }] };
    const told = (await (await post(JSON.stringify(request))).json()) as {
      usage: { prompt_tokens: number; completion_tokens: number };
    };
    await (await post(JSON.stringify({ ...request, stream: true }))).text();
    await settled();
    const [plain, streamed] = simulator.ledger.entries();
    expect(plain).toMatchObject({
      inputTokens: told.usage.prompt_tokens,
      outputTokens: told.usage.completion_tokens,
      finished: true,
    });
    expect(streamed).toMatchObject({
      inputTokens: plain?.inputTokens ?? -1,
      outputTokens: plain?.outputTokens ?? -1,
      reasoningTokens: plain?.reasoningTokens ?? -1,
      finished: true,
    });
  });

  test("of a disconnected client counts only the tokens that were sent", async () => {
    const leave = new AbortController();
    const model = "sim-fast@events=100,bytes=400,interval=2ms";
    const response = await post(JSON.stringify({ model, stream: true, messages: [] }), {
      signal: leave.signal,
    });
    await response.body?.getReader().read();
    leave.abort();
    const entry = await settled();
    expect(entry).toMatchObject({ abortedByClient: true, finished: false });
    expect(entry?.textDeltasSent).toBeLessThan(100);
    expect(entry?.outputTokens).toBe(entry?.textDeltasSent ?? -1);
  });
});

test("in-flight requests are counted in total and per model, with their peak", async () => {
  const body = JSON.stringify({ model: "fault/blackhole", messages: [] });
  const leave = new AbortController();
  const open = Promise.allSettled([1, 2, 3].map(() => post(body, { signal: leave.signal })));
  await eventually(() => simulator.ledger.totals().inFlight, { equals: 3 });
  expect(simulator.ledger.modelTotals("fault/blackhole").inFlight).toBe(3);
  leave.abort();
  await open;
  await settled();
  expect(simulator.ledger.totals()).toMatchObject({ inFlight: 0, peakInFlight: 3, abortedByClient: 3 });
});

test("the ledger can be read and reset over HTTP with the credential", async () => {
  await (await post('{"model":"sim-fast","messages":[]}')).text();
  const url = new URL("/__ledger", simulator.url);
  expect((await fetch(url)).status).toBe(401);
  expect(await (await fetch(url, { headers })).json()).toMatchObject({
    totals: { requests: 1, finished: 1 },
    models: { "sim-fast": { requests: 1 } },
    entries: [{ model: "sim-fast", path: "/v1/chat/completions" }],
  });
  await fetch(new URL("/__ledger/reset", simulator.url), { method: "POST", headers });
  expect(simulator.ledger.entries()).toEqual([]);
});

test("the ledger keeps 10,000 entries, and the totals count all of them", () => {
  const ledger = new Ledger("counts");
  for (let number = 0; number < 10_005; number++) {
    const entry = entryNumber(number);
    ledger.open(entry);
    ledger.close(entry);
    ledger.close(entry);
  }
  const kept = ledger.entries();
  expect([kept.length, kept[0]?.id, ledger.last()?.id]).toEqual([10_000, "req_5", "req_10004"]);
  expect(ledger.totals()).toMatchObject({ requests: 10_005, inFlight: 0, outputTokens: 20_010 });
});

function entryNumber(number: number): LedgerEntry {
  return {
    id: `req_${number}`,
    at: 0,
    socket: null,
    path: "/v1/responses",
    model: "sim-fast",
    stream: false,
    requestBytes: 1,
    bodySha256: null,
    headers: {},
    form: null,
    inputTokens: 1,
    outputTokens: 2,
    cachedTokens: 0,
    reasoningTokens: 0,
    images: 0,
    eventsSent: 0,
    textDeltasSent: 0,
    sentAt: null,
    finished: true,
    abortedByClient: false,
  };
}
