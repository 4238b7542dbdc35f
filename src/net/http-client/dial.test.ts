import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Dialer, type DialReason, type DialTarget } from "./dial.ts";
import { DialError } from "./dial-errors.ts";
import { mayDial } from "./ip-addresses.ts";

const PUBLIC = { privateNetwork: false };
const PRIVATE = { privateNetwork: true };

const CACHE_MS = 30_000;
const HOUR_MS = 3_600_000;

type ResponseBody = string[] | Error | "never";

/** A resolver that returns its responses in order and repeats the last one, and a clock that stands still. */
function setUp(...responses: ResponseBody[]) {
  const clock = { ms: 1_000, nowMs: () => clock.ms, monotonicMs: () => clock.ms };
  const asked: string[] = [];
  const lookup = (host: string): Promise<string[]> => {
    const response = responses[Math.min(asked.length, responses.length - 1)] ?? [];
    asked.push(host);
    if (response === "never") return new Promise(() => {});
    return response instanceof Error ? Promise.reject(response) : Promise.resolve(response);
  };
  return { clock, asked, dialer: new Dialer({ clock, lookup, lookupTimeoutMs: 20, cacheMs: CACHE_MS }) };
}

const notFound = () => Object.assign(new Error("getaddrinfo"), { code: "ENOTFOUND" });

async function rejection(dialer: Dialer, baseUrl: string, permission = PUBLIC): Promise<DialError> {
  try {
    await dialer.resolve(baseUrl, permission);
  } catch (err) {
    if (err instanceof DialError) return err;
    throw err;
  }
  throw new Error(`${baseUrl} was not refused`);
}

async function reason(dialer: Dialer, baseUrl: string, permission = PUBLIC): Promise<DialReason> {
  return (await rejection(dialer, baseUrl, permission)).reason;
}

const readAddress = (target: DialTarget) => new URL(target.origin).hostname;

/** Lets a background lookup finish. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("a base URL with an IP address", () => {
  test("resolves synchronously, always to the same object", () => {
    const { dialer, asked } = setUp();
    const target = dialer.resolve("https://8.8.8.8:8443/v1", PUBLIC);
    expect(target).toEqual({ origin: "https://8.8.8.8:8443", hostHeader: null, tls: null });
    expect(dialer.resolve("https://8.8.8.8:8443/v1", PUBLIC)).toBe(target);
    expect(asked).toEqual([]);
  });

  test.each([
    "http://127.0.0.1",
    "http://0x7f.1",
    "http://[::1]:8080",
    "http://[::ffff:10.0.0.1]",
    "http://①②⑦.1",
  ])("%p requires the private network", async (baseUrl) => {
    const { dialer } = setUp();
    expect(await reason(dialer, baseUrl, PUBLIC)).toBe("forbidden_address");
    expect(dialer.resolve(baseUrl, PRIVATE)).not.toBeInstanceOf(Promise);
    expect(await reason(dialer, baseUrl, PUBLIC)).toBe("forbidden_address");
  });

  test.each(["http://169.254.169.254", "http://[fd00:ec2::254]", "http://2852039166", "http://0.0.0.0"])(
    "%p is rejected even on the private network",
    async (baseUrl) => {
      expect(await reason(setUp().dialer, baseUrl, PRIVATE)).toBe("forbidden_address");
    },
  );
});

describe("an invalid base URL", () => {
  test.each([
    "",
    "api.example.com",
    "ftp://a.test",
    "file:///etc/passwd",
    "unix:/x",
    "http://",
    "http://256.1.1.1",
  ])("%p is a bad URL", async (baseUrl) => {
    expect(await reason(setUp().dialer, baseUrl)).toBe("bad_url");
  });

  test("with a user name is rejected", async () => {
    expect(await reason(setUp(["8.8.8.8"]).dialer, "https://operator@a.test/v1")).toBe("bad_url");
  });

  test("with a password is rejected, and the message does not repeat the password", async () => {
    const err = await rejection(setUp(["8.8.8.8"]).dialer, "https://operator:hunter2@a.test/v1");
    expect(err.reason).toBe("bad_url");
    expect(err.message).not.toContain("hunter2");
  });
});

describe("a base URL with a host name", () => {
  test("is dialed by address, with the name as Host and as server name", async () => {
    const { dialer } = setUp(["8.8.8.8"]);
    expect(await dialer.resolve("https://api.example.com/v1", PUBLIC)).toEqual({
      origin: "https://8.8.8.8",
      hostHeader: "api.example.com",
      tls: { serverName: "api.example.com" },
    });
  });

  test("keeps a custom port in origin and Host, and loses a trailing dot", async () => {
    const { dialer } = setUp(["2606:4700::1111"]);
    expect(await dialer.resolve("https://api.example.com.:8443/v1", PUBLIC)).toEqual({
      origin: "https://[2606:4700::1111]:8443",
      hostHeader: "api.example.com:8443",
      tls: { serverName: "api.example.com" },
    });
  });

  test("has no server name on plain http", async () => {
    const target = await setUp(["8.8.8.8"]).dialer.resolve("http://a.test", PUBLIC);
    expect(target.tls).toBeNull();
  });

  test("may be a URL object", async () => {
    const { dialer, asked } = setUp(["8.8.8.8"]);
    const target = await dialer.resolve(new URL("https://a.test/v1"), PUBLIC);
    expect(dialer.resolve("https://a.test/v1", PUBLIC)).toBe(target);
    expect(asked).toEqual(["a.test"]);
  });

  test("is looked up once for many concurrent requests", async () => {
    const { dialer, asked } = setUp(["8.8.8.8"]);
    await Promise.all(Array.from({ length: 50 }, () => dialer.resolve("https://a.test", PUBLIC)));
    expect(asked).toEqual(["a.test"]);
  });

  test("resolves synchronously while its lookup is fresh", async () => {
    const { dialer, asked, clock } = setUp(["8.8.8.8"]);
    const target = await dialer.resolve("https://a.test", PUBLIC);
    clock.ms += CACHE_MS - 1;
    expect(dialer.resolve("https://a.test", PUBLIC)).toBe(target);
    expect(asked).toHaveLength(1);
  });

  test("is looked up again in the background when its lookup is old", async () => {
    const { dialer, asked, clock } = setUp(["8.8.8.8"], ["9.9.9.9"]);
    const before = await dialer.resolve("https://a.test", PUBLIC);
    clock.ms += CACHE_MS;
    expect(dialer.resolve("https://a.test", PUBLIC)).toBe(before);
    await settle();
    expect(dialer.resolve("https://a.test", PUBLIC)).toHaveProperty("origin", "https://9.9.9.9");
    expect(asked).toHaveLength(2);
  });

  test("is looked up before use after a long idle time", async () => {
    const { dialer, clock } = setUp(["8.8.8.8"], ["9.9.9.9"]);
    await dialer.resolve("https://a.test", PUBLIC);
    clock.ms += CACHE_MS * 20;
    expect((await dialer.resolve("https://a.test", PUBLIC)).origin).toBe("https://9.9.9.9");
  });

  test("with a cached private address is still rejected without the private network", async () => {
    const { dialer } = setUp(["10.0.0.1"]);
    expect((await dialer.resolve("http://a.test", PRIVATE)).origin).toBe("http://10.0.0.1");
    expect(await reason(dialer, "http://a.test", PUBLIC)).toBe("forbidden_address");
  });
});

describe("a name with several addresses", () => {
  const take = (dialer: Dialer, count: number) =>
    Promise.all(Array.from({ length: count }, () => dialer.resolve("https://a.test", PUBLIC)));

  test("alternates between them", async () => {
    const { dialer } = setUp(["8.8.8.8", "9.9.9.9", "8.8.8.8"]);
    const addresses = (await take(dialer, 4)).map(readAddress).sort();
    expect(addresses).toEqual(["8.8.8.8", "8.8.8.8", "9.9.9.9", "9.9.9.9"]);
  });

  test("uses the second address family only as reserve", async () => {
    const { dialer } = setUp(["2606:4700::1", "8.8.8.8", "2606:4700::2"]);
    const addresses = new Set((await take(dialer, 6)).map(readAddress));
    expect([...addresses].sort()).toEqual(["[2606:4700::1]", "[2606:4700::2]"]);
  });

  test("skips unreachable addresses, then uses the reserve, then retries the first ones", async () => {
    const { dialer } = setUp(["2606:4700::1", "8.8.8.8", "2606:4700::2"]);
    const [first, second] = await take(dialer, 2);
    if (first === undefined || second === undefined) throw new Error("two sockets were requested");
    dialer.markUnreachable(first);
    expect(new Set(await take(dialer, 4))).toEqual(new Set([second]));
    dialer.markUnreachable(second);
    const [reserve] = await take(dialer, 1);
    expect(reserve?.origin).toBe("https://8.8.8.8");
    if (reserve !== undefined) dialer.markUnreachable(reserve);
    expect(new Set(await take(dialer, 6))).toEqual(new Set([first, second]));
  });

  test("ignores a report about an unknown target", async () => {
    const { dialer } = setUp(["8.8.8.8", "1.1.1.1"]);
    const before = new Set(await take(dialer, 4));
    expect(before.size).toBe(2);
    dialer.markUnreachable({ origin: "https://8.8.8.8", hostHeader: null, tls: null });
    expect(new Set(await take(dialer, 4))).toEqual(before);
  });

  test("uses only the permitted addresses", async () => {
    const { dialer } = setUp(["10.0.0.1", "8.8.8.8", "169.254.169.254", "not an address", "127.0.0.1"]);
    expect(new Set((await take(dialer, 6)).map(readAddress))).toEqual(new Set(["8.8.8.8"]));
  });

  test("fails with the reasons if no address is permitted", async () => {
    const err = await rejection(setUp(["10.0.0.1", "169.254.169.254"]).dialer, "https://a.test");
    expect(err.reason).toBe("forbidden_address");
    expect(err.message).toBe('"a.test" is not allowed: 10.0.0.1 is private, 169.254.169.254 is metadata');
  });
});

describe("a failing DNS lookup", () => {
  test("of an unknown name fails the dial, and is repeated at the next dial", async () => {
    const { dialer, asked } = setUp(notFound(), ["8.8.8.8"]);
    const err = await rejection(dialer, "https://a.test");
    expect([err.reason, err.message]).toEqual(["dns_failed", '"a.test" could not be resolved (ENOTFOUND)']);
    expect((await dialer.resolve("https://a.test", PUBLIC)).origin).toBe("https://8.8.8.8");
    expect(asked).toHaveLength(2);
  });

  test("without an answer times out", async () => {
    expect(await reason(setUp("never").dialer, "https://a.test")).toBe("dns_timeout");
  });

  test("without addresses fails the dial", async () => {
    expect(await reason(setUp([]).dialer, "https://a.test")).toBe("dns_failed");
  });

  test.each([["failing", notFound()], ["silent", "never"] as const])(
    "that is %s keeps the last good address in use",
    async (_, response) => {
      const { dialer, clock } = setUp(["8.8.8.8"], response);
      const good = await dialer.resolve("https://a.test", PUBLIC);
      clock.ms += CACHE_MS * 20;
      expect(await dialer.resolve("https://a.test", PUBLIC)).toBe(good);
      expect(dialer.resolve("https://a.test", PUBLIC)).toBe(good);
    },
  );

  test("is not repeated at every request", async () => {
    const { dialer, asked, clock } = setUp(["8.8.8.8"], notFound());
    await dialer.resolve("https://a.test", PUBLIC);
    clock.ms += CACHE_MS;
    for (let request = 0; request < 20; request++) {
      await dialer.resolve("https://a.test", PUBLIC);
      await settle();
    }
    expect(asked).toHaveLength(2);
  });

  test("stops the use of a good address after an hour, even a busy one", async () => {
    const { dialer, clock } = setUp(["8.8.8.8"], notFound());
    const good = await dialer.resolve("https://a.test", PUBLIC);
    const endMs = clock.ms + HOUR_MS;
    for (clock.ms += 20_000; clock.ms < endMs; clock.ms += 20_000) {
      expect(dialer.resolve("https://a.test", PUBLIC)).toBe(good);
      await settle();
    }
    expect(await reason(dialer, "https://a.test")).toBe("dns_failed");
  });

  test("stops the use of an address that was last good an hour ago", async () => {
    const { dialer, clock } = setUp(["8.8.8.8"], notFound());
    await dialer.resolve("https://a.test", PUBLIC);
    clock.ms += HOUR_MS;
    expect(await reason(dialer, "https://a.test")).toBe("dns_failed");
  });
});

describe("DNS rebinding", () => {
  test("a name that changes to a forbidden address is rejected, and its old addresses dropped", async () => {
    const { dialer, clock } = setUp(["8.8.8.8"], ["127.0.0.1"], notFound());
    await dialer.resolve("https://a.test", PUBLIC);
    clock.ms += CACHE_MS;
    await dialer.resolve("https://a.test", PUBLIC);
    await settle();
    expect(await reason(dialer, "https://a.test")).toBe("dns_failed");
  });

  test("only permitted addresses are dialed, for any lookup results and timing", async () => {
    const address = fc.constantFrom(
      "8.8.8.8",
      "9.9.9.9",
      "2606:4700::1",
      "127.0.0.1",
      "10.0.0.1",
      "169.254.169.254",
      "::ffff:127.0.0.1",
      "64:ff9b::a9fe:a9fe",
      "fd00:ec2::254",
      "nonsense",
    );
    const response = fc.oneof(fc.array(address, { maxLength: 4 }), fc.constant(notFound()));
    const step = fc.record({
      waitMs: fc.constantFrom(0, CACHE_MS, CACHE_MS * 20, HOUR_MS),
      privateNetwork: fc.boolean(),
    });
    let dialled = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(response, { minLength: 1 }), fc.array(step), async (responses, steps) => {
        const { dialer, clock } = setUp(...responses);
        for (const { waitMs, privateNetwork } of steps) {
          clock.ms += waitMs;
          try {
            const target = await dialer.resolve("http://a.test", { privateNetwork });
            expect(mayDial(readAddress(target), { privateNetwork })).toEqual({ ok: true });
            dialled++;
            if (dialled % 3 === 0) dialer.markUnreachable(target);
          } catch (err) {
            expect(err).toBeInstanceOf(DialError);
          }
          await settle();
        }
      }),
      { numRuns: 300 },
    );
    expect(dialled).toBeGreaterThan(0);
  });
});
