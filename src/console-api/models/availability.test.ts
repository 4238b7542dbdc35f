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
  ["one account is well", [candidate("parked"), candidate(null)], { status: "available", frees_at: null }],
  [
    "the soonest of those that are busy",
    [candidate("rate_limited", 9_000), candidate("rate_limited", 4_000), candidate("cooling", 1_000)],
    { status: "busy", frees_at: NOW_MS + 4_000 },
  ],
  ["a place frees when somebody leaves it", [candidate("at_capacity")], { status: "busy", frees_at: null }],
  [
    "all recover",
    [candidate("cooling", 2_500.5), candidate("parked")],
    { status: "unavailable", frees_at: NOW_MS + 2_501 },
  ],
  ["there is none", [], { status: "unavailable", frees_at: null }],
])("%s", (_, candidates, told) => {
  expect(computeCandidateAvailability(candidates, NOW_MS)).toEqual(told as never);
});
