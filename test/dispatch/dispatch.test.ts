/** Several accounts behind one model: a failure before any content is invisible to the client. */

import { describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  type AccountSetup,
  type PooledGateway,
  PUBLIC_MODEL,
  type RequestSetup,
  runConcurrently,
  seenBy,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { asRecord } from "../support/sse-text.ts";

const KINDS = [
  { family: "chat", stream: false },
  { family: "chat", stream: true },
  { family: "responses", stream: false },
  { family: "responses", stream: true },
] as const satisfies readonly RequestSetup[];

const EACH = 30;
/** Many more than the budget for second retries: the first failover is free. */
const AT_ONCE = 40;

async function withPool<T>(
  accounts: readonly AccountSetup[],
  use: (pool: PooledGateway) => Promise<T>,
): Promise<T> {
  const pool = await startPooledGateway({
    accounts,
    limits: { firstByteTimeoutMs: 1_100, unaryTimeoutMs: 1_100 },
  });
  try {
    return await use(pool);
  } finally {
    await pool.stop();
  }
}

function closedPort(): string {
  const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = listener;
  listener.stop(true);
  return `http://127.0.0.1:${port}/v1`;
}

async function expectWhole(response: Response, { family, stream }: (typeof KINDS)[number]): Promise<void> {
  const text = await response.text();
  expect([response.status, text]).toEqual([200, text]);
  expect(text).not.toContain('"error":{');
  expect(text).not.toContain("response.failed");
  if (stream) expect(text.trimEnd()).toEndWith("data: [DONE]");
  else expect(asRecord(JSON.parse(text)).object).toBe(family === "chat" ? "chat.completion" : "response");
}

/** A fault of the simulator, or an unreachable address. */
interface Broken {
  name: string;
  account: () => AccountSetup;
  fault: string | null;
}

const faulty = (fault: string): Broken => ({ name: fault, account: () => ({}), fault });

const BROKEN: readonly Broken[] = [
  { name: "a port without a listener", account: () => ({ url: closedPort() }), fault: null },
  { name: "a host that does not exist", account: () => ({ url: "http://nowhere.invalid/v1" }), fault: null },
  faulty("rst"),
  faulty("blackhole"),
  faulty("rst@chunk0"),
  faulty("rst@chunk1"),
  faulty("capacity-in-stream"),
  faulty("error-in-stream@chunk0"),
  faulty("html"),
  faulty("401"),
  faulty("403"),
  faulty("429@retry=2"),
  faulty("429-date"),
  faulty("429"),
  faulty("429-quota"),
  faulty("500"),
  faulty("502"),
  faulty("529"),
  faulty("badjson"),
];

describe("with one of two accounts broken, every request succeeds:", () => {
  test.each(BROKEN.map((broken) => [broken.name, broken] as const))("%s", async (_, { account, fault }) => {
    await withPool([account(), {}], async (pool) => {
      const [broken, healthy] = pool.upstreams;
      broken?.force(fault);
      const asks = KINDS.flatMap((kind) => Array.from({ length: EACH }, () => kind));
      await runConcurrently(asks, AT_ONCE, async (kind) => expectWhole(await pool.send(kind), kind));
      expect(healthy?.ledger.totals().requests).toBe(asks.length);
      const rows = await pool.usageRows();
      expect(rows.filter(({ outcome }) => outcome === "completed").length).toBe(asks.length);
      // The fault occurred, and was then avoided.
      const retried = rows.filter(({ attempts }) => attempts === 2).length;
      expect(retried).toBeGreaterThan(0);
      expect(retried).toBeLessThan(asks.length / 2);
    });
  });

  test("a whole response that is cut off in the middle", async () => {
    await withPool([{}, {}], async (pool) => {
      pool.upstreams[0]?.force("truncated");
      const asks = KINDS.filter(({ stream }) => !stream).flatMap((kind) =>
        Array.from({ length: EACH }, () => kind),
      );
      await runConcurrently(asks, AT_ONCE, async (kind) => expectWhole(await pool.send(kind), kind));
      expect(seenBy(pool)[0]).toBeGreaterThan(0);
    });
  });
});

describe("with both accounts broken, the client gets one error after one attempt each:", () => {
  const cases: { fault: string; status: number; code: string; retryAfter: string | null }[] = [
    { fault: "rst", status: 502, code: "upstream_error", retryAfter: null },
    { fault: "blackhole", status: 504, code: "upstream_timeout", retryAfter: null },
    { fault: "html", status: 502, code: "upstream_error", retryAfter: null },
    { fault: "401", status: 503, code: "no_available_account", retryAfter: null },
    { fault: "403", status: 503, code: "no_available_account", retryAfter: null },
    { fault: "429@retry=2", status: 429, code: "rate_limit_exceeded", retryAfter: "2" },
    { fault: "429", status: 429, code: "rate_limit_exceeded", retryAfter: "2" },
    { fault: "429-quota", status: 503, code: "no_available_account", retryAfter: null },
    { fault: "500", status: 502, code: "upstream_error", retryAfter: null },
    // By then both accounts cool down for 2 to 10 s.
    { fault: "529", status: 503, code: "server_is_overloaded", retryAfter: "any" },
    { fault: "capacity-in-stream", status: 503, code: "server_is_overloaded", retryAfter: "any" },
    { fault: "badjson", status: 502, code: "upstream_error", retryAfter: null },
  ];

  test.concurrent.each(cases)("$fault is $status $code", async ({ fault, status, code, retryAfter }) => {
    await Promise.all(
      KINDS.map((kind) =>
        withPool([{}, {}], async (pool) => {
          for (const upstream of pool.upstreams) upstream.force(fault);
          const response = await pool.send(kind);
          expect(await expectRejection(response, status)).toMatchObject({ code });
          const seconds = response.headers.get("retry-after");
          if (retryAfter === "any") expect(seconds).toMatch(/^([2-9]|10)$/);
          else expect(seconds).toBe(retryAfter);
          expect(seenBy(pool)).toEqual([1, 1]);
        }),
      ),
    );
  });
});

describe("a client that disconnects", () => {
  const inFlight = ({ upstreams }: PooledGateway) => upstreams[0]?.ledger.totals().inFlight;

  test("does not affect the health of the account", async () => {
    await withPool([{ models: { [PUBLIC_MODEL]: "fault/stall@chunk1" } }], async (pool) => {
      for (const kind of KINDS.filter(({ stream }) => stream)) {
        for (let i = 0; i < 5; i++) {
          const leaving = new AbortController();
          const asked = pool.send({ ...kind, signal: leaving.signal }).catch(() => null);
          await eventually(() => inFlight(pool), { equals: 1 });
          leaving.abort();
          await asked;
          await eventually(() => inFlight(pool), { equals: 0 });
        }
      }
      expect(seenBy(pool)).toEqual([10]);
      const rows = await pool.usageRows();
      expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(["client_gone"]));
    });
  });
});
