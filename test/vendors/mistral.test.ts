/** Mistral as its API behaves: it rejects ids of calls that are not nine letters and digits. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chatCall,
  chatCompletion,
  type Json,
  startVendorGateway,
  VENDOR_MODEL,
  type VendorGateway,
} from "./vendor-gateway.ts";

const OWN_ID = "D681PevKs";
const tool = { type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } };

interface ChatMessage {
  readonly tool_calls?: readonly { readonly id: string }[];
  readonly tool_call_id?: string;
}

const readIds = ({ messages }: Json) =>
  (messages as readonly ChatMessage[]).flatMap(({ tool_calls = [], tool_call_id }) => [
    ...tool_calls.map(({ id }) => id),
    ...(tool_call_id === undefined ? [] : [tool_call_id]),
  ]);

let gateway: VendorGateway;
const lastBody = () => gateway.received[0]?.at(-1)?.body ?? {};

beforeAll(async () => {
  gateway = await startVendorGateway([
    {
      account: { kind: "openai", vendor: "mistral" },
      respond({ body }) {
        const wrong = readIds(body).find((id) => !/^[a-zA-Z0-9]{9}$/.test(id));
        if (wrong !== undefined) {
          const message = `Tool call id was ${wrong} but must be a-z, A-Z, 0-9, with a length of 9.`;
          return Response.json(
            { object: "error", message, type: "invalid_request_function_call", code: "3280" },
            { status: 400 },
          );
        }
        return readIds(body).length > 2
          ? chatCompletion({ content: "Done" })
          : chatCompletion({ tool_calls: [chatCall(OWN_ID, "look", {})] }, "tool_calls");
      },
    },
  ]);
});
afterAll(() => gateway.stop());

const foreignCall = { id: "toolu_01A09q90qw90lq917835lq9", name: "look", input: {} };

describe("a conversation that began at another vendor", () => {
  const messages = (...later: object[]) => ({
    model: VENDOR_MODEL,
    max_tokens: 100,
    tools: [{ name: "look", input_schema: { type: "object" } }],
    messages: [
      { role: "user", content: "Look twice" },
      { role: "assistant", content: [{ type: "tool_use", ...foreignCall }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: foreignCall.id, content: "Seen" }] },
      ...later,
    ],
  });

  test("continues for a Messages client, with the same ids in each turn and Mistral's own ids unchanged", async () => {
    const first = await gateway.call("/v1/messages", messages());
    const { content } = (await first.json()) as { content: Json[] };
    expect([first.status, content]).toEqual([
      200,
      [{ type: "tool_use", id: OWN_ID, name: "look", input: {} }],
    ]);
    const [sentCall, sentOutput] = readIds(lastBody());
    expect(sentOutput).toBe(sentCall as string);

    const result = { type: "tool_result", tool_use_id: OWN_ID, content: "Seen again" };
    const second = await gateway.call(
      "/v1/messages",
      messages({ role: "assistant", content }, { role: "user", content: [result] }),
    );
    expect(second.status).toBe(200);
    expect(readIds(lastBody())).toEqual([sentCall, sentOutput, OWN_ID, OWN_ID] as string[]);
  });

  test("continues for a Chat client, whose body passes through otherwise unchanged", async () => {
    const body = (id: string) => ({
      model: VENDOR_MODEL,
      x_unknown: 12.5,
      tools: [tool],
      messages: [
        { role: "user", content: "Look" },
        { role: "assistant", tool_calls: [chatCall(id, "look", {})] },
        { role: "tool", tool_call_id: id, content: "Seen" },
      ],
    });
    const response = await gateway.call("/v1/chat/completions", body("call_NJ3abcdefghijkl"));
    expect(response.status).toBe(200);
    const [id = ""] = readIds(lastBody());
    expect(lastBody()).toEqual({ ...body(id), model: "upstream-model" });
  });
});

test("`any`, Mistral's name of a required call, is required at an account of another dialect", async () => {
  const other = await startVendorGateway([
    {
      account: { kind: "anthropic" },
      respond: () =>
        Response.json({
          id: "msg_1",
          type: "message",
          role: "assistant",
          model: "upstream-model",
          content: [{ type: "text", text: "Hi" }],
          stop_reason: "end_turn",
          usage: { input_tokens: 1, output_tokens: 1 },
        }),
    },
  ]);
  const messages = [{ role: "user", content: "Look" }];
  const response = await other.call("/v1/chat/completions", {
    model: VENDOR_MODEL,
    messages,
    tools: [tool],
    tool_choice: "any",
  });
  expect(response.status).toBe(200);
  expect(other.received[0]?.at(-1)?.body.tool_choice).toEqual({ type: "any" });
  await other.stop();
});
