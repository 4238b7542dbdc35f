import { describe, expect, test } from "bun:test";
import { findResponseId } from "./response-id.ts";

function find(event: string): string | null {
  const bytes = Buffer.from(event);
  return findResponseId(bytes, 0, bytes.length);
}

describe("the id of an event's response", () => {
  test.each([
    ["at its beginning", '{"type":"response.created","response":{"id":"resp_1","output":[]}}'],
    ["after other members", '{"response":{"output":[],"id":"resp_1"},"type":"response.created"}'],
  ])("is found %s", (_, event) => {
    expect(find(event)).toBe("resp_1");
  });

  test.each([
    ["is missing", '{"response":{"output":[]}}'],
    ["is no string", '{"response":{"id":1}}'],
    ["is of megabytes", `{"response":{"id":"${"x".repeat(1024 * 1024)}"}}`],
    ["is of megabytes after other members", `{"response":{"output":[],"id":"${"x".repeat(1024 * 1024)}"}}`],
  ])("that %s is null", (_, event) => {
    expect(find(event)).toBeNull();
  });
});
