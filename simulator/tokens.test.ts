import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { wholeBytesPart } from "../src/base/parts.ts";
import { countInputHere, countResponse } from "../src/gateway/metering/count-request.ts";
import { openOutputCounter } from "../src/gateway/metering/output-counter.ts";
import { SseSplitter } from "../src/net/wire/sse.ts";
import { lookUpEndpoint } from "../src/protocols/endpoints.ts";
import type { EndpointName } from "../src/protocols/shared/endpoint.ts";
import { eventually } from "../test/support/eventually.ts";
import { type Simulator, startSimulator } from "./simulator.ts";

let simulator: Simulator;
beforeAll(() => {
  simulator = startSimulator({ seed: 1, tokens: "o200k" });
});
afterAll(() => simulator.stop());
beforeEach(() => simulator.ledger.reset());

const QUESTION = "Why is the sky blue, and why do 空 and 하늘 mean the same? Explain it to me in detail.";
const TOOLS = {
  chat: [{ type: "function", function: { name: "get_weather", parameters: CITY() } }],
  responses: [{ type: "function", name: "get_weather", parameters: CITY() }],
};

function CITY(): unknown {
  return { type: "object", properties: { city: { type: "string" }, note: { type: "string" } } };
}

function bodyFor(endpoint: EndpointName, model: string, more: object = {}): string {
  const isChat = endpoint === "chat.completions";
  const prompt = isChat ? { messages: [{ role: "user", content: QUESTION }] } : { input: QUESTION };
  const tools = model.startsWith("sim-tools") ? { tools: isChat ? TOOLS.chat : TOOLS.responses } : {};
  return JSON.stringify({ model, ...prompt, ...tools, ...more });
}

function ask(endpoint: EndpointName, body: string, signal?: AbortSignal): Promise<Response> {
  const path = endpoint === "chat.completions" ? "/chat/completions" : "/responses";
  return fetch(`${simulator.url}${path}`, { method: "POST", body, ...(signal ? { signal } : {}) });
}

async function settled(): Promise<{ inputTokens: number; outputTokens: number }> {
  await eventually(() => simulator.ledger.totals().inFlight, { equals: 0 });
  const entry = simulator.ledger.last();
  if (entry === null) throw new Error("nothing was asked");
  return entry;
}

/** Reads like a gateway and disconnects after this many bytes. */
async function countedByReader(endpoint: EndpointName, body: string, bytesMax: number): Promise<number> {
  const sink = openOutputCounter();
  const choices = Number(/"n":(\d)/.exec(body)?.[1] ?? 1);
  const request = { publicModel: "m", hidesUsage: true, choices };
  const reader = lookUpEndpoint(endpoint).openReader(request, { depthMax: 64, nowMs: () => 0, sink });
  const splitter = new SseSplitter({ eventBytesMax: 1_000_000, eventLinesMax: 1_000 });
  const leave = new AbortController();
  const response = await ask(endpoint, body, leave.signal);
  let seen = 0;
  try {
    for await (const chunk of response.body ?? []) {
      splitter.push(wholeBytesPart(chunk), (bytes, start, end, kind) => {
        if (kind === "event") reader.read(bytes, start, end);
      });
      seen += chunk.length;
      if (seen > bytesMax) break;
    }
  } finally {
    leave.abort();
  }
  return (await sink.exact()).outputTokens;
}

describe.each(["chat.completions", "responses"] as const)("counting with a tokenizer: %s", (endpoint) => {
  test("the usage of a whole response equals the tokens of its texts", async () => {
    for (const model of ["sim-fast", "sim-reason", "sim-tools", "sim-fast@bytes=5000"]) {
      const body = bodyFor(endpoint, model, endpoint === "responses" ? {} : { n: 2 });
      const response = new Uint8Array(await (await ask(endpoint, body)).arrayBuffer());
      const entry = await settled();
      expect(entry.outputTokens).toBe((await countResponse(response)).outputTokens);
      expect(entry.inputTokens).toBe(await countInputHere(Buffer.from(body), "text"));
      const { usage } = JSON.parse(Buffer.from(response).toString());
      expect(usage.output_tokens ?? usage.completion_tokens).toBe(entry.outputTokens);
    }
  });

  test("the usage of a stream equals the tokens of its deltas", async () => {
    for (const model of [
      "sim-fast",
      "sim-reason",
      "sim-tools",
      "sim-fast@events=97",
      "sim-fast@bytes=300000",
    ]) {
      const body = bodyFor(endpoint, model, { stream: true, ...(endpoint === "responses" ? {} : { n: 2 }) });
      const counted = await countedByReader(endpoint, body, Number.POSITIVE_INFINITY);
      const { outputTokens } = await settled();
      expect(Math.abs(counted - outputTokens) / outputTokens).toBeLessThanOrEqual(0.001);
    }
  });

  test("the ledger of an aborted stream counts the tokens that were sent", async () => {
    const body = bodyFor(endpoint, "sim-reason@events=400,bytes=6000,interval=1ms", { stream: true });
    for (const bytesMax of [6_000, 20_000, 40_000]) {
      const counted = await countedByReader(endpoint, body, bytesMax);
      const { outputTokens } = await settled();
      expect(outputTokens).toBeLessThan(1_250);
      // Some events were in transit when the client disconnected.
      expect(outputTokens).toBeGreaterThanOrEqual(counted);
      expect(outputTokens - counted).toBeLessThan(150);
    }
  });

  test("a cut stream counts exactly the tokens that it delivered", async () => {
    for (const chunk of [5, 9, 40, 77]) {
      const body = bodyFor(endpoint, `fault/cut@chunk${chunk},events=90`, { stream: true });
      const counted = await countedByReader(endpoint, body, Number.POSITIVE_INFINITY);
      expect((await settled()).outputTokens).toBe(counted);
    }
  });

  test("the output limit counts these tokens", async () => {
    const bound = endpoint === "responses" ? { max_output_tokens: 20 } : { max_completion_tokens: 20 };
    await (await ask(endpoint, bodyFor(endpoint, "sim-fast", bound))).arrayBuffer();
    expect((await settled()).outputTokens).toBeWithin(19, 21);
  });
});

test("an embedding counts the tokens of its text", async () => {
  const body = JSON.stringify({ model: "sim-embed", input: QUESTION });
  await (await fetch(`${simulator.url}/embeddings`, { method: "POST", body })).arrayBuffer();
  expect((await settled()).inputTokens).toBe(countTokens(QUESTION));
});
