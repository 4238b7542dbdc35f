import { expect, test } from "bun:test";
import { eachEngine } from "../../test/support/each-engine.ts";
import { systemClock } from "../base/clock.ts";
import { BillingMetrics } from "../observe/billing-metrics.ts";
import { snapshot, transaction } from "../store/engine/db.ts";
import { readSetting, writeSetting } from "../store/settings/settings.ts";
import { measureCommits } from "./measured-db.ts";

eachEngine(({ open }) => {
  test("commits are measured with their duration; reads and failures are not", async () => {
    const { commits } = new BillingMetrics();
    const db = measureCommits(await open(), commits, systemClock);
    const count = () => commits.counts.reduce((sum, one) => sum + one, 0);
    await transaction(db, async (tx) => {
      // A transaction within another is part of it.
      await transaction(tx, (inner) => writeSetting(inner, "a", "1"));
      await Bun.sleep(30);
    });
    expect(count()).toBe(1);
    expect(commits.sum).toBeGreaterThan(0.025);
    expect(await snapshot(db, (tx) => readSetting(tx, "a"))).toBe("1");
    const failing = transaction(db, () => Promise.reject(new Error("no")));
    expect(await failing.catch((error: Error) => error.message)).toBe("no");
    expect(count()).toBe(1);
  });
});
