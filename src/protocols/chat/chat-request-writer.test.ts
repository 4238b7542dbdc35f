import { expect, test } from "bun:test";
import { COMPATIBLE_PROFILE, OPENAI_PROFILE } from "../../accounts/profiles.ts";
import { hubRequest, message, NO_SETTINGS, writeTarget } from "../hub/codec.test-support.ts";
import { CHAT_CODEC } from "./chat-codec.ts";

const STOP = ["a", "b", "c", "d", "e"];

test.each([
  ["OpenAI gets the first four stop sequences", OPENAI_PROFILE, STOP.slice(0, 4), ["stop"]],
  ["other servers get all of them", COMPATIBLE_PROFILE, STOP, []],
])("%s", (_, profile, sent, dropped) => {
  const request = hubRequest("messages", {
    items: [message("user", "hi")],
    settings: { ...NO_SETTINGS, stop: STOP },
  });
  const written = CHAT_CODEC.writeRequest(request, writeTarget({ profile }));
  expect([written.body.stop, written.dropped]).toEqual([sent, dropped]);
});
