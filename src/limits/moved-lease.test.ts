/** A lease that gives up the subjects of one group, because its request continues under those of another. */

import { describe, expect, test } from "bun:test";
import { type CallerLimits, NO_LIMITS } from "../records/limits.ts";
import { openLimiter } from "./limiter.ts";
import type { Subject } from "./limiter-types.ts";

const HOUR_MS = 3_600_000;

const key = (limits: Partial<CallerLimits>): Subject => ({
  scope: "key",
  id: "key_1",
  limits: { ...NO_LIMITS, ...limits },
});

describe("a lease that moves to another group", () => {
  test("returns the slot, the request and the amounts of some subjects, and keeps those of the others", () => {
    const limiter = openLimiter({ monotonicMs: () => 1_000 });
    const windows = [{ perMs: HOUR_MS, requests: 10, tokens: 1_000, nano: 1_000 }];
    const own = key({ concurrency: 1, rpm: 10, tpm: 1_000, windows });
    const group: Subject = { ...own, scope: "group", id: "group_1" };
    const admission = limiter.admit([own, group], { tokens: 100, nano: 500 });
    if (!admission.ok) throw new Error("not admitted");
    admission.lease.cancelSubjects([group]);
    const unused = limiter.readStatus(group);
    expect(unused).toMatchObject({
      concurrency: { inUse: 0 },
      rpm: { used: 0 },
      tpm: { used: 0 },
      windows: [{ requests: { used: 0 }, tokens: { used: 0 }, nano: { used: 0 } }],
    });
    expect(limiter.readStatus(own)).toMatchObject({
      concurrency: { inUse: 1 },
      rpm: { used: 1 },
      tpm: { used: 100 },
    });
    admission.lease.settle({ tokens: 70, nano: 300 });
    admission.lease.release();
    expect(limiter.readStatus(group)).toEqual(unused);
    expect(limiter.readStatus(own)).toMatchObject({ concurrency: { inUse: 0 }, tpm: { used: 70 } });
  });

  test("serves a request that waits for the returned slot", () => {
    const limiter = openLimiter({ monotonicMs: () => 1_000 });
    const own = key({ concurrency: 5 });
    const group: Subject = { ...key({ concurrency: 1 }), scope: "group", id: "group_1" };
    const admission = limiter.admit([own, group], {});
    if (!admission.ok) throw new Error("not admitted");
    const blocker = limiter.findBlocker([group]);
    let woken = 0;
    if (blocker !== null) blocker.onRelease = () => woken++;
    admission.lease.cancelSubjects([group]);
    expect(woken).toBe(1);
    expect(limiter.admit([group], {}).ok).toBe(true);
  });
});
