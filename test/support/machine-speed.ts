/**
 * How slow this machine is at the moment. CPU time of the same work doubles when the other thread of a core is busy or
 * the host is, so limits in milliseconds are those of a quiet machine and grow with this factor.
 */

const DOCUMENT = JSON.stringify(
  Array.from({ length: 4_000 }, (_, at) => ({ id: `item_${at}`, text: "a few words", list: [at, { at }] })),
);
/** The kernel counts CPU time in steps of 4 ms, so the rounds are measured together. */
const ROUNDS = 32;
/** CPU time of all rounds on a quiet machine, the one of bench/last-run.json. */
const QUIET_MS = 56;

/** At least 1. */
export function measureSlowdown(): number {
  const startMs = threadCpuMs();
  for (let round = 0; round < ROUNDS; round++) JSON.stringify(JSON.parse(DOCUMENT));
  return Math.max(1, (threadCpuMs() - startMs) / QUIET_MS);
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
