/** Secrets of the operator and the upstream do not leak: not to a client, not to a log, not to the database. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CANARY_WORDS } from "../../simulator/delivery/faults.ts";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { LEAKS, type LeakyUpstream, startLeakyUpstream } from "../support/leaky-upstream.ts";
import { rawRequest } from "../support/raw-http.ts";

setDefaultTimeout(60_000);

const KEY = "client-key-0123456789-0123456789-0123456789";
/** Does not look like a known secret, so that no test depends on pattern matching. */
const CREDENTIAL = "upstreamCredentialCanary9c1d";
const ACCOUNTS = ["account-canary-5b7e", "leaky-account-canary-5b7e"] as const;
const CANARY_FAULTS = ["canary@400", "canary@401", "canary@429", "canary@500", "canary-ok"] as const;

const BODIES: Record<string, (model: string, stream: boolean) => Record<string, unknown>> = {
  "/chat/completions": (model, stream) => ({ model, stream, messages: [{ role: "user", content: "Hello" }] }),
  "/responses": (model, stream) => ({ model, stream, input: "Hello" }),
  "/embeddings": (model) => ({ model, input: "Hello" }),
  "/images/generations": (model, stream) => ({ model, stream, prompt: "Hello" }),
};

/** A separate account for each case, because a failed account cools down. */
const CANARY_CASES = CANARY_FAULTS.flatMap((fault) =>
  Object.keys(BODIES).flatMap((path) => [false, true].map((stream) => [fault, path, stream] as const)),
).map((one, index) => [...one, index] as const);

let folder: string;
let simulator: Simulator;
let leaky: LeakyUpstream;
let gateway: GatewayProcess;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-leaks-"));
  simulator = startSimulator({ record: "full", seed: 1 });
  leaky = startLeakyUpstream(
    (host) =>
      `Key ${CREDENTIAL} of ${ACCOUNTS[1]} in organization ${CANARY_WORDS.join(" ")} at http://${host}/v1, (${host}).`,
  );
  writeFileSync(join(folder, "gateway.yaml"), configuration());
  gateway = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"] });
});

afterAll(async () => {
  await gateway.stop();
  await simulator.stop();
  await leaky.stop();
  rmSync(folder, { recursive: true, force: true });
});

function configuration(): string {
  const simulated = CANARY_CASES.map(([fault, , , index]) => [`wary-${index}`, `fault/${fault}`] as const);
  const leaking = LEAKS.map((leak, index) => [`hushed-${index}`, leak] as const);
  const plain = ["plain", "sim-upstream-canary-2d4f"] as const;
  const names = (pairs: readonly (readonly [string, string])[]) => pairs.map(([name]) => name).join(", ");
  const mapped = (pairs: readonly (readonly [string, string])[]) =>
    pairs.map(([name, upstream]) => `"${name}": "${upstream}"`).join(", ");
  const all = "[chat, responses, embeddings, images]";
  return `
models: [${[plain, ...simulated, ...leaking].map(([id]) => `{ id: ${id}, interfaces: ${all} }`).join(", ")}]
accounts:
  - name: ${ACCOUNTS[0]}
    kind: openai
    base_url: ${simulator.url}
    credential: ${CREDENTIAL}
    private_network: true
    models: { ${mapped([plain])} }
${simulated
  .map(
    (pair, index) =>
      `  - { name: ${ACCOUNTS[0]}-${index}, kind: openai, base_url: "${simulator.url}", credential: ${CREDENTIAL}, private_network: true, models: { ${mapped([pair])} } }`,
  )
  .join("\n")}
  - name: ${ACCOUNTS[1]}
    kind: openai
    base_url: ${leaky.url}
    credential: ${CREDENTIAL}
    private_network: true
    models: { ${mapped(leaking)} }
groups:
  - { name: default, models: [${names([plain, ...simulated, ...leaking])}], accounts: [${[...ACCOUNTS, ...simulated.map((_, index) => `${ACCOUNTS[0]}-${index}`)].join(", ")}] }
keys: [{ name: client, group: default, secret: ${KEY} }]
`;
}

/** None of these may reach a client. */
function forbidden(): string[] {
  return [
    CREDENTIAL,
    ...CANARY_WORDS,
    ...ACCOUNTS,
    "canary-5b7e",
    new URL(simulator.url).host,
    leaky.host,
    "fault/canary",
    "sim-upstream-canary",
    ...LEAKS,
    "org-simulator",
  ];
}

/** Status line, headers and body as received on the wire. */
async function readBytes(method: string, path: string, body?: unknown): Promise<string> {
  const text = body === undefined ? "" : JSON.stringify(body);
  const response = await rawRequest(
    gateway.url,
    `${method} /v1${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  );
  return `${response.head}\n\n${response.body}`;
}

function expectClean(bytes: string): void {
  const found = forbidden().filter((secret) => bytes.includes(secret));
  expect([found, found.length === 0 ? "" : bytes]).toEqual([[], ""]);
}

describe("an upstream with secrets in its headers and error bodies", () => {
  test.each(CANARY_CASES)("does not leak them: %s at %s (stream: %p)", async (fault, path, stream, index) => {
    const before = simulator.ledger.totals().requests;
    const bytes = await readBytes("POST", path, BODIES[path]?.(`wary-${index}`, stream));
    expect(simulator.ledger.totals().requests).toBe(before + 1);
    expect(bytes).toMatch(fault === "canary-ok" ? /^HTTP\/1.1 200/ : /^HTTP\/1.1 (400|429|50[23])/);
    expectClean(bytes);
  });

  test.each(["canary@400", "canary@401", "canary@429", "canary@500"])(
    "does not leak them for a stored response: %s",
    async (fault) => {
      const made = await readBytes("POST", "/responses", {
        model: "plain",
        input: "Hello",
        background: true,
      });
      const id = /"id":"(resp_[^"]+)"/.exec(made)?.[1] ?? "";
      const calls = [
        ["GET", `/responses/${id}`],
        ["GET", `/responses/${id}?stream=true`],
        ["GET", `/responses/${id}/input_items`],
        ["POST", `/responses/${id}/cancel`],
        ["DELETE", `/responses/${id}`],
      ] as const;
      for (const [method, path] of calls) {
        simulator.force(fault, 1);
        const bytes = await readBytes(method, path);
        expect(bytes).toMatch(/^HTTP\/1.1 [45]/);
        expectClean(bytes);
      }
      simulator.force("canary-ok", 1);
      const fetched = await readBytes("GET", `/responses/${id}`);
      expect(fetched).toMatch(/^HTTP\/1.1 200/);
      expectClean(fetched);
    },
  );
});

describe("an upstream with secrets in its responses", () => {
  const buildPath = (leak: string) =>
    Object.keys(BODIES).find((path) => path.startsWith(`/${leak.split("-")[0]}`)) ?? "/chat/completions";

  test.each(LEAKS.map((leak, index) => [leak, index] as const))(
    "does not leak them: %s",
    async (leak, index) => {
      const before = leaky.requestCount();
      const stream = !/whole|400|html/.test(leak);
      const bytes = await readBytes(
        "POST",
        buildPath(leak),
        BODIES[buildPath(leak)]?.(`hushed-${index}`, stream),
      );
      expect(leaky.requestCount()).toBe(before + 1);
      expectClean(bytes);
      // A stream that has begun still ends with a valid terminal event.
      if (/later|event|text$/.test(leak)) expect(bytes).toMatch(/"error":\{/);
    },
  );

  test("does not leak them in a stored response", async () => {
    const index = LEAKS.indexOf("responses-whole-failed");
    const made = await readBytes("POST", "/responses", { model: `hushed-${index}`, input: "Hello" });
    expect(made).toContain("resp_leaky");
    const fetched = await readBytes("GET", "/responses/resp_leaky");
    expect(fetched).toContain('"status":"failed"');
    expectClean(fetched);
  });
});

describe("private headers of a client", () => {
  const OWN_HEADERS = {
    cookie: "session=client-canary",
    "x-forwarded-for": "203.0.113.7",
    forwarded: "for=203.0.113.7",
    "x-real-ip": "203.0.113.7",
    "user-agent": "codex_exec/0.166.0 client-canary",
    originator: "codex_exec",
    referer: "https://client-canary.example/",
    origin: "https://client-canary.example",
    "x-api-key": KEY,
    "api-key": KEY,
    "proxy-authorization": "Basic client-canary",
    "openai-organization": "org-client-canary",
    "openai-project": "proj-client-canary",
    "x-codex-turn-metadata": '{"workspaces":["client-canary"]}',
    "x-codex-window-id": "client-canary:1",
    "x-client-request-id": "client-canary",
    "session-id": "client-canary",
    "thread-id": "client-canary",
    traceparent: "00-client-canary",
    "x-stainless-os": "client-canary",
    "x-request-id": "client-canary",
    "accept-language": "client-canary",
    "x-custom-host": "client-canary",
    te: "trailers",
  };

  const ALLOWED = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "openai-beta",
    "user-agent",
    "x-codex-beta-features",
    "x-openai-internal-codex-responses-lite",
  ];

  const VENDOR = {
    "openai-beta": "responses_websockets=2026-02-06",
    "x-codex-beta-features": "remote_compaction_v2",
    "x-openai-internal-codex-responses-lite": "true",
  };

  test.each(Object.keys(BODIES))("are not forwarded at %s", async (path) => {
    const response = await fetch(`${gateway.url}/v1${path}`, {
      method: "POST",
      headers: {
        ...OWN_HEADERS,
        ...VENDOR,
        authorization: `Bearer ${KEY}`,
        "content-type": "application/json; x=client-canary",
      },
      body: JSON.stringify(BODIES[path]?.("plain", false)),
    });
    expect(response.status).toBe(200);
    const headers = simulator.ledger.last()?.headers ?? {};
    expect(headers).toMatchObject({
      ...VENDOR,
      "accept-encoding": "identity",
      authorization: `Bearer ${CREDENTIAL}`,
      "content-type": "application/json",
    });
    expect(Object.keys(headers).filter((name) => !ALLOWED.includes(name))).toEqual([]);
    expect(headers.host).toBe(new URL(simulator.url).host);
    const sent = JSON.stringify(headers);
    for (const own of ["client-canary", KEY, "203.0.113.7", "codex_exec"]) expect(sent).not.toContain(own);
  });

  test("are not forwarded when a stored response is retrieved", async () => {
    const made = await readBytes("POST", "/responses", { model: "plain", input: "Hello" });
    const id = /"id":"(resp_[^"]+)"/.exec(made)?.[1] ?? "";
    await fetch(`${gateway.url}/v1/responses/${id}?include[]=a&secret=client-canary`, {
      headers: { ...OWN_HEADERS, authorization: `Bearer ${KEY}` },
    });
    const entry = simulator.ledger.last();
    expect(entry?.path).toBe(`/v1/responses/${id}`);
    expect(entry?.headers.authorization).toBe(`Bearer ${CREDENTIAL}`);
    expect(Object.keys(entry?.headers ?? {}).filter((name) => !ALLOWED.includes(name))).toEqual([]);
    expect(JSON.stringify(entry)).not.toContain("client-canary");
  });
});

// Runs last: it checks what all tests above left behind.
test("neither the log nor the database contains a secret afterwards", async () => {
  expect(await gateway.stop()).toBe(0);
  const log = gateway.output();
  expect(log).toContain("attempt_failed");
  expect(log).toContain('"class":"credential"');
  for (const secret of [KEY, "client-canary", ...forbidden()]) expect(log).not.toContain(secret);

  const files = readdirSync(join(folder, "data"), { recursive: true })
    .map((name) => join(folder, "data", String(name)))
    .filter((path) => statSync(path).isFile());
  const stored = files.map((path) => readFileSync(path));
  // Proves that the database is readable, so that the absence of a secret means something.
  expect(stored.some((bytes) => bytes.includes("wary-0"))).toBe(true);
  for (const secret of [KEY, CREDENTIAL, ...CANARY_WORDS, "client-canary"]) {
    expect(stored.some((bytes) => bytes.includes(secret))).toBe(false);
  }
});
