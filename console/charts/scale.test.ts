import { expect, test } from "bun:test";
import { labelledPoints, ticksUpTo } from "./scale.ts";

test("an axis has round steps and ends at or above the largest value", () => {
  expect(ticksUpTo(7)).toEqual([0, 2, 4, 6, 8]);
  expect(ticksUpTo(100)).toEqual([0, 25, 50, 75, 100]);
  expect(ticksUpTo(0.0031)).toEqual([0, 0.001, 0.002, 0.003, 0.004]);
});

test("an axis without values runs from 0 to 1", () => {
  expect(ticksUpTo(0)).toEqual([0, 1]);
  expect(ticksUpTo(Number.NaN)).toEqual([0, 1]);
});

test("labels are spread evenly over the points and never exceed the maximum count", () => {
  expect(labelledPoints(10, 5)).toEqual([0, 2, 4, 6, 8]);
  expect(labelledPoints(3, 8)).toEqual([0, 1, 2]);
  expect(labelledPoints(0, 8)).toEqual([]);
});
