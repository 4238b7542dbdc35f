/** Reports whether a model could be served right now, without naming the accounts. */

import { z } from "zod";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Candidate, Pool } from "../../pool/pool.ts";

const AVAILABILITIES = ["available", "busy", "unavailable"] as const;

export const availabilityResponse = z.object({
  /** `busy`: a request would wait in a queue. `unavailable`: all accounts that serve it are cooling down or parked. */
  status: z.enum(AVAILABILITIES),
  /** When that may end, if it is known. */
  frees_at: z.number().nullable(),
});
type Availability = z.output<typeof availabilityResponse>;

export function computeAvailability(
  pool: Pick<Pool, "describe">,
  routes: readonly AccountRoute[],
  nowMs: number,
): Availability {
  return computeCandidateAvailability(
    routes.map((route) => pool.describe(route)),
    nowMs,
  );
}

export function computeCandidateAvailability(candidates: readonly Candidate[], nowMs: number): Availability {
  if (candidates.some(({ reason }) => reason === null)) return { status: "available", frees_at: null };
  const busy = candidates.filter(({ reason }) => reason === "at_capacity" || reason === "rate_limited");
  const relevant = busy.length > 0 ? busy : candidates;
  const soonestMs = Math.min(...relevant.flatMap(({ freesInMs }) => freesInMs ?? []));
  return {
    status: busy.length > 0 ? "busy" : "unavailable",
    frees_at: Number.isFinite(soonestMs) ? Math.ceil(nowMs + soonestMs) : null,
  };
}
