import { expect, test } from "bun:test";
import { wholePart } from "../../base/parts.ts";
import { readEffort, readSearchLimit } from "./repeated-settings.ts";

const MiB = 1024 * 1024;
const SETTINGS = '"reasoning":{"effort":"high"},"max_tool_calls":7';
const write = (more: string) => wholePart(Buffer.from(`{${SETTINGS},"output":[${more}]}`));

test("a response repeats the effort and the limit of searches", () => {
  const body = write('{"type":"message"}');
  expect([readEffort(body), readSearchLimit(body)]).toEqual(["high", 7]);
  const none = wholePart(Buffer.from('{"reasoning":null,"max_tool_calls":-1}'));
  expect([readEffort(none), readSearchLimit(none)]).toEqual([null, null]);
});

test.each([
  ["many values", write(`${"[],".repeat(450_000)}0`), ["high", 7]],
  ["100 MiB", write(`"${"a".repeat(100 * MiB)}"`), [null, null]],
])("a response with %s is not parsed", (_, body, found) => {
  // The first runs compile the code.
  const runsMs = Array.from({ length: 6 }, () => {
    const before = process.cpuUsage();
    expect<unknown>([readEffort(body), readSearchLimit(body)]).toEqual(found);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  expect(Math.min(...runsMs)).toBeLessThan(50);
});
