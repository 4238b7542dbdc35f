import { beforeEach, describe, expect, test } from "bun:test";
import { upstreamFailure } from "../accounts/failure.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import { NO_RATE_LIMITS } from "../records/limits.ts";
import { openTestPool, route, type TestPool } from "./pool.test-support.ts";

let rig: TestPool;
beforeEach(() => {
  rig = openTestPool();
});

const eject = (target: AccountRoute) => {
  for (let i = 0; i < 3; i++) rig.pool.recordFailure(target, upstreamFailure("connect", "refused"));
};

describe("a conversation", () => {
  const ten = Array.from({ length: 10 }, (_, i) => route(`account-${i}`));
  const conversations = Array.from({ length: 1_000 }, (_, i) => `key_1 ${i}`);
  const homes = (routes: readonly AccountRoute[]) =>
    conversations.map((affinity) => {
      const { route: home, lease } = rig.take(routes, { affinity });
      rig.pool.recordSuccess(home, 100, null);
      lease.release();
      return home.account.id;
    });

  test("stays on its account while it is healthy, whatever happens to the others", () => {
    const before = homes(ten);
    let [stayed, asked] = [0, 0];
    for (const ill of ten.slice(0, 5)) {
      eject(ill);
      for (const [i, home] of homes(ten).entries()) {
        if (before[i] === ill.account.id) continue;
        asked++;
        if (home === before[i]) stayed++;
      }
      rig.pool.resetHealth(ill.account.id);
    }
    expect(stayed / asked).toBeGreaterThanOrEqual(0.99);
    expect(homes(ten)).toEqual(before);
  });

  test("moves at once when its account fails", () => {
    const [first = ""] = homes(ten);
    rig.pool.recordFailure(
      ten.find(({ account: { id } }) => id === first) ?? route(first),
      upstreamFailure("credential", "r"),
    );
    expect(homes(ten)).not.toContain(first);
  });

  test("moves in at most 15 % of cases when an eleventh account is added", () => {
    const before = homes(ten);
    const after = homes([...ten, route("account-10")]);
    const moved = after.filter((home, i) => home !== before[i]).length;
    expect(moved).toBeGreaterThan(0);
    expect(moved).toBeLessThanOrEqual(150);
  });

  test("leaves its account while it is at capacity, and returns", () => {
    const limits = { ...NO_RATE_LIMITS, concurrency: 1 };
    const routes = ten.map(({ account: { id } }) => route(id, { limits }));
    const { route: home, lease } = rig.take(routes, { affinity: "c" });
    const away = rig.take(routes, { affinity: "c" });
    expect(away.route).not.toBe(home);
    lease.release();
    expect(rig.take(routes, { affinity: "c" }).route).toBe(home);
  });

  test.each([3, 100])(
    "among %i accounts stays where its stored response was found, while that is healthy",
    (count) => {
      const routes = Array.from({ length: count }, (_, i) => route(`account-${i}`));
      const [before = ""] = homes(routes);
      const found = routes.find(({ account }) => account.id !== before);
      if (found === undefined) throw new Error("one account is no choice");
      const homeNow = () => rig.take(routes, { affinity: "key_1 0" }).route.account.id;
      rig.pool.moveConversation(routes, "key_1 0", found);
      expect(homeNow()).toBe(found.account.id);
      eject(found);
      expect(homeNow()).toBe(before);
      rig.pool.resetHealth(found.account.id);
      expect(homeNow()).toBe(found.account.id);
    },
  );

  test("has the same home account among a thousand, on the first and on later lookups", () => {
    const many = Array.from({ length: 1_000 }, (_, i) => route(`account-${i}`, { weight: 1 + (i % 3) }));
    const first = homes(many);
    expect(homes(many)).toEqual(first);
    rig.pool.retain(new Map(many.map((one) => [one.account.id, one.account])));
    expect(homes(many)).toEqual(first);
    expect(homes([...many])).toEqual(first);
  });
});
