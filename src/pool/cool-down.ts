/**
 * How long an account cools down after each class of failure, and whether the failure concerns the account or a
 * model.
 */

import {
  type BlamelessFailure,
  FAILURE_CLASSES,
  type FailureClass,
  isBlameless,
} from "../accounts/failure.ts";

export interface CoolDown {
  readonly ms: number;
  /** After the cool-down, a single probe decides whether other requests may follow. */
  readonly probe: boolean;
}

/** The consequences of one failure class. */
interface CoolDownRule {
  /** What the failure concerns: the whole account, or one model on it. */
  readonly scope: "account" | "model";
  /** Failures in a row before a cool-down starts. */
  readonly strikes: number;
}

/** Failures that count against an account. */
export type CoolDownCause = Exclude<FailureClass, BlamelessFailure>;
export const COOL_DOWN_CAUSES = FAILURE_CLASSES.filter((kind): kind is CoolDownCause => !isBlameless(kind));

const RULES: Readonly<Record<CoolDownCause, CoolDownRule>> = {
  connect: { scope: "account", strikes: 3 },
  timeout: { scope: "model", strikes: 3 },
  reset: { scope: "model", strikes: 3 },
  credential: { scope: "account", strikes: 1 },
  rate_limited: { scope: "model", strikes: 1 },
  quota: { scope: "account", strikes: 1 },
  overloaded: { scope: "model", strikes: 1 },
  server: { scope: "model", strikes: 2 },
  bad_answer: { scope: "model", strikes: 2 },
  model_missing: { scope: "model", strikes: 1 },
};

export const coolDownRules = (kind: CoolDownCause): CoolDownRule => RULES[kind];

const EJECTED_MS = 5_000;
const EJECTED_MS_MAX = 300_000;
const BURST_MS = 1_000;
const BURST_MS_MAX = 60_000;
const OVERLOADED_MS_MIN = 2_000;
const OVERLOADED_MS_MAX = 10_000;
const MODEL_MISSING_MS = 300_000;
/** A quota may be raised, and a distant reset may be wrong: one request probes at this interval. */
const REPROBE_MS = 600_000;
const JITTER = 0.2;

/** `coolDownsInRow`: number of cool-downs in a row so far. */
export function coolDown(
  kind: CoolDownCause,
  hintMs: number | null,
  coolDownsInRow: number,
  random: () => number,
): CoolDown {
  switch (kind) {
    case "credential":
      return { ms: Number.POSITIVE_INFINITY, probe: false };
    case "connect":
    case "timeout":
    case "reset":
    case "server":
    case "bad_answer":
      return { ms: backoffMs(EJECTED_MS, EJECTED_MS_MAX, coolDownsInRow, random), probe: true };
    case "rate_limited":
      if (!hintMs) return { ms: backoffMs(BURST_MS, BURST_MS_MAX, coolDownsInRow, random), probe: false };
      // A burst limit ends at the time that the upstream names. A longer window may end earlier.
      return hintMs <= BURST_MS_MAX
        ? { ms: hintMs, probe: false }
        : { ms: Math.min(hintMs, REPROBE_MS), probe: true };
    case "quota":
      return { ms: REPROBE_MS, probe: true };
    case "overloaded": {
      const spread = OVERLOADED_MS_MIN + random() * (OVERLOADED_MS_MAX - OVERLOADED_MS_MIN);
      return { ms: Math.max(spread, Math.min(hintMs ?? 0, BURST_MS_MAX)), probe: false };
    }
    case "model_missing":
      return { ms: MODEL_MISSING_MS, probe: true };
  }
}

/** Whether the length depends on the number of failures and not on the upstream's hint. */
export function growsWithFailures(kind: CoolDownCause, hintMs: number | null): boolean {
  return coolDownRules(kind).strikes > 1 || (kind === "rate_limited" && !hintMs);
}

/** Doubles up to the cap. The jitter prevents that accounts that failed together are retried together. */
function backoffMs(baseMs: number, capMs: number, coolDownsInRow: number, random: () => number): number {
  const ms = baseMs * 2 ** Math.min(coolDownsInRow, 30) * (1 - JITTER + 2 * JITTER * random());
  return Math.min(capMs, ms);
}
