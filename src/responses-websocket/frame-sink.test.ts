import { describe, expect, test } from "bun:test";
import { isUtf8 } from "node:buffer";
import { wholePart } from "../base/parts.ts";
import { formatEvent } from "../net/wire/sse-format.ts";
import { FrameSink, type FrameSinkOptions, type SentEvents } from "./frame-sink.ts";

interface Stage {
  sink: FrameSink;
  sent: string[];
  /** Number of frames per write. */
  corked: number[];
  sentEvents(): SentEvents | null;
}

function stage(change: Partial<FrameSinkOptions> = {}): Stage {
  const sent: string[] = [];
  const corked: number[] = [];
  let sentEvents: SentEvents | null = null;
  const sink = new FrameSink({
    output: {
      send: (opening, bytes, start, end) => {
        expect(isUtf8(bytes.subarray(start, end))).toBe(true);
        sent.push(opening + Buffer.from(bytes.subarray(start, end)).toString());
      },
      batch(send) {
        const before = sent.length;
        send();
        corked.push(sent.length - before);
      },
      pauseIfFull() {},
    },
    source: { pause() {}, resume() {}, abort() {} },
    streamId: null,
    requestId: "req_1",
    upstreamRequestId: null,
    bytesMax: 10_000,
    depthMax: 128,
    isStored: false,
    onEnd: (what) => {
      sentEvents = what;
    },
    ...change,
  });
  return { sink, sent, corked, sentEvents: () => sentEvents };
}

const event = (type: string, fields: object = {}) =>
  Buffer.from(formatEvent(type, JSON.stringify({ type, ...fields })));
const DELTA = event("response.output_text.delta", { delta: "häl𝄞lo" });
const DONE = Buffer.from("data: [DONE]\n\n");
const item = (fields: object) => event("response.output_item.done", { output_index: 0, item: fields });
const completed = (output: unknown[] = []) =>
  event("response.completed", { response: { id: "resp_1", output } });

describe("frames of events", () => {
  test("only the first one contains the request id", () => {
    const { sink, sent } = stage({ streamId: "main", upstreamRequestId: "req_up" });
    sink.data(wholePart(Buffer.concat([event("response.created"), DELTA])));
    const [first, second] = sent.map((text) => JSON.parse(text));
    expect(first).toEqual({
      stream_id: "main",
      headers: { "x-request-id": "req_1", "x-upstream-request-id": "req_up" },
      type: "response.created",
    });
    expect(second.headers).toBeUndefined();
  });

  test("contain only the JSON of one event, and the frames of one write are corked", () => {
    const { sink, sent, corked } = stage();
    sink.data(wholePart(DELTA));
    sink.data(wholePart(Buffer.concat([DELTA, event("response.created"), DELTA])));
    expect(sent.map((text) => JSON.parse(text).type)).toEqual([
      "response.output_text.delta",
      "response.output_text.delta",
      "response.created",
      "response.output_text.delta",
    ]);
    expect(JSON.parse(sent[0] ?? "").delta).toBe("häl𝄞lo");
    expect(corked).toEqual([1, 3]);
  });

  test("contain their lane", () => {
    const { sink, sent } = stage({ streamId: "main" });
    sink.data(wholePart(Buffer.concat([DELTA, event("response.created", { response: {} })])));
    expect(sent.map((text) => JSON.parse(text))).toMatchObject([
      { stream_id: "main", type: "response.output_text.delta", delta: "häl𝄞lo" },
      { stream_id: "main", type: "response.created", response: {} },
    ]);
  });

  test("are valid for empty JSON objects", () => {
    const { sink, sent } = stage({ streamId: "a" });
    for (const json of ["{}", " { } "])
      sink.data(wholePart(Buffer.from(formatEvent("response.unheard_of", json))));
    expect(sent.map((text) => JSON.parse(text))).toEqual([
      { stream_id: "a", headers: { "x-request-id": "req_1" } },
      { stream_id: "a" },
    ]);
  });

  test("are valid for JSON over several lines", () => {
    const { sink, sent } = stage({ streamId: "a" });
    const pretty = JSON.stringify({ type: "response.created", response: { id: 1 } }, null, 2);
    sink.data(wholePart(Buffer.concat([formatEvent("response.created", pretty), DELTA])));
    expect(JSON.parse(sent[0] ?? "")).toMatchObject({
      stream_id: "a",
      type: "response.created",
      response: { id: 1 },
    });
    expect(sent).toHaveLength(2);
  });

  test("are not created for comments and [DONE]", () => {
    const { sink, sent } = stage();
    sink.data(wholePart(Buffer.from(": keep-alive\n\n")));
    sink.data(wholePart(Buffer.concat([completed(), DONE])));
    sink.data(wholePart(DONE));
    expect(sent.map((text) => JSON.parse(text).type)).toEqual(["response.completed"]);
  });

  test("are valid UTF-8 for any upstream bytes", () => {
    const { sink, sent } = stage();
    const broken = Buffer.concat([DELTA, DELTA]);
    broken[DELTA.indexOf("ä")] = 0xff;
    sink.data(wholePart(broken));
    expect(sent.map((text) => JSON.parse(text).delta)).toEqual(["h\ufffd\ufffdl𝄞lo", "häl𝄞lo"]);
  });

  test("apply back-pressure", () => {
    let isPaused = false;
    const { sink } = stage({
      output: { send() {}, batch: (send) => send(), pauseIfFull: (source) => source.pause() },
      source: {
        pause() {
          isPaused = true;
        },
        resume() {},
        abort() {},
      },
    });
    sink.data(wholePart(DELTA));
    expect(isPaused).toBe(true);
  });
});

describe("the recorded output of a turn", () => {
  const CALL = { type: "function_call", call_id: "call_1", name: "f" };
  const texts = (sentEvents: SentEvents | null) =>
    sentEvents?.kind === "response"
      ? sentEvents.outputs.map((output) => Buffer.from(output).toString())
      : null;

  test("contains the items as sent, and the calls among them", () => {
    const { sink, sentEvents } = stage();
    const message = { type: "message", content: [{ type: "output_text", text: "ä" }] };
    for (const bytes of [item(message), DELTA, item(CALL), completed()]) sink.data(wholePart(bytes));
    sink.end([]);
    expect(sentEvents()).toMatchObject({ kind: "response", responseId: "resp_1", calls: ["call_1"] });
    expect(texts(sentEvents())).toEqual([JSON.stringify(message), JSON.stringify(CALL)]);
  });

  test("is read from the terminal event if no items were streamed", () => {
    const { sink, sentEvents } = stage();
    sink.data(wholePart(completed([{ type: "message" }, CALL])));
    sink.end([]);
    expect(texts(sentEvents())).toEqual(['{"type":"message"}', JSON.stringify(CALL)]);
    expect(sentEvents()).toMatchObject({ calls: ["call_1"] });
  });

  describe("with reasoning", () => {
    const PLAIN = { id: "rs_1", type: "reasoning", summary: [], encrypted_content: null };
    const ENCRYPTED = { ...PLAIN, encrypted_content: "gAAA" };
    const noted = (isStored: boolean, ...events: Buffer[]) => {
      const { sink, sentEvents } = stage({ isStored });
      for (const bytes of events) sink.data(wholePart(bytes));
      sink.end([]);
      return texts(sentEvents())?.map((output) => JSON.parse(output).id);
    };

    test("has no id that an upstream would look up but did not store", () => {
      expect(noted(false, item(PLAIN), item(ENCRYPTED), completed())).toEqual([undefined, "rs_1"]);
      expect(noted(false, completed([PLAIN, ENCRYPTED]))).toEqual([undefined, "rs_1"]);
    });

    test("has its id if the upstream stores it", () => {
      expect(noted(true, item(PLAIN), completed())).toEqual(["rs_1"]);
    });
  });

  test("may be incomplete", () => {
    const { sink, sentEvents } = stage();
    sink.data(wholePart(event("response.incomplete", { response: { id: "resp_2", output: [] } })));
    sink.end([]);
    expect(sentEvents()).toEqual({ kind: "response", responseId: "resp_2", outputs: [], calls: [] });
  });

  test("is absent if the response failed or did not end", () => {
    for (const last of [event("response.failed", { response: { id: "resp_1" } }), DELTA]) {
      const { sink, sentEvents } = stage();
      sink.data(wholePart(item(CALL)));
      sink.data(wholePart(last));
      sink.end([]);
      expect(sentEvents()).toEqual({ kind: "failed" });
    }
  });

  test("is dropped if it is too long, and is sent anyway", () => {
    const { sink, sent, sentEvents } = stage({ bytesMax: 100 });
    sink.data(wholePart(item({ type: "message", content: "x".repeat(200) })));
    sink.data(wholePart(completed()));
    sink.end([]);
    expect(sentEvents()).toEqual({ kind: "too_long" });
    expect(sent).toHaveLength(2);
  });
});
