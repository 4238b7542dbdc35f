/** The limits of a key, its user and its group: reserved in one step, rejected with the time until they are free. */

import { describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { type PooledGateway, type PoolSetup, seenBy, startPooledGateway } from "../support/pooled-gateway.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";

const stopLater = stopAfterEach();

function start(setup: Partial<PoolSetup>): Promise<PooledGateway> {
  return stopLater(startPooledGateway({ accounts: [{}], ...setup }));
}

const READ = (response: Response) => response.text();

interface Rejection {
  message: string;
  retryAfter: string | null;
  headers: Headers;
}

async function refused(response: Response): Promise<Rejection> {
  const error = await expectRejection(response, 429);
  expect(error).toMatchObject({ code: "rate_limit_exceeded", type: "rate_limit_error", param: null });
  const retryAfter = response.headers.get("retry-after");
  expect(retryAfter).toMatch(/^[1-9]\d?$/);
  expect(Number(retryAfter)).toBeLessThanOrEqual(60);
  return { message: error.message, retryAfter, headers: response.headers };
}

describe("requests per minute", () => {
  test("exactly 60 of 80 concurrent requests are admitted, and the others reach no upstream", async () => {
    const gateway = await start({ keys: { a: { limits: { rpm: 60 } } } });
    const responses = await Promise.all(
      Array.from({ length: 80 }, (_, i) => gateway.send({ key: "a", stream: i % 2 === 0 })),
    );
    const admitted = responses.filter(({ status }) => status === 200);
    const rejected = responses.filter(({ status }) => status === 429);
    expect([admitted.length, rejected.length]).toEqual([60, 20]);
    await Promise.all(admitted.map(READ));
    expect(seenBy(gateway)).toEqual([60]);
    for (const response of rejected) {
      const { message, headers } = await refused(response);
      expect(message).toMatch(
        /^Rate limit reached for this API key: 60 requests per minute\. Please try again in \d+s\.$/,
      );
      expect(headers.get("x-ratelimit-limit-requests")).toBe("60");
      expect(headers.get("x-ratelimit-remaining-requests")).toBe("0");
      expect(headers.get("x-ratelimit-reset-requests")).toMatch(/^(\d+m)?[\d.]+s$/);
    }
    const rows = await gateway.usageRows();
    const rejectedRows = rows.filter(({ outcome }) => outcome === "refused");
    expect(rejectedRows.length).toBe(20);
    for (const row of rejectedRows) {
      expect(row).toMatchObject({
        attempts: 0,
        status: 429,
        error_code: "rate_limit_exceeded",
        input_tokens: 0,
      });
    }
  });

  test("the remaining requests are reported with every response, whole or streamed", async () => {
    const gateway = await start({ keys: { a: { limits: { rpm: 3, tpm: 100_000 } } } });
    const left: (string | null)[] = [];
    for (const stream of [false, true, false]) {
      const response = await gateway.send({ key: "a", stream });
      await response.text();
      left.push(response.headers.get("x-ratelimit-remaining-requests"));
      expect(response.headers.get("x-ratelimit-limit-tokens")).toBe("100000");
      expect(response.headers.get("x-ratelimit-reset-tokens")).toMatch(/s$/);
    }
    expect(left).toEqual(["2", "1", "0"]);
  });

  test("a key without limits gets no rate-limit headers", async () => {
    const gateway = await start({ keys: { a: {} } });
    const response = await gateway.send({ key: "a" });
    await response.text();
    expect([...response.headers.keys()].filter((name) => name.startsWith("x-ratelimit"))).toEqual([]);
  });

  test.each([false, true])(
    "a request that its upstream rejects or fails counts, and uses no tokens (streamed: %p)",
    async (stream) => {
      const gateway = await start({
        keys: { a: { limits: { rpm: 4, tpm: 50_000, windows: [{ per: "5h", requests: 4 }] } } },
      });
      const [upstream] = gateway.upstreams;
      for (const [fault, status] of [
        ["400", 400],
        ["context", 400],
        ["500", 502],
      ] as const) {
        upstream?.force(fault, 1);
        const response = await gateway.send({ key: "a", stream });
        await response.text();
        expect(response.status).toBe(status);
      }
      const last = await gateway.send({ key: "a", stream });
      await last.text();
      expect([last.status, last.headers.get("x-ratelimit-remaining-requests")]).toEqual([200, "0"]);
      // Only the served request has used tokens.
      expect(Number(last.headers.get("x-ratelimit-remaining-tokens"))).toBeGreaterThan(40_000);
      await refused(await gateway.send({ key: "a" }));
      expect(seenBy(gateway)).toEqual([4]);
    },
  );

  test("60 invalid requests of a key with one request a minute reach the upstream once", async () => {
    const gateway = await start({ keys: { a: { limits: { rpm: 1 } } } });
    gateway.upstreams[0]?.force("400");
    const statuses: number[] = [];
    for (let i = 0; i < 60; i++) {
      const response = await gateway.send({ key: "a" });
      await response.text();
      statuses.push(response.status);
    }
    expect(statuses).toEqual([400, ...Array<number>(59).fill(429)]);
    expect(seenBy(gateway)).toEqual([1]);
  });

  test("a request that reached no upstream does not count", async () => {
    const gateway = await start({
      // A port that no server listens on.
      accounts: [{}, { url: "http://127.0.0.1:9/v1", models: { dead: "up" } }],
      keys: { a: { limits: { rpm: 1 } } },
    });
    const dead = await gateway.send({ key: "a", model: "dead" });
    await dead.text();
    expect([dead.status, (await gateway.send({ key: "a" })).status]).toEqual([502, 200]);
  });

  test("an invalid request does not count", async () => {
    const gateway = await start({ keys: { a: { limits: { rpm: 1 } } } });
    expect((await gateway.send({ key: "a", model: "unknown" })).status).toBe(404);
    expect((await gateway.send({ key: "a", more: { messages: "no" } })).status).toBe(400);
    expect((await gateway.send({ key: "a" })).status).toBe(200);
    expect((await gateway.send({ key: "a" })).status).toBe(429);
  });

  test("a client that disconnects after dispatch has used its request", async () => {
    const gateway = await start({
      accounts: [{ models: { pooled: "sim-fast@first=10s" } }],
      keys: { a: { limits: { rpm: 1 } } },
    });
    const leaving = new AbortController();
    const asked = gateway.send({ key: "a", signal: leaving.signal }).catch(() => null);
    await eventually(() => seenBy(gateway)[0], { equals: 1 });
    leaving.abort();
    await asked;
    await eventually(() => gateway.upstreams[0]?.ledger.totals().inFlight, { equals: 0 });
    await refused(await gateway.send({ key: "a" }));
  });
});

describe("the scope of a limit", () => {
  test("the limits of a group apply to each of its keys separately", async () => {
    const gateway = await start({ group: { limits: { rpm: 2 } }, keys: { a: {}, b: {} } });
    for (const key of ["a", "a", "b", "b"]) expect((await gateway.send({ key })).status).toBe(200);
    for (const key of ["a", "b"]) {
      const { message, headers } = await refused(await gateway.send({ key }));
      expect(message).toStartWith("Rate limit reached for this API key: 2 requests per minute.");
      expect(headers.get("x-ratelimit-limit-requests")).toBe("2");
    }
  });

  test("the lower of the key limit and the group's limit per key applies", async () => {
    const gateway = await start({
      group: { limits: { rpm: 3 } },
      keys: { tight: { limits: { rpm: 1 } }, loose: { limits: { rpm: 9 } } },
    });
    const admitted = async (key: string) => {
      const statuses: number[] = [];
      for (let i = 0; i < 4; i++) statuses.push((await gateway.send({ key })).status);
      return statuses;
    };
    expect(await admitted("tight")).toEqual([200, 429, 429, 429]);
    expect(await admitted("loose")).toEqual([200, 200, 200, 429]);
  });

  test("the group_limits of a group apply to all its keys together", async () => {
    const gateway = await start({ group: { group_limits: { rpm: 5 } }, keys: { a: {}, b: {} } });
    const responses = await Promise.all(
      Array.from({ length: 12 }, (_, i) => gateway.send({ key: i % 2 === 0 ? "a" : "b" })),
    );
    const rejected = responses.filter(({ status }) => status === 429);
    expect(rejected.length).toBe(7);
    for (const response of rejected) {
      const { message, headers } = await refused(response);
      expect(message).toStartWith("Rate limit reached for this key's group: 5 requests per minute.");
      // The key must not see the use of other keys.
      expect(headers.get("x-ratelimit-limit-requests")).toBeNull();
    }
    expect(seenBy(gateway)).toEqual([5]);
  });

  test("the limits of a user apply to all keys of that user, and to no other keys", async () => {
    const gateway = await start({
      users: { "one@example.com": { rpm: 4 }, "two@example.com": {} },
      keys: {
        a: { user: "one@example.com" },
        b: { user: "one@example.com" },
        c: { user: "two@example.com" },
      },
    });
    for (const key of ["a", "b", "a", "b"]) expect((await gateway.send({ key })).status).toBe(200);
    for (const key of ["a", "b"]) {
      const { message } = await refused(await gateway.send({ key }));
      expect(message).toStartWith("Rate limit reached for your user: 4 requests per minute.");
    }
    for (let i = 0; i < 6; i++) expect((await gateway.send({ key: "c" })).status).toBe(200);
  });

  test("a rejection by one limit consumes nothing of the others", async () => {
    const gateway = await start({
      users: { "one@example.com": { rpm: 3 } },
      keys: {
        a: { user: "one@example.com", limits: { rpm: 1 } },
        b: { user: "one@example.com" },
      },
    });
    const statuses: number[] = [];
    for (const key of ["a", "a", "a", "a", "b", "b", "b"])
      statuses.push((await gateway.send({ key })).status);
    expect(statuses).toEqual([200, 429, 429, 429, 200, 200, 429]);
  });
});

describe("windows", () => {
  test("limit the number of requests and report when they are free again", async () => {
    const gateway = await start({ keys: { a: { limits: { windows: [{ per: "5h", requests: 3 }] } } } });
    for (let i = 0; i < 3; i++) expect((await gateway.send({ key: "a" })).status).toBe(200);
    const { message, retryAfter } = await refused(await gateway.send({ key: "a" }));
    expect(retryAfter).toBe("60");
    const seconds =
      /^Rate limit reached for this API key: 3 requests per 5 hours\. Please try again in (\d+)s\.$/.exec(
        message,
      )?.[1];
    expect(Number(seconds)).toBeGreaterThan(4.9 * 3_600);
    expect(Number(seconds)).toBeLessThan(5.1 * 3_600);
    expect(seenBy(gateway)).toEqual([3]);
  });

  test.each([
    ["1d", "day"],
    ["7d", "7 days"],
    ["30d", "30 days"],
  ])("of %s are named in words", async (per, words) => {
    const gateway = await start({
      group: { group_limits: { windows: [{ per, requests: 1 }] } },
      keys: { a: {} },
    });
    expect((await gateway.send({ key: "a" })).status).toBe(200);
    const { message } = await refused(await gateway.send({ key: "a" }));
    expect(message).toStartWith(`Rate limit reached for this key's group: 1 requests per ${words}.`);
  });

  test("of tokens count the true use", async () => {
    const gateway = await start({
      users: { "one@example.com": { windows: [{ per: "1d", tokens: 1_500 }] } },
      keys: { a: { user: "one@example.com" } },
    });
    // The estimate is more than 500 tokens each; the true use is far lower.
    for (let i = 0; i < 5; i++) {
      const response = await gateway.send({ key: "a" });
      await response.text();
      expect(response.status).toBe(200);
    }
    const { message } = await refused(
      await gateway.send({ key: "a", more: { max_completion_tokens: 1_490 } }),
    );
    expect(message).toMatch(
      /^Rate limit reached for your user: 1500 tokens per day, of which \d+ are left, fewer than this request may need\. /,
    );
  });
});

describe("tokens per minute", () => {
  test("the estimate of a request is reserved while it is in flight", async () => {
    const gateway = await start({
      accounts: [{ models: { pooled: "sim-fast@first=300ms" } }],
      keys: { a: { limits: { tpm: 1_200 } } },
    });
    const responses = await Promise.all(Array.from({ length: 4 }, () => gateway.send({ key: "a" })));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([200, 200, 429, 429]);
    const rejected = responses.find(({ status }) => status === 429);
    const { message, headers } = await refused(rejected ?? new Response());
    expect(message).toMatch(
      /^Rate limit reached for this API key: 1200 tokens per minute, of which \d+ are left, fewer than this request may need\. /,
    );
    expect(headers.get("x-ratelimit-limit-tokens")).toBe("1200");
  });

  test.each([false, true])(
    "the true use replaces the estimate when it is known (stream: %p)",
    async (stream) => {
      const gateway = await start({ keys: { a: { limits: { tpm: 1_200 } } } });
      for (let i = 0; i < 5; i++) {
        const response = await gateway.send({ key: "a", stream });
        await response.text();
        expect(response.status).toBe(200);
      }
      const response = await gateway.send({ key: "a", more: { max_completion_tokens: 1 } });
      await response.text();
      const rows = await gateway.usageRows();
      const used = rows.map((row) => Number(row.input_tokens) + Number(row.output_tokens));
      const left = used.reduce((rest, tokens) => rest - tokens, 1_200);
      expect(response.headers.get("x-ratelimit-remaining-tokens")).toBe(String(left));
    },
  );
});

describe("concurrency", () => {
  test("requests over the limit are rejected at once without a queue, and admitted when one ends", async () => {
    const gateway = await start({
      accounts: [{ models: { pooled: "sim-fast@first=10s" } }],
      group: { queue: { max_waiting: 0 } },
      keys: { a: { limits: { concurrency: 2 } }, b: {} },
    });
    const leaving = new AbortController();
    const open = Array.from({ length: 2 }, () =>
      gateway.send({ key: "a", signal: leaving.signal }).catch(() => null),
    );
    await eventually(() => gateway.upstreams[0]?.ledger.totals().inFlight, { equals: 2 });
    const { message, retryAfter } = await refused(await gateway.send({ key: "a" }));
    expect(message).toBe(
      "Rate limit reached for this API key: 2 concurrent requests. Capacity becomes available when a request finishes.",
    );
    expect(retryAfter).toBe("1");
    expect(seenBy(gateway)).toEqual([2]);
    leaving.abort();
    await Promise.all(open);
    const again = new AbortController();
    const admitted = eventually(async () => {
      const before = seenBy(gateway)[0] ?? 0;
      const asked = gateway.send({ key: "a", signal: again.signal }).catch(() => null);
      const first = await Promise.race([asked, eventually(() => (seenBy(gateway)[0] ?? 0) > before)]);
      return first === true;
    });
    expect(await admitted).toBe(true);
    again.abort();
  });

  test("60 sequential requests are never rejected", async () => {
    const gateway = await start({ keys: { a: { limits: { concurrency: 1 } } } });
    for (let i = 0; i < 60; i++) {
      const response = await gateway.send({ key: "a", stream: i % 2 === 0 });
      await response.text();
      expect(response.status).toBe(200);
    }
  });
});
