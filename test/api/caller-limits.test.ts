/** What a key, its user and its group may use: taken in one step, refused with the time when it frees. */

import { afterEach, describe, expect, test } from "bun:test";
import { refusalOf } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { type PooledGateway, type PoolSetup, seenBy, startPooledGateway } from "../support/pooled-gateway.ts";

const running: PooledGateway[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((gateway) => gateway.stop()));
});

async function start(setup: Partial<PoolSetup>): Promise<PooledGateway> {
  const gateway = await startPooledGateway({ accounts: [{}], ...setup });
  running.push(gateway);
  return gateway;
}

const READ = (response: Response) => response.text();

interface Refusal {
  message: string;
  retryAfter: string | null;
  headers: Headers;
}

async function refused(response: Response): Promise<Refusal> {
  const error = await refusalOf(response, 429);
  expect(error).toMatchObject({ code: "rate_limit_exceeded", type: "rate_limit_error", param: null });
  const retryAfter = response.headers.get("retry-after");
  expect(retryAfter).toMatch(/^[1-9]\d?$/);
  expect(Number(retryAfter)).toBeLessThanOrEqual(60);
  return { message: error.message, retryAfter, headers: response.headers };
}

describe("requests a minute", () => {
  test("of 80 at once exactly 60 are admitted, and the others reach no upstream", async () => {
    const gateway = await start({ keys: { a: { limits: { rpm: 60 } } } });
    const responses = await Promise.all(
      Array.from({ length: 80 }, (_, i) => gateway.ask({ key: "a", stream: i % 2 === 0 })),
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
    const refusedRows = rows.filter(({ outcome }) => outcome === "refused");
    expect(refusedRows.length).toBe(20);
    for (const row of refusedRows) {
      expect(row).toMatchObject({
        attempts: 0,
        status: 429,
        error_code: "rate_limit_exceeded",
        input_tokens: 0,
      });
    }
  });

  test("what is left is told with every answer, whole or streamed", async () => {
    const gateway = await start({ keys: { a: { limits: { rpm: 3, tpm: 100_000 } } } });
    const left: (string | null)[] = [];
    for (const stream of [false, true, false]) {
      const response = await gateway.ask({ key: "a", stream });
      await response.text();
      left.push(response.headers.get("x-ratelimit-remaining-requests"));
      expect(response.headers.get("x-ratelimit-limit-tokens")).toBe("100000");
      expect(response.headers.get("x-ratelimit-reset-tokens")).toMatch(/s$/);
    }
    expect(left).toEqual(["2", "1", "0"]);
  });

  test("a key without limits is told none", async () => {
    const gateway = await start({ keys: { a: {} } });
    const response = await gateway.ask({ key: "a" });
    await response.text();
    expect([...response.headers.keys()].filter((name) => name.startsWith("x-ratelimit"))).toEqual([]);
  });

  test("a request that no account could serve takes nothing of the minute", async () => {
    const gateway = await start({ keys: { a: { limits: { rpm: 2 } } } });
    const [upstream] = gateway.upstreams;
    for (const fault of ["400", "context", "500"]) {
      upstream?.force(fault);
      const response = await gateway.ask({ key: "a" });
      await response.text();
      expect(response.status).not.toBe(429);
    }
    upstream?.force(null);
    for (const status of [200, 200, 429]) {
      const response = await gateway.ask({ key: "a" });
      await response.text();
      expect(response.status).toBe(status);
    }
  });

  test("a request that is refused as wrong takes nothing of it either", async () => {
    const gateway = await start({ keys: { a: { limits: { rpm: 1 } } } });
    expect((await gateway.ask({ key: "a", model: "unknown" })).status).toBe(404);
    expect((await gateway.ask({ key: "a", more: { messages: "no" } })).status).toBe(400);
    expect((await gateway.ask({ key: "a" })).status).toBe(200);
    expect((await gateway.ask({ key: "a" })).status).toBe(429);
  });

  test("a client that leaves when the upstream works already has used its request", async () => {
    const gateway = await start({
      accounts: [{ models: { pooled: "sim-fast@first=10s" } }],
      keys: { a: { limits: { rpm: 1 } } },
    });
    const leaving = new AbortController();
    const asked = gateway.ask({ key: "a", signal: leaving.signal }).catch(() => null);
    await eventually(() => seenBy(gateway)[0] === 1);
    leaving.abort();
    await asked;
    await eventually(() => gateway.upstreams[0]?.ledger.totals().inFlight === 0);
    await refused(await gateway.ask({ key: "a" }));
  });
});

describe("whose limit it is", () => {
  test("a group's limits hold for each of its keys apart", async () => {
    const gateway = await start({ group: { limits: { rpm: 2 } }, keys: { a: {}, b: {} } });
    for (const key of ["a", "a", "b", "b"]) expect((await gateway.ask({ key })).status).toBe(200);
    for (const key of ["a", "b"]) {
      const { message, headers } = await refused(await gateway.ask({ key }));
      expect(message).toStartWith("Rate limit reached for this API key: 2 requests per minute.");
      expect(headers.get("x-ratelimit-limit-requests")).toBe("2");
    }
  });

  test("of a key's own and its group's limit for each key the tighter counts", async () => {
    const gateway = await start({
      group: { limits: { rpm: 3 } },
      keys: { tight: { limits: { rpm: 1 } }, loose: { limits: { rpm: 9 } } },
    });
    const admitted = async (key: string) => {
      const statuses: number[] = [];
      for (let i = 0; i < 4; i++) statuses.push((await gateway.ask({ key })).status);
      return statuses;
    };
    expect(await admitted("tight")).toEqual([200, 429, 429, 429]);
    expect(await admitted("loose")).toEqual([200, 200, 200, 429]);
  });

  test("a group's common limits hold for all its keys together", async () => {
    const gateway = await start({ group: { group_limits: { rpm: 5 } }, keys: { a: {}, b: {} } });
    const responses = await Promise.all(
      Array.from({ length: 12 }, (_, i) => gateway.ask({ key: i % 2 === 0 ? "a" : "b" })),
    );
    const rejected = responses.filter(({ status }) => status === 429);
    expect(rejected.length).toBe(7);
    for (const response of rejected) {
      const { message, headers } = await refused(response);
      expect(message).toStartWith("Rate limit reached for this key's group: 5 requests per minute.");
      // Others' use is not this key's to see.
      expect(headers.get("x-ratelimit-limit-requests")).toBeNull();
    }
    expect(seenBy(gateway)).toEqual([5]);
  });

  test("a user's limits hold for all keys of that user, and for no other's", async () => {
    const gateway = await start({
      users: { "one@example.com": { rpm: 4 }, "two@example.com": {} },
      keys: {
        a: { user: "one@example.com" },
        b: { user: "one@example.com" },
        c: { user: "two@example.com" },
      },
    });
    for (const key of ["a", "b", "a", "b"]) expect((await gateway.ask({ key })).status).toBe(200);
    for (const key of ["a", "b"]) {
      const { message } = await refused(await gateway.ask({ key }));
      expect(message).toStartWith("Rate limit reached for your user: 4 requests per minute.");
    }
    for (let i = 0; i < 6; i++) expect((await gateway.ask({ key: "c" })).status).toBe(200);
  });

  test("a refusal by one of them consumes nothing of the others", async () => {
    const gateway = await start({
      users: { "one@example.com": { rpm: 3 } },
      keys: {
        a: { user: "one@example.com", limits: { rpm: 1 } },
        b: { user: "one@example.com" },
      },
    });
    const statuses: number[] = [];
    for (const key of ["a", "a", "a", "a", "b", "b", "b"]) statuses.push((await gateway.ask({ key })).status);
    expect(statuses).toEqual([200, 429, 429, 429, 200, 200, 429]);
  });
});

describe("windows", () => {
  test("hold their number of requests, and say when they free", async () => {
    const gateway = await start({ keys: { a: { limits: { windows: [{ per: "5h", requests: 3 }] } } } });
    for (let i = 0; i < 3; i++) expect((await gateway.ask({ key: "a" })).status).toBe(200);
    const { message, retryAfter } = await refused(await gateway.ask({ key: "a" }));
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
    expect((await gateway.ask({ key: "a" })).status).toBe(200);
    const { message } = await refused(await gateway.ask({ key: "a" }));
    expect(message).toStartWith(`Rate limit reached for this key's group: 1 requests per ${words}.`);
  });

  test("of tokens hold what was really used", async () => {
    const gateway = await start({
      users: { "one@example.com": { windows: [{ per: "1d", tokens: 1_500 }] } },
      keys: { a: { user: "one@example.com" } },
    });
    // Each is taken to need more than 500 tokens, and needs far fewer.
    for (let i = 0; i < 5; i++) {
      const response = await gateway.ask({ key: "a" });
      await response.text();
      expect(response.status).toBe(200);
    }
    const { message } = await refused(
      await gateway.ask({ key: "a", more: { max_completion_tokens: 1_490 } }),
    );
    expect(message).toMatch(
      /^Rate limit reached for your user: 1500 tokens per day, of which \d+ are left: fewer than this request may use\. /,
    );
  });
});

describe("tokens a minute", () => {
  test("an estimate is reserved while a request is under way", async () => {
    const gateway = await start({
      accounts: [{ models: { pooled: "sim-fast@first=300ms" } }],
      keys: { a: { limits: { tpm: 1_200 } } },
    });
    const responses = await Promise.all(Array.from({ length: 4 }, () => gateway.ask({ key: "a" })));
    expect(responses.map(({ status }) => status).toSorted()).toEqual([200, 200, 429, 429]);
    const rejected = responses.find(({ status }) => status === 429);
    const { message, headers } = await refused(rejected ?? new Response());
    expect(message).toMatch(
      /^Rate limit reached for this API key: 1200 tokens per minute, of which \d+ are left: fewer than this request may use\. /,
    );
    expect(headers.get("x-ratelimit-limit-tokens")).toBe("1200");
  });

  test.each([false, true])(
    "the truth takes the estimate's place when it is known (stream: %p)",
    async (stream) => {
      const gateway = await start({ keys: { a: { limits: { tpm: 1_200 } } } });
      for (let i = 0; i < 5; i++) {
        const response = await gateway.ask({ key: "a", stream });
        await response.text();
        expect(response.status).toBe(200);
      }
      const response = await gateway.ask({ key: "a", more: { max_completion_tokens: 1 } });
      await response.text();
      const rows = await gateway.usageRows();
      const used = rows.map((row) => Number(row.input_tokens) + Number(row.output_tokens));
      const left = used.reduce((rest, tokens) => rest - tokens, 1_200);
      expect(response.headers.get("x-ratelimit-remaining-tokens")).toBe(String(left));
    },
  );
});

describe("simultaneous requests", () => {
  test("more than a key may have are refused at once without a queue, and admitted when one ends", async () => {
    const gateway = await start({
      accounts: [{ models: { pooled: "sim-fast@first=10s" } }],
      group: { queue: { max_waiting: 0 } },
      keys: { a: { limits: { concurrency: 2 } }, b: {} },
    });
    const leaving = new AbortController();
    const open = Array.from({ length: 2 }, () =>
      gateway.ask({ key: "a", signal: leaving.signal }).catch(() => null),
    );
    await eventually(() => gateway.upstreams[0]?.ledger.totals().inFlight === 2);
    const { message, retryAfter } = await refused(await gateway.ask({ key: "a" }));
    expect(message).toBe(
      "Rate limit reached for this API key: 2 simultaneous requests. It frees when one of them ends.",
    );
    expect(retryAfter).toBe("1");
    expect(seenBy(gateway)).toEqual([2]);
    leaving.abort();
    await Promise.all(open);
    const again = new AbortController();
    const admitted = eventually(async () => {
      const before = seenBy(gateway)[0] ?? 0;
      const asked = gateway.ask({ key: "a", signal: again.signal }).catch(() => null);
      const first = await Promise.race([asked, eventually(() => (seenBy(gateway)[0] ?? 0) > before)]);
      return first === true;
    });
    expect(await admitted).toBe(true);
    again.abort();
  });

  test("a whole minute of them, one after the other, is never refused", async () => {
    const gateway = await start({ keys: { a: { limits: { concurrency: 1 } } } });
    for (let i = 0; i < 60; i++) {
      const response = await gateway.ask({ key: "a", stream: i % 2 === 0 });
      await response.text();
      expect(response.status).toBe(200);
    }
  });
});
