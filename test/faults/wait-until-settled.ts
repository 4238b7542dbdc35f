/** Waits until recovery has settled what an ended process left behind. */

const SETTLED_WITHIN_MS = 150_000;

/**
 * Returns the number of holds that are left. Recovery asks the upstream for the usage of a background response, so
 * its row is written some time after the start.
 */
export async function waitUntilSettled(ledger: { count(table: "hold"): Promise<number> }): Promise<number> {
  const untilMs = performance.now() + SETTLED_WITHIN_MS;
  for (;;) {
    const holds = await ledger.count("hold");
    if (holds === 0 || performance.now() > untilMs) return holds;
    await Bun.sleep(250);
  }
}
