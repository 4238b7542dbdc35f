/** Stops after each test what the test has started, also if the test or a check fails. */

import { afterEach } from "bun:test";

interface Stoppable {
  stop(): unknown;
}

/** Returns a function for what a test starts. `check` runs before each is stopped, the latest first. */
export function stopAfterEach<Kind extends Stoppable = Stoppable>(
  check: (one: Kind) => Promise<void> = async () => {},
): <One extends Kind>(starting: Promise<One>) => Promise<One> {
  const started: Kind[] = [];
  afterEach(async () => {
    const failures: unknown[] = [];
    for (const one of started.splice(0).reverse()) {
      await check(one).catch((error) => failures.push(error));
      await one.stop();
    }
    if (failures.length > 0) throw failures[0];
  });
  return async (starting) => {
    const one = await starting;
    started.push(one);
    return one;
  };
}
