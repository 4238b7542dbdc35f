/** Waits for conditions that can be observed. */

/** Only a failure waits so long: a busy machine can delay any event by seconds. */
const WITHIN_MS = 30_000;
const EVERY_MS = 10;
const SHOWN_CHARS_MAX = 2_000;

type Observed<T> = Exclude<T, false | null | undefined>;

/**
 * Waits until the condition holds, and fails after the deadline with the condition and the last value. With `equals`
 * the wait is for this value; without it, for any value that is neither false nor null nor undefined.
 */
export function eventually<T>(look: () => T | Promise<T>, withinMs?: number): Promise<Observed<T>>;
export function eventually<T>(
  look: () => T | Promise<T>,
  wanted: { readonly equals: NoInfer<T>; readonly withinMs?: number },
): Promise<T>;
export async function eventually<T>(
  look: () => T | Promise<T>,
  options: number | { readonly equals: T; readonly withinMs?: number } = WITHIN_MS,
): Promise<T> {
  // Created here, because its stack names the line of the test.
  const failure = new Error();
  const { withinMs = WITHIN_MS } = typeof options === "number" ? { withinMs: options } : options;
  const isWanted = (value: T) => (typeof options === "number" ? isObserved(value) : value === options.equals);
  const deadlineMs = performance.now() + withinMs;
  for (;;) {
    const value = await look();
    if (isWanted(value)) return value;
    if (performance.now() > deadlineMs) {
      const wanted = typeof options === "number" ? "a value" : show(options.equals);
      failure.message = `Not within ${withinMs} ms: ${wanted} from ${look}. Last seen: ${show(value)}`;
      throw failure;
    }
    await Bun.sleep(EVERY_MS);
  }
}

/** Waits until a count has not changed for this long, and returns it. */
export async function untilStill(count: () => number, forMs: number): Promise<number> {
  let last = count();
  let sinceMs = performance.now();
  return eventually(() => {
    const now = count();
    if (now !== last) sinceMs = performance.now();
    last = now;
    return performance.now() - sinceMs >= forMs ? now : null;
  });
}

function isObserved<T>(value: T): value is Observed<T> {
  return value !== false && value !== null && value !== undefined;
}

function show(value: unknown): string {
  return Bun.inspect(value, { colors: false }).slice(0, SHOWN_CHARS_MAX);
}
