import { expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";

test("a wait that fails names its condition and the last value that it saw", async () => {
  const row = { state: "held" };
  await expect(eventually(() => row.state, { equals: "settled", withinMs: 20 })).rejects.toThrow(
    'Not within 20 ms: "settled" from () => row.state. Last seen: "held"',
  );
  await expect(eventually(() => row.state === "settled", 20)).rejects.toThrow("Last seen: false");
});

test("a wait returns the value, and an error of the condition ends it at once", async () => {
  let looks = 0;
  expect(await eventually(() => (++looks < 3 ? null : looks))).toBe(3);
  expect(await eventually(() => looks++ > 5, { equals: true })).toBe(true);
  await expect(eventually(() => Promise.reject(new Error("the process ended")))).rejects.toThrow(
    "the process ended",
  );
});
