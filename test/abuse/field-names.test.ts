/**
 * Field names in another case: an upstream with a case-insensitive decoder would read them in addition to the checked
 * fields.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({ models: { "fast-chat": "sim-fast", dear: "sim-dear" } });
});

afterAll(() => gateway.stop());

const CHAT = '"model":"fast-chat","messages":[{"role":"user","content":"hello"}]';
const RESPONSE = '"model":"fast-chat","input":"hello"';
const BODIES: readonly (readonly [path: string, fields: string])[] = [
  ["/v1/chat/completions", CHAT],
  ["/v1/responses", RESPONSE],
  ["/v1/responses/input_tokens", RESPONSE],
  ["/v1/responses/compact", RESPONSE],
  ["/v1/embeddings", RESPONSE],
  ["/v1/images/generations", '"model":"fast-chat","prompt":"a fox"'],
  ["/v1/images/edits", '"model":"fast-chat","prompt":"a fox"'],
];

const VARIANTS: readonly (readonly [member: string, field: string])[] = [
  ['"Model":"dear"', "model"],
  ['"MODE\\u004c":"dear"', "model"],
  ['"N":99', "n"],
  ['"Max_Tokens":1', "max_tokens"],
  ['"max_to\u212aens":1', "max_tokens"],
  ['"max_to\\u212Aens":1', "max_tokens"],
  ['"Max_Output_Tokens":1', "max_output_tokens"],
  ['"MAX_COMPLETION_TOKENS":1', "max_completion_tokens"],
  ['"Previous_Response_Id":"resp_other"', "previous_response_id"],
  ['"\u017ftream":true', "stream"],
  ['"\ufb06ream":true', "stream"],
  ['"Background":true', "background"],
];

describe("a field name in another case", () => {
  test.each(BODIES)("is rejected by POST %s and named in the error", async (path, fields) => {
    for (const [member, field] of VARIANTS) {
      for (const body of [`{${member},${fields}}`, `{${fields},${member}}`]) {
        const response = await gateway.call(path, undefined, {
          method: "POST",
          body,
          headers: { "content-type": "application/json" },
        });
        expect([body, await expectRejection(response, 400)]).toMatchObject([
          body,
          { code: "unknown_parameter", param: field },
        ]);
      }
    }
  });

  test("is rejected in stream_options", async () => {
    const response = await gateway.call("/v1/chat/completions", undefined, {
      method: "POST",
      body: `{${CHAT},"stream":true,"stream_options":{"Include_Usage":false}}`,
      headers: { "content-type": "application/json" },
    });
    expect(await expectRejection(response, 400)).toMatchObject({
      code: "unknown_parameter",
      param: "stream_options.include_usage",
    });
  });

  test("is rejected in a form", async () => {
    for (const [name, field] of [
      ["Model", "model"],
      ["N", "n"],
      ["\u017fize", "size"],
    ] as const) {
      const form = new FormData();
      form.set("model", "fast-chat");
      form.set("prompt", "a fox");
      form.set(name, "dear");
      form.set("image", new Blob([new Uint8Array(64)], { type: "image/png" }), "a.png");
      const response = await gateway.call("/v1/images/edits", undefined, { method: "POST", body: form });
      expect(await expectRejection(response, 400)).toMatchObject({ code: "unknown_parameter", param: field });
    }
  });

  test("is rejected in a WebSocket turn", async () => {
    const socket = await openSocketClient(gateway.url);
    try {
      for (const [member, field] of VARIANTS) {
        for (const frame of [
          `{"type":"response.create",${RESPONSE},${member}}`,
          `{"type":"response.create","response":{${RESPONSE},${member}}}`,
        ]) {
          socket.send(frame);
          const [errorFrame] = await socket.until("error");
          expect([frame, errorFrame?.error]).toMatchObject([
            frame,
            { code: "unknown_parameter", param: field },
          ]);
        }
      }
    } finally {
      socket.close();
    }
  });
});

test("an escaped field name is decoded, and unknown fields may have any case", async () => {
  const response = await gateway.call("/v1/chat/completions", undefined, {
    method: "POST",
    body: '{"mod\\u0065l":"fast-chat","messages":[{"role":"user","content":"hello"}],"X_Own":1,"Metadata":{"Model":"x"}}',
    headers: { "content-type": "application/json" },
  });
  expect(response.status).toBe(200);
});
