/** Long windows outlive the process. At startup the limiter is seeded with the use before the start. */

import type { Limiter, PastUse, Subject } from "../../limits/limiter.ts";
import type { Clock } from "../../net/wire/clock.ts";
import type { KeyIndex } from "../../policy/key-index.ts";
import type { LivePolicy } from "../../policy/live-policy.ts";
import type { PolicyGroup } from "../../policy/snapshot.ts";
import type { CallerLimits } from "../../records.ts";
import type { Db } from "../../store/engine/db.ts";
import { listUsers } from "../../store/identity/users.ts";
import { type KeyHour, useByHour } from "../../store/usage/usage.ts";
import { groupSubject, keySubjects, userSubject } from "./caller-limits.ts";

const LONGEST_WINDOW_MS = 30 * 86_400_000;

interface SubjectHistory {
  subject: Subject;
  usage: PastUse[];
}

export async function seedWindows(db: Db, policy: LivePolicy, limiter: Limiter, clock: Clock): Promise<void> {
  const nowMs = clock.nowMs();
  const { groups } = policy.snapshot();
  const users = new Map((await listUsers(db)).map(({ id, limits }) => [id, limits]));
  const histories = new Map<string, SubjectHistory>();
  for (const hour of await useByHour(db, nowMs - LONGEST_WINDOW_MS)) {
    const { atMs, requests, tokens, costNano } = hour;
    const use = { atAgoMs: nowMs - atMs, requests, tokens, nano: Number(costNano) };
    for (const subject of subjectsIn(hour, policy.keys, groups, users)) {
      if (!("windows" in subject.limits) || subject.limits.windows.length === 0) continue;
      const name = `${subject.scope} ${subject.id}`;
      const history = histories.get(name) ?? { subject, usage: [] };
      history.usage.push(use);
      histories.set(name, history);
    }
  }
  for (const { subject, usage } of histories.values()) limiter.seed(subject, usage);
}

/** The subjects that an hour's use counts for. The use of a revoked key still counts for its user and its group. */
function subjectsIn(
  { keyId, userId, groupId }: KeyHour,
  keys: KeyIndex,
  groups: ReadonlyMap<string, PolicyGroup>,
  users: ReadonlyMap<string, CallerLimits>,
): Subject[] {
  const subjects: Subject[] = [];
  const group = groups.get(groupId);
  const key = keys.get(keyId);
  const userLimits = userId === null ? undefined : users.get(userId);
  if (group && key) subjects.push(...keySubjects(key, group));
  if (group) subjects.push(groupSubject(group));
  if (userId !== null && userLimits) subjects.push(userSubject(userId, userLimits));
  return subjects;
}
