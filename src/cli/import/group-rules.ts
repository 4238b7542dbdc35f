/** What the options of new-api allow the users of a group: which groups their tokens may name, and how many requests. */

import { pickNumbers, type SourceOptions } from "./source-options.ts";

export interface GroupRules {
  /** Why the source rejects a token that names this group; null if it does not. */
  findTokenObstacle(userGroup: string, tokenGroup: string): string | null;
  /** Whether users of a group pay more in another group than its ratio. */
  paysMore(userGroup: string, group: string): boolean;
  /** Requests per minute of each user of this group, rounded down; null if they are not limited. */
  findRpm(group: string): number | null;
}

/** In force until an administrator changes them. */
const USABLE_BY_DEFAULT = { default: "", vip: "" };
const RATIOS_BY_DEFAULT = { default: 1, vip: 1, svip: 1 };
const SUCCESSES_BY_DEFAULT = 1_000;

export function readGroupRules(options: SourceOptions): GroupRules {
  const usable = options.object("UserUsableGroups") ?? USABLE_BY_DEFAULT;
  const special = options.object("group_ratio_setting.group_special_usable_group") ?? {};
  const ratios = pickNumbers(options.object("GroupRatio") ?? RATIOS_BY_DEFAULT);
  const ownRatios = options.object("GroupGroupRatio") ?? {};
  const isUsable = (userGroup: string, group: string) => {
    const { [userGroup]: changes } = special;
    const names = typeof changes === "object" && changes !== null ? Object.keys(changes) : [];
    if (names.includes(group) || names.includes(`+:${group}`)) return true;
    return Object.hasOwn(usable, group) && !names.includes(`-:${group}`);
  };
  return {
    findTokenObstacle(userGroup, tokenGroup) {
      if (tokenGroup !== userGroup && !isUsable(userGroup, tokenGroup))
        return `its group "${tokenGroup}" is not open to its user`;
      return Object.hasOwn(ratios, tokenGroup)
        ? null
        : `its group "${tokenGroup}" has no ratio, so the source rejects it`;
    },
    paysMore(userGroup, group) {
      const own = pickNumbers(ownRatios[userGroup])[group];
      return own !== undefined && own > (ratios[group] ?? 1);
    },
    findRpm: readRateLimit(options),
  };
}

function readRateLimit(options: SourceOptions): GroupRules["findRpm"] {
  if (options.text("ModelRequestRateLimitEnabled") !== "true") return () => null;
  const readCount = (name: string, otherwise: number) => Number(options.text(name) ?? otherwise);
  const minutes = Math.max(readCount("ModelRequestRateLimitDurationMinutes", 1), 1);
  const general = [
    readCount("ModelRequestRateLimitCount", 0),
    readCount("ModelRequestRateLimitSuccessCount", SUCCESSES_BY_DEFAULT),
  ];
  const ofGroups = options.object("ModelRequestRateLimitGroup") ?? {};
  return (group) => {
    const { [group]: own } = ofGroups;
    // All requests, and successful ones. Zero is no limit.
    const counts = (Array.isArray(own) ? own.map(Number) : general).filter((count) => count > 0);
    return counts.length === 0 ? null : Math.floor(Math.min(...counts) / minutes);
  };
}
