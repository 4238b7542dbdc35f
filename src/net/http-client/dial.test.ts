import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Dialer, type DialReason, type DialTarget, openDialer } from "./dial.ts";
import { DialError } from "./dial-errors.ts";
import { mayDial } from "./ip-addresses.ts";

const CACHE_MS = 30_000;
const HOUR_MS = 3_600_000;

type Answer = string[] | Error | "never";

/** A resolver that returns its answers in order and repeats the last one, and a clock that stands still. */
function setUp(...answers: Answer[]) {
  const clock = { ms: 1_000, nowMs: () => clock.ms, monotonicMs: () => clock.ms };
  const asked: string[] = [];
  const lookup = (host: string): Promise<string[]> => {
    const answer = answers[Math.min(asked.length, answers.length - 1)] ?? [];
    asked.push(host);
    if (answer === "never") return new Promise(() => {});
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
  return { clock, asked, dialer: openDialer({ clock, lookup, lookupTimeoutMs: 20, cacheMs: CACHE_MS }) };
}

const notFound = () => Object.assign(new Error("getaddrinfo"), { code: "ENOTFOUND" });

async function refusal(dialer: Dialer, baseUrl: string, privateNetwork = false): Promise<DialError> {
  try {
    await dialer.resolve(baseUrl, privateNetwork);
  } catch (err) {
    if (err instanceof DialError) return err;
    throw err;
  }
  throw new Error(`${baseUrl} was not refused`);
}

async function reason(dialer: Dialer, baseUrl: string, privateNetwork = false): Promise<DialReason> {
  return (await refusal(dialer, baseUrl, privateNetwork)).reason;
}

const addressOf = (target: DialTarget) => new URL(target.origin).hostname;

/** Lets a background lookup finish. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("a base URL with an address in it", () => {
  test("resolves without a promise, to the same object every time", () => {
    const { dialer, asked } = setUp();
    const target = dialer.resolve("https://8.8.8.8:8443/v1", false);
    expect(target).toEqual({ origin: "https://8.8.8.8:8443", hostHeader: null, tls: null });
    expect(dialer.resolve("https://8.8.8.8:8443/v1", false)).toBe(target);
    expect(asked).toEqual([]);
  });

  test.each([
    "http://127.0.0.1",
    "http://0x7f.1",
    "http://[::1]:8080",
    "http://[::ffff:10.0.0.1]",
    "http://①②⑦.1",
  ])("%p needs the private network", async (baseUrl) => {
    const { dialer } = setUp();
    expect(await reason(dialer, baseUrl, false)).toBe("forbidden_address");
    expect(dialer.resolve(baseUrl, true)).not.toBeInstanceOf(Promise);
    expect(await reason(dialer, baseUrl, false)).toBe("forbidden_address");
  });

  test.each(["http://169.254.169.254", "http://[fd00:ec2::254]", "http://2852039166", "http://0.0.0.0"])(
    "%p is refused even on the private network",
    async (baseUrl) => {
      expect(await reason(setUp().dialer, baseUrl, true)).toBe("forbidden_address");
    },
  );
});

describe("a base URL that cannot be dialled", () => {
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

  test("one with a user name in it is refused", async () => {
    expect(await reason(setUp(["8.8.8.8"]).dialer, "https://operator@a.test/v1")).toBe("bad_url");
  });

  test("one with a password in it is refused, and the message does not repeat it", async () => {
    const err = await refusal(setUp(["8.8.8.8"]).dialer, "https://operator:hunter2@a.test/v1");
    expect(err.reason).toBe("bad_url");
    expect(err.message).not.toContain("hunter2");
  });
});

describe("a base URL with a name in it", () => {
  test("is dialled by address, with the name as Host and server name", async () => {
    const { dialer } = setUp(["8.8.8.8"]);
    expect(await dialer.resolve("https://api.example.com/v1", false)).toEqual({
      origin: "https://8.8.8.8",
      hostHeader: "api.example.com",
      tls: { serverName: "api.example.com" },
    });
  });

  test("keeps an odd port in origin and Host, and loses a final dot", async () => {
    const { dialer } = setUp(["2606:4700::1111"]);
    expect(await dialer.resolve("https://api.example.com.:8443/v1", false)).toEqual({
      origin: "https://[2606:4700::1111]:8443",
      hostHeader: "api.example.com:8443",
      tls: { serverName: "api.example.com" },
    });
  });

  test("needs no TLS name on plain http", async () => {
    const target = await setUp(["8.8.8.8"]).dialer.resolve("http://a.test", false);
    expect(target.tls).toBeNull();
  });

  test("may be given as a URL object", async () => {
    const { dialer, asked } = setUp(["8.8.8.8"]);
    const target = await dialer.resolve(new URL("https://a.test/v1"), false);
    expect(dialer.resolve("https://a.test/v1", false)).toBe(target);
    expect(asked).toEqual(["a.test"]);
  });

  test("is looked up once by many requests at a time", async () => {
    const { dialer, asked } = setUp(["8.8.8.8"]);
    await Promise.all(Array.from({ length: 50 }, () => dialer.resolve("https://a.test", false)));
    expect(asked).toEqual(["a.test"]);
  });

  test("resolves without a promise while its answer is fresh", async () => {
    const { dialer, asked, clock } = setUp(["8.8.8.8"]);
    const target = await dialer.resolve("https://a.test", false);
    clock.ms += CACHE_MS - 1;
    expect(dialer.resolve("https://a.test", false)).toBe(target);
    expect(asked).toHaveLength(1);
  });

  test("is looked up again behind the requests once its answer is old", async () => {
    const { dialer, asked, clock } = setUp(["8.8.8.8"], ["9.9.9.9"]);
    const before = await dialer.resolve("https://a.test", false);
    clock.ms += CACHE_MS;
    expect(dialer.resolve("https://a.test", false)).toBe(before);
    await settle();
    expect(dialer.resolve("https://a.test", false)).toHaveProperty("origin", "https://9.9.9.9");
    expect(asked).toHaveLength(2);
  });

  test("is looked up before use after a long silence", async () => {
    const { dialer, clock } = setUp(["8.8.8.8"], ["9.9.9.9"]);
    await dialer.resolve("https://a.test", false);
    clock.ms += CACHE_MS * 20;
    expect((await dialer.resolve("https://a.test", false)).origin).toBe("https://9.9.9.9");
  });

  test("that has been allowed a private address is still refused it without the permission", async () => {
    const { dialer } = setUp(["10.0.0.1"]);
    expect((await dialer.resolve("http://a.test", true)).origin).toBe("http://10.0.0.1");
    expect(await reason(dialer, "http://a.test", false)).toBe("forbidden_address");
  });
});

describe("several addresses", () => {
  const take = (dialer: Dialer, count: number) =>
    Promise.all(Array.from({ length: count }, () => dialer.resolve("https://a.test", false)));

  test("take turns", async () => {
    const { dialer } = setUp(["8.8.8.8", "9.9.9.9", "8.8.8.8"]);
    const addresses = (await take(dialer, 4)).map(addressOf).sort();
    expect(addresses).toEqual(["8.8.8.8", "8.8.8.8", "9.9.9.9", "9.9.9.9"]);
  });

  test("of the family the resolver puts second wait in reserve", async () => {
    const { dialer } = setUp(["2606:4700::1", "8.8.8.8", "2606:4700::2"]);
    const addresses = new Set((await take(dialer, 6)).map(addressOf));
    expect([...addresses].sort()).toEqual(["[2606:4700::1]", "[2606:4700::2]"]);
  });

  test("that proved unreachable are left out, then the reserve comes, then the first ones again", async () => {
    const { dialer } = setUp(["2606:4700::1", "8.8.8.8", "2606:4700::2"]);
    const [first, second] = await take(dialer, 2);
    if (first === undefined || second === undefined) throw new Error("two were asked for");
    dialer.unreachable(first);
    expect(new Set(await take(dialer, 4))).toEqual(new Set([second]));
    dialer.unreachable(second);
    const [reserve] = await take(dialer, 1);
    expect(reserve?.origin).toBe("https://8.8.8.8");
    if (reserve !== undefined) dialer.unreachable(reserve);
    expect(new Set(await take(dialer, 6))).toEqual(new Set([first, second]));
  });

  test("a target that was never handed out may be reported without harm", () => {
    setUp().dialer.unreachable({ origin: "http://8.8.8.8", hostHeader: null, tls: null });
  });

  test("of a mixed answer only the permitted ones are used", async () => {
    const { dialer } = setUp(["10.0.0.1", "8.8.8.8", "169.254.169.254", "not an address", "127.0.0.1"]);
    expect(new Set((await take(dialer, 6)).map(addressOf))).toEqual(new Set(["8.8.8.8"]));
  });

  test("none of which is permitted are a refusal that says why", async () => {
    const err = await refusal(setUp(["10.0.0.1", "169.254.169.254"]).dialer, "https://a.test");
    expect(err.reason).toBe("forbidden_address");
    expect(err.message).toBe('"a.test" may not be dialled: 10.0.0.1 is private, 169.254.169.254 is metadata');
  });
});

describe("a failing DNS", () => {
  test("is a refusal for a name never seen, and is asked again next time", async () => {
    const { dialer, asked } = setUp(notFound(), ["8.8.8.8"]);
    const err = await refusal(dialer, "https://a.test");
    expect([err.reason, err.message]).toEqual(["dns_failed", '"a.test" could not be looked up (ENOTFOUND)']);
    expect((await dialer.resolve("https://a.test", false)).origin).toBe("https://8.8.8.8");
    expect(asked).toHaveLength(2);
  });

  test("that never answers is given up", async () => {
    expect(await reason(setUp("never").dialer, "https://a.test")).toBe("dns_timeout");
  });

  test("that answers with no address is a refusal", async () => {
    expect(await reason(setUp([]).dialer, "https://a.test")).toBe("dns_failed");
  });

  test.each([["failing", notFound()], ["silent", "never"] as const])(
    "that is %s leaves the last good address in use",
    async (_, answer) => {
      const { dialer, clock } = setUp(["8.8.8.8"], answer);
      const good = await dialer.resolve("https://a.test", false);
      clock.ms += CACHE_MS * 20;
      expect(await dialer.resolve("https://a.test", false)).toBe(good);
      expect(dialer.resolve("https://a.test", false)).toBe(good);
    },
  );

  test("is not asked at every request meanwhile", async () => {
    const { dialer, asked, clock } = setUp(["8.8.8.8"], notFound());
    await dialer.resolve("https://a.test", false);
    clock.ms += CACHE_MS;
    for (let request = 0; request < 20; request++) {
      await dialer.resolve("https://a.test", false);
      await settle();
    }
    expect(asked).toHaveLength(2);
  });

  test("ends the use of an address that has been good for too long, even a busy one", async () => {
    const { dialer, clock } = setUp(["8.8.8.8"], notFound());
    const good = await dialer.resolve("https://a.test", false);
    const endMs = clock.ms + HOUR_MS;
    for (clock.ms += 20_000; clock.ms < endMs; clock.ms += 20_000) {
      expect(dialer.resolve("https://a.test", false)).toBe(good);
      await settle();
    }
    expect(await reason(dialer, "https://a.test")).toBe("dns_failed");
  });

  test("ends the use of an address that was good long ago", async () => {
    const { dialer, clock } = setUp(["8.8.8.8"], notFound());
    await dialer.resolve("https://a.test", false);
    clock.ms += HOUR_MS;
    expect(await reason(dialer, "https://a.test")).toBe("dns_failed");
  });
});

describe("rebinding", () => {
  test("a name that turns to a forbidden address is refused, and its old addresses are forgotten", async () => {
    const { dialer, clock } = setUp(["8.8.8.8"], ["127.0.0.1"], notFound());
    await dialer.resolve("https://a.test", false);
    clock.ms += CACHE_MS;
    await dialer.resolve("https://a.test", false);
    await settle();
    expect(await reason(dialer, "https://a.test")).toBe("dns_failed");
  });

  test("whatever the resolver answers and whenever it is asked, only a permitted address is dialled", async () => {
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
    const answer = fc.oneof(fc.array(address, { maxLength: 4 }), fc.constant(notFound()));
    const step = fc.record({
      waitMs: fc.constantFrom(0, CACHE_MS, CACHE_MS * 20, HOUR_MS),
      privateNetwork: fc.boolean(),
    });
    let dialled = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(answer, { minLength: 1 }), fc.array(step), async (answers, steps) => {
        const { dialer, clock } = setUp(...answers);
        for (const { waitMs, privateNetwork } of steps) {
          clock.ms += waitMs;
          try {
            const target = await dialer.resolve("http://a.test", privateNetwork);
            expect(mayDial(addressOf(target), { privateNetwork })).toEqual({ ok: true });
            dialled++;
            if (dialled % 3 === 0) dialer.unreachable(target);
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
