/** Long windows outlive a process: the limiter is seeded with the stored use of processes that have ended. */

import type { Clock } from "../../base/clock.ts";
import type { LateUse } from "../../limits/late-use.ts";
import type { PastUse, SeededLimiter, Subject } from "../../limits/limiter-types.ts";
import type { KeyIndex } from "../../policy/key-index.ts";
import type { LivePolicy } from "../../policy/live-policy.ts";
import type { PolicyGroup } from "../../policy/snapshot.ts";
import type { CallerLimits } from "../../records/limits.ts";
import type { Db } from "../../store/engine/db.ts";
import { listUsers } from "../../store/identity/users.ts";
import { type KeyHour, useByHour } from "../../store/usage/usage.ts";
import { groupSubject, keySubjects, userSubject } from "./caller-limits.ts";

interface SubjectHistory {
  subject: Subject;
  usage: PastUse[];
}

interface WindowSeedsOptions {
  readonly db: Db;
  readonly policy: LivePolicy;
  readonly limiter: Pick<SeededLimiter, "seed">;
  readonly clock: Clock;
}

/** Subjects that are seeded before other work of the process continues. */
const SUBJECTS_PER_TURN = 500;

export class WindowSeeds {
  readonly #options: WindowSeedsOptions;

  constructor(options: WindowSeedsOptions) {
    this.#options = options;
  }

  /** Counts the stored use in all windows. */
  async seed(): Promise<void> {
    const { limiter } = this.#options;
    let count = 0;
    for (const { subject, usage } of (await this.#readHistories()).values()) {
      limiter.seed(subject, usage);
      count += 1;
      if (count % SUBJECTS_PER_TURN === 0) await Bun.sleep(0);
    }
  }

  /** A row of a request that an earlier process served was stored after the start. */
  add({ keyId, userId, groupId, tokens, nano }: LateUse): void {
    const { limiter, policy } = this.#options;
    const key = policy.keys.get(keyId);
    const users = new Map(userId === null || key === undefined ? [] : [[userId, key.userLimits]]);
    const use = { atAgoMs: 0, requests: 1, tokens, nano };
    for (const subject of subjectsIn(
      { keyId, userId, groupId },
      policy.keys,
      policy.snapshot().groups,
      users,
    ))
      limiter.seed(subject, [use]);
  }

  async #readHistories(): Promise<Map<string, SubjectHistory>> {
    const { db, policy, clock } = this.#options;
    const nowMs = clock.nowMs();
    const { groups } = policy.snapshot();
    const users = new Map((await listUsers(db)).map(({ id, limits }) => [id, limits]));
    const histories = new Map<string, SubjectHistory>();
    const longestMs = findLongestWindow(policy, users);
    if (longestMs === 0) return histories;
    for (const hour of await useByHour(db, nowMs - longestMs)) {
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
    return histories;
  }
}

/** Usage before the longest window need not be read. */
function findLongestWindow(
  policy: Pick<LivePolicy, "snapshot" | "keys">,
  users: ReadonlyMap<string, CallerLimits>,
): number {
  let longestMs = 0;
  const add = ({ windows }: CallerLimits) => {
    for (const { perMs } of windows) longestMs = Math.max(longestMs, perMs);
  };
  for (const { limits, groupLimits } of policy.snapshot().groups.values()) {
    add(limits);
    add(groupLimits);
  }
  for (const limits of users.values()) add(limits);
  for (const { limits } of policy.keys.values()) add(limits);
  return longestMs;
}

/** The subjects that an hour's use counts for. The use of a revoked key still counts for its user and its group. */
function subjectsIn(
  { keyId, userId, groupId }: Pick<KeyHour, "keyId" | "userId" | "groupId">,
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
