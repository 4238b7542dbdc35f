import { describe, expect, test } from "bun:test";
import { isPending, whenReady } from "./maybe-promise.ts";

describe("whenReady", () => {
  test("continues at once with a value, and returns no promise", () => {
    expect(whenReady(2, (value) => value + 1)).toBe(3);
  });

  test("continues with the value of a promise", async () => {
    const result = whenReady(Promise.resolve(2), (value) => value + 1);
    expect(isPending(result)).toBe(true);
    expect(await result).toBe(3);
  });

  test("throws at once for a value, and rejects for a promise", async () => {
    const fail = () => {
      throw new Error("failed");
    };
    expect(() => whenReady(1, fail)).toThrow("failed");
    expect(await Promise.resolve(whenReady(Promise.resolve(1), fail)).catch(() => "rejected")).toBe(
      "rejected",
    );
  });
});
