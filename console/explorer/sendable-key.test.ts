import { expect, test } from "bun:test";
import { isSendable } from "./sendable-key.ts";

test("a shortened key, as lists show it, cannot be sent", () => {
  expect(isSendable("gwk_…KPlf")).toBe(false);
  expect(isSendable("gwk_abc KPlf")).toBe(false);
  expect(isSendable("gwk_abc_KPlf")).toBe(true);
});
