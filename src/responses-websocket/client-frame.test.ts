import { describe, expect, test } from "bun:test";
import { type CreateFrame, readClientFrame, readFrameMetadata } from "./client-frame.ts";
import { turnStateFrame } from "./codex.ts";

const DEPTH = 128;

const read = (message: string) => readClientFrame("text", Buffer.from(message), DEPTH);

function created(message: string): CreateFrame {
  const frame = read(message);
  if (frame.kind !== "create") throw new Error(`read as ${frame.kind}`);
  return frame;
}

describe("a response.create message", () => {
  test("is parsed for its lane, its previous response and its generate flag", () => {
    const frame = created(
      '{"type":"response.create","stream_id":"a.b-c_1","generate":false,"previous_response_id":"resp_1","model":"m"}',
    );
    expect(frame).toMatchObject({ streamId: "a.b-c_1", generates: false, previousId: "resp_1" });
  });

  test("generates on the unnamed lane by default", () => {
    for (const more of [
      "",
      ',"generate":true',
      ',"generate":null',
      ',"stream_id":null,"previous_response_id":null',
    ]) {
      expect(created(`{"type":"response.create"${more}}`)).toMatchObject({
        streamId: null,
        generates: true,
        previousId: null,
      });
    }
  });

  test("may be nested; outer fields take precedence", () => {
    const frame = created(
      '{"type":"response.create","stream_id":"outer","response":{"model":"m","stream_id":"inner","generate":false}}',
    );
    expect(frame).toMatchObject({ streamId: "outer", generates: false });
    expect(Buffer.from(frame.bytes).toString()).toBe('{"model":"m","stream_id":"inner","generate":false}');
  });

  test("that is nested does not keep the memory around it alive", () => {
    const around = "x".repeat(100_000);
    const { bytes } = created(`{"type":"response.create","y":"${around}","response":{"model":"m"}}`);
    expect(bytes.buffer.byteLength).toBeLessThan(around.length);
  });

  test("with an outer model is not nested, whatever its response field contains", () => {
    expect(
      Buffer.from(created('{"type":"response.create","model":"m","response":{}}').bytes).toString(),
    ).toContain('"response":{}');
  });
});

test("an error names the lane of its message, if the lane is valid", () => {
  expect(read('{"type":"response.create","stream_id":"a","generate":7}')).toMatchObject({
    kind: "bad",
    streamId: "a",
    error: { code: "invalid_type", param: "generate" },
  });
  expect(read('{"type":"response.create","stream_id":""}')).toMatchObject({
    kind: "bad",
    streamId: null,
    error: { code: "invalid_stream_id" },
  });
  expect(read(`{"type":"response.create","input":${"[".repeat(200)}}`)).toMatchObject({
    kind: "bad",
    error: { code: "invalid_json" },
  });
});

describe("Codex metadata of a message", () => {
  const withMetadata = (metadata: unknown) =>
    readFrameMetadata(created(JSON.stringify({ type: "response.create", client_metadata: metadata })), DEPTH);

  test("is parsed", () => {
    const given = JSON.parse(turnStateFrame("0199-session")).headers["x-codex-turn-state"];
    expect(withMetadata({ "x-codex-turn-state": given })).toMatchObject({
      conversationName: "0199-session",
      isLite: false,
      traceparent: null,
    });
    expect(withMetadata({ ws_request_header_x_openai_internal_codex_responses_lite: "true" })).toMatchObject({
      conversationName: null,
      isLite: true,
      traceparent: null,
    });
  });

  test.each([
    "",
    "gwts_",
    "gwts_!!!",
    `gwts_${Buffer.from("a\r\nb: c").toString("base64url")}`,
    "elsewhere",
    7,
    null,
  ])("is ignored if the turn-state token is not the gateway's: %p", (token) => {
    expect(withMetadata({ "x-codex-turn-state": token })).toMatchObject({ conversationName: null });
  });

  test.each([[undefined], [null], ["text"], [[]]])("is null without metadata: %p", (metadata) => {
    expect(withMetadata(metadata)).toBeNull();
  });
});
