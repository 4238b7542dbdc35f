/** Long windows outlive the process: what was used before it started is told to the limiter when it starts. */

import type { Clock } from "../clock.ts";
import type { Limiter, Subject } from "../limits/limiter.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import type { Db } from "../store/db.ts";
import { useByHour } from "../store/usage.ts";
import { subjectsOf } from "./own-limits.ts";

const LONGEST_WINDOW_MS = 30 * 86_400_000;

interface Past {
  subject: Subject;
  used: { atAgoMs: number; requests: number; tokens: number }[];
}

export async function seedWindows(db: Db, policy: LivePolicy, limiter: Limiter, clock: Clock): Promise<void> {
  const nowMs = clock.nowMs();
  const { groups } = policy.snapshot();
  const pasts = new Map<string, Past>();
  for (const { keyId, groupId, atMs, requests, tokens } of await useByHour(db, nowMs - LONGEST_WINDOW_MS)) {
    const key = policy.keys.get(keyId);
    const group = groups.get(groupId);
    if (!key || !group) continue;
    for (const subject of subjectsOf({ key, group })) {
      if (!("windows" in subject.limits) || subject.limits.windows.length === 0) continue;
      const name = `${subject.scope} ${subject.id}`;
      const past = pasts.get(name) ?? { subject, used: [] };
      past.used.push({ atAgoMs: nowMs - atMs, requests, tokens });
      pasts.set(name, past);
    }
  }
  for (const { subject, used } of pasts.values()) limiter.seed(subject, used);
}
