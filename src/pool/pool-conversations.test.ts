import { beforeEach, describe, expect, test } from "bun:test";
import { upstreamFailure } from "../accounts/failure.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import { openRig, type Rig, route } from "./pool.test-support.ts";

let rig: Rig;
beforeEach(() => {
  rig = openRig();
});

const eject = (target: AccountRoute) => {
  for (let i = 0; i < 3; i++) rig.pool.failed(target, upstreamFailure("connect", "refused"));
};

describe("a conversation", () => {
  const ten = Array.from({ length: 10 }, (_, i) => route(`account-${i}`));
  const conversations = Array.from({ length: 1_000 }, (_, i) => `key_1 ${i}`);
  const homes = (routes: readonly AccountRoute[]) =>
    conversations.map((affinity) => {
      const { route: home, lease } = rig.take(routes, { affinity });
      rig.pool.succeeded(home, 100, null);
      lease.release();
      return home.account.id;
    });

  test("stays on its account while that is well, whatever happens to the others", () => {
    const before = homes(ten);
    let [stayed, asked] = [0, 0];
    for (const ill of ten.slice(0, 5)) {
      eject(ill);
      for (const [i, home] of homes(ten).entries()) {
        if (before[i] === ill.account.id) continue;
        asked++;
        if (home === before[i]) stayed++;
      }
      rig.pool.forgive(ill.account.id);
    }
    expect(stayed / asked).toBeGreaterThanOrEqual(0.99);
    expect(homes(ten)).toEqual(before);
  });

  test("moves at once when its account falls ill", () => {
    const [first = ""] = homes(ten);
    rig.pool.failed(
      ten.find(({ account: { id } }) => id === first) ?? route(first),
      upstreamFailure("credential", "r"),
    );
    expect(homes(ten)).not.toContain(first);
  });

  test("moves for at most 15 % when an eleventh account is added", () => {
    const before = homes(ten);
    const after = homes([...ten, route("account-10")]);
    const moved = after.filter((home, i) => home !== before[i]).length;
    expect(moved).toBeGreaterThan(0);
    expect(moved).toBeLessThanOrEqual(150);
  });

  test("yields while its account is full, and comes back", () => {
    const limits = { concurrency: 1, rpm: null, tpm: null };
    const routes = ten.map(({ account: { id } }) => route(id, { limits }));
    const { route: home, lease } = rig.take(routes, { affinity: "c" });
    const away = rig.take(routes, { affinity: "c" });
    expect(away.route).not.toBe(home);
    lease.release();
    expect(rig.take(routes, { affinity: "c" }).route).toBe(home);
  });

  test.each([3, 100])(
    "lives among %i where what it refers to was found, as long as that is well",
    (count) => {
      const routes = Array.from({ length: count }, (_, i) => route(`account-${i}`));
      const [before = ""] = homes(routes);
      const found = routes.find(({ account }) => account.id !== before);
      if (found === undefined) throw new Error("one account is no choice");
      const homeNow = () => rig.take(routes, { affinity: "key_1 0" }).route.account.id;
      rig.pool.moved(routes, "key_1 0", found);
      expect(homeNow()).toBe(found.account.id);
      eject(found);
      expect(homeNow()).toBe(before);
      rig.pool.forgive(found.account.id);
      expect(homeNow()).toBe(found.account.id);
    },
  );

  test("has the same home among a thousand accounts, asked for the first time or again", () => {
    const many = Array.from({ length: 1_000 }, (_, i) => route(`account-${i}`, { weight: 1 + (i % 3) }));
    const first = homes(many);
    expect(homes(many)).toEqual(first);
    rig.pool.retain(new Map(many.map((one) => [one.account.id, one.account])));
    expect(homes(many)).toEqual(first);
    expect(homes([...many])).toEqual(first);
  });
});
