import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { systemClock } from "../base/clock.ts";
import { openDeadlines } from "../base/deadlines.ts";
import { limits } from "../config/limits/product-limits.ts";
import { openHttpClient } from "../net/http-client/client.ts";
import { Dialer } from "../net/http-client/dial.ts";
import { account } from "../pool/pool.test-support.ts";
import { AccessTokens } from "./cloud/access-tokens.ts";
import { type ProbeOptions, probeAccount } from "./probe.ts";

const CREDENTIAL = "sk-probe";
let simulator: Simulator;
let options: ProbeOptions;
let close: () => void;

beforeAll(() => {
  simulator = startSimulator({ credential: CREDENTIAL });
  const deadlines = openDeadlines(20, systemClock);
  const http = openHttpClient({
    deadlines,
    clock: systemClock,
    connectTimeoutMs: 2_000,
    idleMs: 1_000,
    idlePerOriginMax: 4,
    headBytesMax: 65_536,
  });
  const dialer = new Dialer({ clock: systemClock, lookupTimeoutMs: 1_000, cacheMs: 1_000 });
  options = {
    dialer,
    http,
    accessTokens: new AccessTokens({
      dialer,
      http,
      clock: systemClock,
      userAgent: "test",
      limits: limits.accessTokens,
    }),
    userAgent: "test",
    timeoutMs: 5_000,
    bytesMax: 65_536,
  };
  close = () => {
    http.close();
    deadlines.stop();
  };
});

afterAll(async () => {
  close();
  await simulator.stop();
});

const at = (baseUrl: string, change = {}) =>
  account("a", {
    baseUrl,
    basePath: new URL(baseUrl).pathname,
    credential: CREDENTIAL,
    privateNetwork: true,
    ...change,
  });

async function probeServer(respond: () => Response): Promise<string> {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: respond });
  try {
    return JSON.stringify(await probeAccount(at(`http://127.0.0.1:${server.port}/v1`), options));
  } finally {
    await server.stop(true);
  }
}

test("a working account returns its models", async () => {
  const probe = await probeAccount(at(simulator.url), options);
  expect(probe).toMatchObject({ kind: "answers", status: 200 });
  expect(probe.kind === "answers" && probe.models).toContain("sim-fast");
});

test("a wrong credential is distinguished from a wrong address", async () => {
  const wrong = at(simulator.url, { credential: "sk-other" });
  expect(await probeAccount(wrong, options)).toEqual({ kind: "refused", status: 401 });
  const free = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const url = `http://127.0.0.1:${free.port}/v1`;
  await free.stop(true);
  expect(await probeAccount(at(url), options)).toEqual({ kind: "unreachable", failure: "refused" });
});

test("an account without private network access does not reach this machine", async () => {
  const outside = at(simulator.url, { privateNetwork: false });
  expect(await probeAccount(outside, options)).toMatchObject({ kind: "forbidden_address" });
});

test("unusable model names are dropped, and a too long list is not read", async () => {
  const names = { data: [{ id: "b" }, { id: "a" }, { id: "a" }, { id: "with space" }, { id: 7 }, null] };
  expect(await probeServer(() => Response.json(names))).toContain('"models":["a","b"]');
  const long = { data: [{ id: "x".repeat(70_000) }] };
  expect(await probeServer(() => Response.json(long))).toContain('"models":[]');
});

test("a response that is not an API response is classified", async () => {
  const page = () => new Response("<html>", { headers: { "content-type": "text/html" } });
  expect(await probeServer(page)).toContain('"not_json"');
  expect(await probeServer(() => Response.redirect("/elsewhere"))).toContain('"redirects"');
  expect(await probeServer(() => new Response(null, { status: 429 }))).toContain('"limited"');
  expect(await probeServer(() => new Response(null, { status: 404 }))).toContain('"no_list"');
  expect(await probeServer(() => new Response(null, { status: 500 }))).toContain('"fails"');
});

test("a Gemini account lists its models under their own names", async () => {
  const { origin } = new URL(simulator.url);
  for (const baseUrl of [origin, `${origin}/v1beta`]) {
    const probe = await probeAccount(
      at(baseUrl, { kind: "gemini", basePath: baseUrl.slice(origin.length) }),
      options,
    );
    expect(probe).toMatchObject({ kind: "answers", models: expect.arrayContaining(["sim-fast"]) });
  }
});

test("a Gemini account with a wrong key is refused, although Google reports an invalid request", async () => {
  const { origin } = new URL(simulator.url);
  const probe = await probeAccount(
    at(origin, { kind: "gemini", basePath: "", credential: "wrong" }),
    options,
  );
  expect(probe).toEqual({ kind: "refused", status: 400 });
});
