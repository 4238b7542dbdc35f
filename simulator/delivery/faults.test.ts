import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { eventually } from "../../test/support/eventually.ts";
import { startSimulator } from "../simulator.ts";
import { rawPost } from "./raw-client.test-support.ts";

const simulator = startSimulator({ seed: 7, faultPort: true });
const faultUrl = simulator.faultUrl ?? "";
afterAll(() => simulator.stop());
beforeEach(() => simulator.ledger.reset());

const CHAT = "/chat/completions";
const RESPONSES = "/responses";

function bodyFor(model: string, stream: boolean): object {
  return { model, stream, input: "Hi", messages: [{ role: "user", content: "Hi" }] };
}

function post(path: string, model: string, stream: boolean, init: RequestInit = {}): Promise<Response> {
  const body = JSON.stringify(bodyFor(model, stream));
  return fetch(simulator.url + path, { method: "POST", body, redirect: "manual", ...init });
}

const raw = (path: string, model: string, stream: boolean, base = simulator.url) =>
  rawPost(base, path, bodyFor(model, stream));

const eventsIn = (body: string): string[] => body.split("\n\n").filter((block) => block !== "");
const dataIn = (body: string): string[] =>
  [...body.matchAll(/^data: (.*)$/gm)].map((match) => match[1] ?? "");

describe("a rejected request", () => {
  const cases: [model: string, status: number, code: string | null][] = [
    ["fault/400", 400, "invalid_value"],
    ["fault/context", 400, "context_length_exceeded"],
    ["fault/401", 401, "invalid_api_key"],
    ["fault/403", 403, "unsupported_country_region_territory"],
    ["fault/404", 404, "model_not_found"],
    ["fault/429", 429, "rate_limit_exceeded"],
    ["fault/429-quota", 429, "insufficient_quota"],
    ["fault/500", 500, "server_error"],
    ["fault/503", 503, "server_is_overloaded"],
    ["fault/529", 529, "overloaded_error"],
    ["fault/misspelt", 400, null],
  ];
  test.each(cases)("%s has status %d and code %s", async (model, status, code) => {
    for (const path of [CHAT, RESPONSES, "/embeddings", "/images/generations"]) {
      const response = await post(path, model, false);
      expect(response.status).toBe(status);
      expect(await response.json()).toMatchObject({ error: { code } });
    }
  });

  test("fault/429 sends Retry-After only if the model name sets it", async () => {
    expect((await post(CHAT, "fault/429", true)).headers.get("retry-after")).toBeNull();
    expect((await post(CHAT, "fault/429@retry=2", true)).headers.get("retry-after")).toBe("2");
    const date = (await post(CHAT, "fault/429-date", true)).headers.get("retry-after");
    expect(Date.parse(date ?? "")).toBeGreaterThan(Date.now() - 1_000);
  });

  test("fault/502 and fault/html return HTML", async () => {
    for (const [model, status] of [
      ["fault/502", 502],
      ["fault/html", 200],
    ] as const) {
      const response = await post(RESPONSES, model, true);
      expect([response.status, response.headers.get("content-type")]).toEqual([
        status,
        "text/html; charset=utf-8",
      ]);
    }
  });

  test("fault/redirect redirects to another path of the same host", async () => {
    const response = await post(CHAT, "fault/redirect", false);
    expect([response.status, response.headers.get("location")]).toEqual([302, "/__redirected"]);
  });
});

describe("a canary", () => {
  const words = ["sk-my-own", "org-CANARY7f3a", "CANARY-SECRET-7f3a"];
  const headers = { authorization: "Bearer sk-my-own" };
  const names = ["set-cookie", "openai-organization", "x-request-id", "server", "via"];

  test.each([400, 401, 429, 500])("is in every header and error field of a %d", async (status) => {
    const response = await post(CHAT, `fault/canary@${status}`, false, { headers });
    expect(response.status).toBe(status);
    for (const name of names) for (const word of words) expect(response.headers.get(name)).toContain(word);
    const { error } = (await response.json()) as { error: Record<string, string> };
    for (const field of ["message", "type", "param", "code"]) {
      for (const word of words) expect(error[field]).toContain(word);
    }
  });

  test("is in the headers of a successful response", async () => {
    for (const stream of [false, true]) {
      const response = await post(CHAT, "fault/canary-ok", stream, { headers });
      expect(response.status).toBe(200);
      for (const name of names) for (const word of words) expect(response.headers.get(name)).toContain(word);
      expect(await response.text()).toContain("arrived safely");
    }
  });
});

describe("a connection", () => {
  test.each(["fault/refuse", "fault/rst"])("with %s is reset without a response", async (model) => {
    expect(await raw(CHAT, model, true)).toMatchObject({ head: "", ended: "reset" });
  });

  test("with fault/blackhole stays open until the client disconnects", async () => {
    const leave = new AbortController();
    const response = post(CHAT, "fault/blackhole", false, { signal: leave.signal }).catch(() => "left");
    await eventually(() => simulator.ledger.totals().inFlight > 0);
    leave.abort();
    expect(await response).toBe("left");
    await eventually(() => simulator.ledger.totals().inFlight, { equals: 0 });
    expect(simulator.ledger.last()).toMatchObject({ finished: false, abortedByClient: true });
  });

  test("with fault/slow-headers responds after the configured delay", async () => {
    expect((await post(CHAT, "fault/slow-headers@20ms", false)).status).toBe(200);
  });

  test("to the fault port ends with FIN where the main port resets", async () => {
    expect(await raw(CHAT, "fault/refuse", true, faultUrl)).toMatchObject({ head: "", ended: "fin" });
    const broken = await raw(CHAT, "fault/rst@chunk3", true, faultUrl);
    expect(broken.ended).toBe("fin");
    expect(eventsIn(broken.body)).toHaveLength(3);
    expect((await raw(CHAT, "sim-fast", false, faultUrl)).head).toStartWith("HTTP/1.1 200");
  });
});

describe("a whole response", () => {
  test("with fault/truncated is cut off; on the fault port its Content-Length is too large", async () => {
    const reset = await raw(CHAT, "fault/truncated", false);
    expect(reset.ended).toBe("reset");
    const lied = await raw(CHAT, "fault/truncated", false, faultUrl);
    expect(lied.ended).toBe("fin");
    expect(Number(/content-length: (\d+)/i.exec(lied.head)?.[1])).toBeGreaterThan(lied.body.length);
    for (const { body } of [reset, lied]) expect(() => JSON.parse(body)).toThrow();
  });

  test.each(["fault/badjson", "fault/cut", "fault/cut@byte20"])(
    "with %s ends cleanly and is not JSON",
    async (model) => {
      const response = await raw(RESPONSES, model, false);
      expect(response.ended).toBe("message");
      expect(response.head).toContain("application/json");
      expect(() => JSON.parse(response.body)).toThrow();
    },
  );

  test("with fault/empty has no body", async () => {
    const response = await post(CHAT, "fault/empty", false);
    expect([response.status, await response.text()]).toEqual([200, ""]);
    expect(simulator.ledger.last()).toMatchObject({ outputTokens: 0, finished: true });
  });

  test("with fault/gzip is compressed although the client accepts only identity", async () => {
    const response = await post(CHAT, "fault/gzip", false, { headers: { "accept-encoding": "identity" } });
    expect(response.headers.get("content-encoding")).toBe("gzip");
    expect(await response.json()).toHaveProperty("choices");
  });

  test("with fault/split arrives in several writes", async () => {
    const response = await raw(CHAT, "fault/split", false);
    expect(response.chunks.length).toBeGreaterThan(1);
    expect(JSON.parse(response.body)).toHaveProperty("choices");
  });

  test("with fault/failed and fault/incomplete has that status", async () => {
    expect((await post(CHAT, "fault/failed", false)).status).toBe(500);
    expect(await (await post(RESPONSES, "fault/failed", false)).json()).toMatchObject({
      status: "failed",
      error: { code: "server_error" },
      usage: { output_tokens: expect.any(Number) },
    });
    expect(await (await post(RESPONSES, "fault/incomplete", false)).json()).toMatchObject({
      status: "incomplete",
    });
  });
});

describe("reported usage", () => {
  const countTokens = async (model: string) => {
    const chat = (await (await post(CHAT, model, false)).json()) as { usage?: { prompt_tokens: unknown } };
    const response = (await (await post(RESPONSES, model, false)).json()) as {
      usage: { input_tokens: unknown } | null;
    };
    return [chat.usage?.prompt_tokens, response.usage?.input_tokens];
  };

  test("is missing, zero, negative or absurd, depending on the fault", async () => {
    expect(await countTokens("fault/no-usage")).toEqual([undefined, undefined]);
    expect(await countTokens("fault/usage-zero")).toEqual([0, 0]);
    expect(await countTokens("fault/usage-negative")).toEqual([-120, -120]);
    expect(await countTokens("fault/usage-absurd")).toEqual([1e18, 1e18]);
    expect(await countTokens("fault/usage-huge")).toEqual([1e12, 1e12]);
    expect(await countTokens("fault/usage-nan")).toEqual(["NaN", "NaN"]);
  });

  test("does not change the true count in the ledger", async () => {
    await countTokens("fault/usage-absurd");
    const [entry] = simulator.ledger.entries();
    expect(entry?.inputTokens).toBe(9);
    expect(entry?.outputTokens).toBeLessThan(200);
  });
});

test("a fault set at run time applies to every model for the set number of requests", async () => {
  const control = (order: object) =>
    fetch(new URL("/__control", simulator.url), { method: "POST", body: JSON.stringify(order) });
  const statuses = async () => [
    (await post(CHAT, "sim-fast", false)).status,
    (await fetch(`${simulator.url}/models`)).status,
  ];
  await control({ fault: "429@retry=9" });
  expect(await statuses()).toEqual([429, 429]);
  await control({ fault: "500", forNext: 1 });
  expect(await statuses()).toEqual([500, 200]);
  simulator.force("401");
  expect(await statuses()).toEqual([401, 401]);
  simulator.force(null);
  expect(await statuses()).toEqual([200, 200]);
  expect((await control({ fault: 5 })).status).toBe(400);
});

test("every event of a stream is a separate write", async () => {
  const response = await raw(RESPONSES, "sim-fast@events=5", true);
  expect(response.chunks.map((chunk) => chunk.toString().slice(0, 7))).toEqual(Array(13).fill("event: "));
  expect(dataIn(response.body)).toHaveLength(13);
});
