import { describe, expect, test } from "bun:test";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import { limitEmails } from "../auth/password.ts";
import { openAuthThrottles } from "./auth-throttles.ts";
import { openPasswords } from "./password-hashing.ts";
import { addressBlock, openThrottle } from "./throttle.ts";

describe("a throttle", () => {
  const clock = { nowMs: 0 };
  const open = () => openThrottle({ tries: 2, windowMs: 10_000, monotonicMs: () => clock.nowMs });

  test("accepts a number of tries, then returns the time until the next one", () => {
    const throttle = open();
    expect([throttle.take("a"), throttle.take("a")]).toEqual([null, null]);
    clock.nowMs += 4_000;
    expect(throttle.take("a")).toBe(6);
    expect(throttle.take("b")).toBeNull();
    clock.nowMs += 6_000;
    expect(throttle.take("a")).toBeNull();
  });

  test("does not count tries that are returned", () => {
    const throttle = open();
    for (let n = 0; n < 9; n += 1) {
      expect(throttle.take("a")).toBeNull();
      throttle.release("a");
    }
  });
});

test("an IPv6 /64 block counts as one address", () => {
  expect(addressBlock("2001:db8:1:2:3:4:5:6")).toBe("2001:db8:1:2::/64");
  expect(addressBlock("2001:db8:1:2::9")).toBe("2001:db8:1:2::/64");
  expect(addressBlock("::1")).toBe("0:0:0:0::/64");
  expect(addressBlock("203.0.113.9")).toBe("203.0.113.9");
  expect(addressBlock("::ffff:203.0.113.9")).toBe("::ffff:203.0.113.9");
});

describe("authentication attempts", () => {
  const wrong = () => Promise.reject(new ApiError("wrong_credentials", "wrong"));
  const outcome = (work: Promise<unknown>) =>
    work.then(
      () => "in",
      (error: unknown) => (error instanceof ApiError ? error.code : "?"),
    );

  test("for one account from one address are limited, even concurrent ones, and only there", async () => {
    const { attempts } = openAuthThrottles(limits, { monotonicMs: () => 0 });
    const tries = Array.from({ length: 12 }, () => outcome(attempts.forAccount("ada", "10.0.0.1", wrong)));
    const outcomes = await Promise.all(tries);
    expect(outcomes.filter((one) => one === "wrong_credentials")).toHaveLength(10);
    expect(outcomes.filter((one) => one === "rate_limit_exceeded")).toHaveLength(2);
    expect(await outcome(attempts.forAccount("ada", "10.0.0.1", async () => {}))).toBe("rate_limit_exceeded");
    expect(await outcome(attempts.forAccount("ada", "10.0.0.2", async () => {}))).toBe("in");
    expect(await outcome(attempts.forAccount("bob", "10.0.0.1", async () => {}))).toBe("in");
  });

  test("for one account are limited over all addresses", async () => {
    const { attempts } = openAuthThrottles(limits, { monotonicMs: () => 0 });
    const tries = Array.from({ length: 203 }, (_, n) =>
      outcome(attempts.forAccount("ada", `10.0.0.${n}`, wrong)),
    );
    const outcomes = await Promise.all(tries);
    expect(outcomes.filter((one) => one === "rate_limit_exceeded")).toHaveLength(3);
  });

  test("of an authenticated user are limited and counted separately", async () => {
    const { attempts } = openAuthThrottles(limits, { monotonicMs: () => 0 });
    await Promise.all(
      Array.from({ length: 203 }, (_, n) => outcome(attempts.forAccount("ada", `10.0.0.${n}`, wrong))),
    );
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, () => outcome(attempts.forVerifiedCaller("ada", wrong))),
    );
    expect(outcomes.filter((one) => one === "wrong_credentials")).toHaveLength(10);
    expect(await outcome(attempts.forVerifiedCaller("bob", async () => {}))).toBe("in");
  });

  test("from one address are limited over all accounts", async () => {
    const { attempts } = openAuthThrottles(limits, { monotonicMs: () => 0 });
    const tries = Array.from({ length: 31 }, (_, n) =>
      outcome(attempts.forAccount(`user${n}`, "10.0.0.1", wrong)),
    );
    expect((await Promise.all(tries)).filter((one) => one === "rate_limit_exceeded")).toHaveLength(1);
  });

  test("that fail because of the gateway do not count", async () => {
    const { attempts } = openAuthThrottles(limits, { monotonicMs: () => 0 });
    const busy = () => Promise.reject(new ApiError("server_is_overloaded", "busy"));
    for (let n = 0; n < 40; n += 1) {
      expect(await outcome(attempts.forAccount("ada", "10.0.0.1", busy))).toBe("server_is_overloaded");
    }
  });

  test("that succeed do not count", async () => {
    const { attempts } = openAuthThrottles(limits, { monotonicMs: () => 0 });
    for (let n = 0; n < 40; n += 1) {
      expect(await outcome(attempts.forAccount("ada", "10.0.0.1", async () => {}))).toBe("in");
    }
  });
});

test("a sender above the e-mail limit does not use up the limits of recipients", () => {
  const control = { identity: openAuthThrottles(limits, { monotonicMs: () => 0 }) };
  const isRejected = (email: string, address: string) => {
    try {
      limitEmails(control, email, address);
      return false;
    } catch {
      return true;
    }
  };
  // One /64 block, whatever the end of the address.
  for (let n = 0; n < limits.emailsPerHour; n += 1) expect(isRejected(`u${n}`, `2001:db8::${n}`)).toBe(false);
  for (let n = 0; n < limits.emailsPerHour; n += 1) expect(isRejected("ada", `2001:db8::${n}`)).toBe(true);
  expect(isRejected("ada", "203.0.113.9")).toBe(false);
});

describe("password hashing", () => {
  test("runs a few at once, queues some, and rejects the rest", async () => {
    const passwords = openPasswords({ concurrency: 1, waitingMax: 1 });
    const outcomes = await Promise.all(
      [1, 2, 3].map((n) =>
        passwords.hash(`password ${n}`).then(
          () => "done",
          (error: unknown) => (error instanceof ApiError ? error.code : "?"),
        ),
      ),
    );
    expect(outcomes).toEqual(["done", "done", "server_is_overloaded"]);
    expect(await passwords.hash("afterwards")).toStartWith("$argon2id$");
  });

  test("uses the same parameters for an unknown user, and never accepts the password", async () => {
    const passwords = openPasswords({ concurrency: 2, waitingMax: 2 });
    const hash = await passwords.hash("right");
    expect(await passwords.verify("right", hash)).toBe(true);
    expect(await passwords.verify("wrong", hash)).toBe(false);
    expect(await passwords.verify("right", null)).toBe(false);
    const source = await Bun.file(`${import.meta.dir}/password-hashing.ts`).text();
    const parameters = hash.split("$").slice(0, 4).join("$");
    expect(source).toContain(`${parameters}$`);
  });
});
