import { describe, expect, test } from "bun:test";
import { openChatReader } from "../chat/chat-stream.ts";
import { openGeminiReader } from "../gemini/gemini-stream.ts";
import { openResponsesReader } from "../responses/responses-stream.ts";
import { reasoningChannel, type StreamReader, type TextSink } from "./stream.ts";

interface Heard extends TextSink {
  lanes: Record<number, string>;
  whole: string[];
}

function listen(): Heard {
  const heard: Heard = {
    lanes: {},
    whole: [],
    add(bytes, start, end, lane) {
      heard.lanes[lane] = (heard.lanes[lane] ?? "") + unescaped(bytes, start, end);
    },
    addWhole: (bytes, start, end) => heard.whole.push(unescaped(bytes, start, end)),
  };
  return heard;
}

function unescaped(bytes: Uint8Array, start: number, end: number): string {
  return String(JSON.parse(`"${Buffer.from(bytes).toString("utf8", start, end)}"`));
}

function send(reader: StreamReader, event: string | null, json: unknown): void {
  const data = typeof json === "string" ? json : JSON.stringify(json);
  const block = Buffer.from(`${event === null ? "" : `event: ${event}\n`}data: ${data}\n\n`);
  reader.read(block, 0, block.length - 2);
}

describe("the text of a chat stream", () => {
  const hear = (deltas: readonly unknown[], choices = 1): Heard => {
    const heard = listen();
    const reader = openChatReader({ publicModel: "m", hidesUsage: true, choices, depthMax: 64, sink: heard });
    for (const [at, delta] of deltas.entries()) {
      const index = choices === 1 ? 0 : at % choices;
      send(reader, null, {
        id: "c",
        model: "up",
        choices: [{ index, delta, logprobs: { content: [{ token: "no" }] }, finish_reason: null }],
        usage: null,
      });
    }
    send(reader, null, { id: "c", model: "up", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    send(reader, null, "[DONE]");
    return heard;
  };

  test("is its content, unescaped", () => {
    const said = ["Hel", "lo", ' "quoted" \\ ', "\n", "你好", "\ud83c", "\udf89", "end"];
    const heard = hear([{ role: "assistant", content: "" }, ...said.map((content) => ({ content }))]);
    expect(heard.lanes).toEqual({ 0: said.join("") });
    expect(heard.whole).toEqual([]);
  });

  test("includes reasoning, once if it is sent under two names", () => {
    const heard = hear([
      { reasoning_content: "first ", content: null },
      { reasoning: "same", reasoning_content: "same", reasoning_details: [{ text: "same" }] },
      { reasoning: null, reasoning_content: " again" },
      { content: "then" },
    ]);
    expect(heard.lanes).toEqual({ 0: "then", [reasoningChannel(1)]: "first same again" });
  });

  test("includes tool calls and refusals", () => {
    const heard = hear([
      {
        tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "look", arguments: "" } }],
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '"}"}' } }] },
      { refusal: "No." },
    ]);
    expect(heard.lanes).toEqual({ 2: "No.", 3: '{"a":"}"}' });
    expect(heard.whole).toEqual(["look"]);
  });

  test("is separate for each choice", () => {
    const heard = hear([{ content: "a1" }, { content: "b1" }, { content: "a2" }, { content: "b2" }], 2);
    expect(Object.values(heard.lanes)).toEqual(["a1a2", "b1b2"]);
  });

  test("is the text of content parts without their structure", () => {
    const heard = hear([{ content: [{ type: "text", text: "part" }] }, { audio: { id: "x", data: "QUJD" } }]);
    expect(heard.lanes).toEqual({ 0: "part" });
  });
});

describe("the text of a Responses stream", () => {
  const open = (): { heard: Heard; reader: StreamReader } => {
    const heard = listen();
    const options = { publicModel: "m", depthMax: 64, nowMs: () => 0, sink: heard };
    return { heard, reader: openResponsesReader(options) };
  };

  test("is the deltas of every kind except audio, with reasoning separate", () => {
    const { heard, reader } = open();
    const delta = (kind: string, text: string): void =>
      send(reader, `response.${kind}.delta`, {
        type: `response.${kind}.delta`,
        sequence_number: 4,
        item_id: "msg_1",
        delta: text,
        logprobs: [],
        obfuscation: "xyz",
      });
    send(reader, "response.output_item.added", {
      type: "response.output_item.added",
      item: { type: "function_call", arguments: "", name: "look" },
    });
    delta("function_call_arguments", '{"city":');
    delta("function_call_arguments", '"北京"}');
    delta("output_text", "Hel");
    delta("output_text", "lo\n");
    delta("reasoning_summary_text", "why");
    delta("reasoning_text", "how");
    delta("refusal", "No.");
    delta("custom_tool_call_input", "ls");
    delta("audio", "QUJD");
    const heardIn = (isReasoning: boolean) =>
      Object.entries(heard.lanes).flatMap(([lane, text]) => (Number(lane) < 0 === isReasoning ? [text] : []));
    expect(heardIn(true).sort()).toEqual(["how", "why"]);
    expect(heardIn(false).sort()).toEqual(["Hello\n", "No.", "ls", '{"city":"北京"}'].sort());
    expect(heard.whole).toEqual(["look"]);
  });

  test("is read without event lines as well", () => {
    const { heard, reader } = open();
    send(reader, null, { type: "response.output_text.delta", delta: "Hello" });
    expect(Object.values(heard.lanes)).toEqual(["Hello"]);
  });

  test("is read from the terminal event if nothing was streamed and no usage was reported", () => {
    const response = {
      id: "resp_1",
      model: "up",
      output: [{ type: "message", content: [{ type: "output_text", text: "All at once" }] }],
      usage: null,
    };
    const { heard, reader } = open();
    send(reader, "response.completed", { type: "response.completed", response });
    expect(heard.whole).toEqual(["All at once"]);

    const counted = open();
    send(counted.reader, "response.completed", {
      type: "response.completed",
      response: { ...response, usage: { input_tokens: 1, output_tokens: 3 } },
    });
    expect(counted.heard.whole).toEqual([]);
  });
});

describe("the text of an event of megabytes is what the upstream wrote, whatever that is", () => {
  const LONG = "word é ".repeat(200_000);
  const ODD = ["\uE000long string 0", "\uFFFD", "0", "\0", "{}"];

  test("in the last event of a Responses stream", () => {
    const heard = listen();
    const reader = openResponsesReader({ publicModel: "m", depthMax: 64, nowMs: () => 0, sink: heard });
    const text = (value: string) => ({ type: "output_text", text: value });
    send(reader, "response.completed", {
      type: "response.completed",
      response: {
        id: "r",
        status: "completed",
        output: [
          { type: "message", content: [text(LONG), ...ODD.map(text)] },
          { type: "function_call", name: "look", arguments: LONG },
          { type: "message", content: LONG },
        ],
      },
    });
    expect(heard.whole).toEqual([LONG, ...ODD, "look", LONG, LONG]);
  });

  test("in an event of Gemini", () => {
    const heard = listen();
    const reader = openGeminiReader({ publicModel: "m", depthMax: 64, choices: 1, sink: heard });
    const args = { odd: ODD, long: LONG };
    const parts = [...[LONG, ...ODD].map((text) => ({ text })), { functionCall: { name: "look", args } }];
    send(reader, null, { candidates: [{ content: { parts } }] });
    expect(heard.lanes).toEqual({ 0: LONG + ODD.join("") });
    expect(heard.whole).toEqual(["look", JSON.stringify({ ...args, long: "" }), LONG]);
  });
});
