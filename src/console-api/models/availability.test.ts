import { expect, test } from "bun:test";
import type { Candidate } from "../../pool/pool.ts";
import { computeCandidateAvailability } from "./availability.ts";

const NOW_MS = 1_000_000;

const candidate = (reason: Candidate["reason"], freesInMs: number | null = null): Candidate => ({
  accountId: "a",
  accountName: "secret name",
  upstreamModel: "m",
  priority: 1,
  score: null,
  reason,
  freesInMs,
});

test.each<[string, Candidate[], object]>([
  [
    "available if one account is healthy",
    [candidate("parked"), candidate(null)],
    { status: "available", frees_at: null },
  ],
  [
    "busy until the first busy account is free",
    [candidate("rate_limited", 9_000), candidate("rate_limited", 4_000), candidate("cooling", 1_000)],
    { status: "busy", frees_at: NOW_MS + 4_000 },
  ],
  [
    "busy without a time if all accounts are at capacity",
    [candidate("at_capacity")],
    { status: "busy", frees_at: null },
  ],
  [
    "unavailable until the first cool-down ends",
    [candidate("cooling", 2_500.5), candidate("parked")],
    { status: "unavailable", frees_at: NOW_MS + 2_501 },
  ],
  ["unavailable without accounts", [], { status: "unavailable", frees_at: null }],
])("%s", (_, candidates, expected) => {
  expect(computeCandidateAvailability(candidates, NOW_MS)).toEqual(expected as never);
});
