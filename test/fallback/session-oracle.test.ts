/** The oracle of tool sessions finds what would break a tool turn. */

import { expect, test } from "bun:test";
import { judgeSession } from "./session-oracle.ts";
import type { UpstreamRequest } from "./session-upstreams.ts";

const CALLS = [{ name: "run", input: { cmd: "a" }, output: "42" }];
const NOTHING_ISSUED = { first: new Set<string>(), second: new Set<string>() };

const user = { role: "user", content: "Please" };
const call = (id: string) => ({ type: "tool_use", id, name: "run", input: { cmd: "a" } });
const result = (id: string, content = "42") => ({ type: "tool_result", tool_use_id: id, content });

function judge(assistant: readonly object[], next: readonly object[]) {
  const messages = [user, { role: "assistant", content: assistant }, { role: "user", content: next }];
  const request: UpstreamRequest = {
    role: "second",
    path: "/v1/messages",
    body: { messages },
    turn: 1,
    outcome: "served",
  };
  return judgeSession({ requests: [request], issued: NOTHING_ISSUED }, CALLS).problems.join();
}

test("a call with its result is valid", () => {
  expect(judge([call("a")], [result("a")])).toBe("");
});

test.each([
  ["no result of a", [call("a")], [{ type: "text", text: "Next" }]],
  ["the result b has no call", [call("a")], [result("a"), result("b")]],
  ["the result a has no call", [call("a")], [result("a"), result("a")]],
  ["the call a is repeated", [call("a"), call("a")], [result("a")]],
  ["0 calls instead of 1", [{ type: "text", text: "Lost" }], [{ type: "text", text: "Next" }]],
  ["the result a is", [call("a")], [result("a", "Error")]],
  ["the call a is run", [{ ...call("a"), input: {} }], [result("a")]],
  [
    "state of another account",
    [{ type: "thinking", thinking: "", signature: "foreign" }, call("a")],
    [result("a")],
  ],
  ["an envelope of the gateway", [{ type: "text", text: "gws1.AAAA" }, call("a")], [result("a")]],
] as const)("finds: %s", (problem, assistant, next) => {
  expect(judge(assistant, next)).toContain(problem);
});
