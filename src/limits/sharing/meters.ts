/** Names the limits of subjects across nodes, and finds them again on this node. */

import type { Scope } from "../limiter-types.ts";
import { advance } from "../sliding-window.ts";
import type { SubjectRegistry } from "../subject-registry.ts";
import type { SubjectMeter, SubjectState } from "../subject-state.ts";
import { CONCURRENCY_METER } from "./meter-names.ts";

/** What this node knows about a limit that nodes share. */
export interface MeterUse {
  /** What is divided: the limit without the use of earlier processes. */
  readonly limit: number;
  /** The use of this process. */
  readonly used: number;
}

export function nameMeter({ scope, id }: SubjectState, { kind, unit, perMs }: SubjectMeter): string {
  return `${kind} ${unit} ${perMs} ${scope} ${id}`;
}

export function nameConcurrency({ scope, id }: Pick<SubjectState, "scope" | "id">): string {
  return `${CONCURRENCY_METER} ${scope} ${id}`;
}

export function readMeterUse(meter: SubjectMeter, nowMs: number): MeterUse {
  advance(meter, nowMs);
  if (meter.past === null) return { limit: meter.max, used: meter.used };
  advance(meter.past, nowMs);
  const past = meter.past.used;
  return { limit: Math.max(0, meter.max - past), used: Math.max(0, meter.used - past) };
}

export interface NamedSubject {
  readonly scope: Scope;
  readonly id: string;
}

const SCOPES: readonly Scope[] = ["key", "user", "group", "account"];

/** Null for a name of a newer version. */
export function parseMeterSubject(name: string): NamedSubject | null {
  const parts = name.split(" ");
  const skipped = parts[0] === CONCURRENCY_METER ? 1 : 3;
  const scope = SCOPES.find((known) => known === parts[skipped]);
  return scope === undefined ? null : { scope, id: parts.slice(skipped + 1).join(" ") };
}

/** Null if no request of this node has used the subject, or if it no longer has this limit. */
export function findMeterUse(
  subjects: SubjectRegistry,
  name: string,
  nowMs: number,
): (MeterUse & { state: SubjectState }) | null {
  const subject = parseMeterSubject(name);
  const state = subject && subjects.get(subject.scope, subject.id);
  if (!state) return null;
  if (name.startsWith(CONCURRENCY_METER)) {
    const { concurrency } = state.limits;
    return concurrency === null ? null : { state, limit: concurrency, used: state.inUse };
  }
  const meter = state.meters.find((one) => nameMeter(state, one) === name);
  return meter === undefined ? null : { state, ...readMeterUse(meter, nowMs) };
}
