/** Only a failure waits so long: a busy machine can delay any event by seconds. */
const WITHIN_MS = 30_000;
const EVERY_MS = 10;

/** Waits until the condition holds; fails after the deadline. A value that is not null counts as true. */
export async function eventually<T>(
  look: () => T | Promise<T>,
  withinMs = WITHIN_MS,
): Promise<Exclude<T, false | null | undefined>> {
  const deadlineMs = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found !== false && found !== null && found !== undefined) {
      return found as Exclude<T, false | null | undefined>;
    }
    if (performance.now() > deadlineMs) throw new Error(`still not so after ${withinMs} ms: ${look}`);
    await Bun.sleep(EVERY_MS);
  }
}
