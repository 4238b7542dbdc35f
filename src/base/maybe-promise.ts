/**
 * Values that are nearly always available at once and only sometimes a promise, such as a body that has arrived with its
 * head. `await` on such a value would cost every request a promise and let other work run in between, so the steps of a
 * request wait only if there is something to wait for:
 *
 * - in an async function: `const slot = isPending(taken) ? await taken : taken;`
 * - in any other function: `return whenReady(taken, useSlot);`
 */

export type MaybePromise<Value> = Value | Promise<Value>;

export function isPending<Value>(value: MaybePromise<Value>): value is Promise<Value> {
  return value instanceof Promise;
}

/** Calls `next` with the value: at once if the value is available, otherwise when its promise resolves. */
export function whenReady<Value, Result>(
  value: MaybePromise<Value>,
  next: (value: Value) => MaybePromise<Result>,
): MaybePromise<Result> {
  return value instanceof Promise ? value.then(next) : next(value);
}
