import { expect, test } from "bun:test";
import { ANTHROPIC_PROFILE, HOSTED_CLAUDE_PROFILE } from "../../accounts/profiles.ts";
import { CHAT_CODEC } from "../chat/chat-codec.ts";
import { writeTarget } from "../hub/codec.test-support.ts";
import { writeMessagesRequest } from "./messages-request-writer.ts";

function write(parts: number) {
  const cache_control = { type: "ephemeral" };
  const content = Array.from({ length: parts }, (_, at) => ({
    type: "text",
    text: `part ${at}`,
    cache_control,
  }));
  const system = { role: "system", content: [{ type: "text", text: "Be brief.", cache_control }] };
  const request = CHAT_CODEC.readRequest(
    { messages: [system, { role: "user", content }] },
    { publicModel: "m", stream: false },
  );
  return writeMessagesRequest(request, writeTarget({ profile: ANTHROPIC_PROFILE }));
}

const countMarks = (value: unknown) => JSON.stringify(value).split('"cache_control"').length - 1;

test("four cache breakpoints of a client are kept", () => {
  const { body, dropped } = write(3);
  expect([countMarks(body), dropped]).toEqual([4, []]);
});

test("of more the last four are kept, and the others are named", () => {
  const { body, dropped } = write(6);
  expect([countMarks(body.system), countMarks(body.messages), dropped]).toEqual([0, 4, ["cache_control"]]);
  expect(JSON.stringify(body.messages)).toEndWith('"text":"part 5","cache_control":{"type":"ephemeral"}}]}]');
});

const mark = { cache_control: { type: "ephemeral" } };

function writeUnmarked(messages: readonly object[], profile = HOSTED_CLAUDE_PROFILE) {
  const request = CHAT_CODEC.readRequest({ messages }, { publicModel: "m", stream: false });
  return writeMessagesRequest(request, writeTarget({ profile })).body;
}

test("a request without breakpoints lets Anthropic place one, and has one on its last block where it is hosted", () => {
  const messages = [
    { role: "user", content: "First" },
    { role: "assistant", content: "Second" },
    { role: "user", content: "Third" },
  ];
  expect(writeUnmarked(messages, ANTHROPIC_PROFILE)).toMatchObject(mark);
  const hosted = writeUnmarked(messages);
  expect([hosted.cache_control, countMarks(hosted)]).toEqual([undefined, 1]);
  expect(hosted.messages).toMatchObject([{}, {}, { content: [{ text: "Third", ...mark }] }]);
});

test("the result of a tool is a block that has the breakpoint", () => {
  const call = { id: "call_1", type: "function", function: { name: "look", arguments: "{}" } };
  const { messages } = writeUnmarked([
    { role: "user", content: "Look" },
    { role: "assistant", tool_calls: [call] },
    { role: "tool", tool_call_id: "call_1", content: "Seen" },
  ]);
  expect(messages).toMatchObject([{}, {}, { content: [{ type: "tool_result", ...mark }] }]);
});
