/** How long an account cools down after each class of failure, and whether its model or all of it. */

import {
  type BlamelessFailure,
  FAILURE_CLASSES,
  type FailureClass,
  isBlameless,
} from "../accounts/failure.ts";

interface CoolDown {
  readonly ms: number;
  /** After the cool-down, a single probe decides whether other requests may follow. */
  readonly probe: boolean;
}

interface CauseRule {
  /** What the failure concerns: the whole account, or one model on it. */
  readonly scope: "account" | "model";
  /** Failures in a row before a cool-down starts. */
  readonly strikes: number;
  /**
   * `fault`: a fault of the upstream itself. `persistent`: does not end before an administrator acts. `passing`: a limit
   * or a load that ends by itself.
   */
  readonly nature: "fault" | "persistent" | "passing";
  /** Any valid response disproves the cause. */
  readonly isDisprovable: boolean;
  /**
   * The upstream itself reported the failure, so other nodes are informed. Connections that fail, time out or break may
   * be a problem of this node's network, and must not take the account from the others.
   */
  readonly isShared: boolean;
}

/** Failures that count against an account. */
export type CoolDownCause = Exclude<FailureClass, BlamelessFailure>;
/** `operator`: an administrator parked the account. */
export type Cause = CoolDownCause | "operator";
export const COOL_DOWN_CAUSES = FAILURE_CLASSES.filter((kind): kind is CoolDownCause => !isBlameless(kind));

const rule = (
  scope: CauseRule["scope"],
  strikes: number,
  { nature, isDisprovable = false, isShared = true }: Partial<CauseRule> & Pick<CauseRule, "nature">,
): CauseRule => ({ scope, strikes, nature, isDisprovable, isShared });

const RULES: Readonly<Record<Cause, CauseRule>> = {
  connect: rule("account", 3, { nature: "fault", isShared: false }),
  timeout: rule("model", 3, { nature: "fault", isDisprovable: true, isShared: false }),
  reset: rule("model", 3, { nature: "fault", isDisprovable: true, isShared: false }),
  credential: rule("account", 1, { nature: "persistent" }),
  rate_limited: rule("model", 1, { nature: "passing" }),
  quota: rule("account", 1, { nature: "persistent" }),
  overloaded: rule("model", 1, { nature: "passing", isDisprovable: true }),
  server: rule("model", 2, { nature: "fault", isDisprovable: true }),
  bad_answer: rule("model", 2, { nature: "fault", isDisprovable: true }),
  model_missing: rule("model", 1, { nature: "persistent" }),
  operator: rule("account", 1, { nature: "persistent" }),
};
export const CAUSES = Object.keys(RULES) as readonly Cause[];

export const coolDownRules = (cause: Cause): CauseRule => RULES[cause];

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
