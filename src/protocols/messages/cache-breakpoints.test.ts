import { expect, test } from "bun:test";
import { CHAT_CODEC } from "../chat/chat-codec.ts";
import { ANTHROPIC_PROFILE } from "../hub/account-profile.ts";
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
