import { describe, expect, test } from "bun:test";
import { isUtf8 } from "node:buffer";
import { wholePart } from "../net/wire/parts.ts";
import { formatEvent } from "../net/wire/sse-write.ts";
import { FrameSink, type FrameSinkOptions, type SentEvents } from "./frame-sink.ts";

interface Stage {
  sink: FrameSink;
  sent: string[];
  /** Number of frames per write. */
  corked: number[];
  said(): SentEvents | null;
}

function stage(change: Partial<FrameSinkOptions> = {}): Stage {
  const sent: string[] = [];
  const corked: number[] = [];
  let said: SentEvents | null = null;
  const sink = new FrameSink({
    outlet: {
      send: (opening, bytes, start, end) => {
        expect(isUtf8(bytes.subarray(start, end))).toBe(true);
        sent.push(opening + Buffer.from(bytes.subarray(start, end)).toString());
      },
      together(send) {
        const before = sent.length;
        send();
        corked.push(sent.length - before);
      },
      room: () => null,
    },
    streamId: null,
    requestId: "req_1",
    upstreamRequestId: null,
    bytesMax: 10_000,
    depthMax: 128,
    isStored: false,
    ended: (what) => {
      said = what;
    },
    ...change,
  });
  return { sink, sent, corked, said: () => said };
}

const event = (type: string, fields: object = {}) =>
  Buffer.from(formatEvent(type, JSON.stringify({ type, ...fields })));
const DELTA = event("response.output_text.delta", { delta: "häl𝄞lo" });
const DONE = Buffer.from("data: [DONE]\n\n");
const item = (fields: object) => event("response.output_item.done", { output_index: 0, item: fields });
const completed = (output: unknown[] = []) =>
  event("response.completed", { response: { id: "resp_1", output } });

describe("events become frames", () => {
  test("of which the first, and no other, names the request", () => {
    const { sink, sent } = stage({ streamId: "main", upstreamRequestId: "req_up" });
    sink.write(wholePart(Buffer.concat([event("response.created"), DELTA])));
    const [first, second] = sent.map((text) => JSON.parse(text));
    expect(first).toEqual({
      stream_id: "main",
      headers: { "x-request-id": "req_1", "x-upstream-request-id": "req_up" },
      type: "response.created",
    });
    expect(second.headers).toBeUndefined();
  });

  test("of their JSON alone, each by itself, those of one write in one piece", () => {
    const { sink, sent, corked } = stage();
    sink.write(wholePart(DELTA));
    sink.write(wholePart(Buffer.concat([DELTA, event("response.created"), DELTA])));
    expect(sent.map((text) => JSON.parse(text).type)).toEqual([
      "response.output_text.delta",
      "response.output_text.delta",
      "response.created",
      "response.output_text.delta",
    ]);
    expect(JSON.parse(sent[0] ?? "").delta).toBe("häl𝄞lo");
    expect(corked).toEqual([1, 3]);
  });

  test("that name their lane", () => {
    const { sink, sent } = stage({ streamId: "main" });
    sink.write(wholePart(Buffer.concat([DELTA, event("response.created", { response: {} })])));
    expect(sent.map((text) => JSON.parse(text))).toMatchObject([
      { stream_id: "main", type: "response.output_text.delta", delta: "häl𝄞lo" },
      { stream_id: "main", type: "response.created", response: {} },
    ]);
  });

  test("also when there is nothing in them", () => {
    const { sink, sent } = stage({ streamId: "a" });
    for (const json of ["{}", " { } "])
      sink.write(wholePart(Buffer.from(formatEvent("response.unheard_of", json))));
    expect(sent.map((text) => JSON.parse(text))).toEqual([
      { stream_id: "a", headers: { "x-request-id": "req_1" } },
      { stream_id: "a" },
    ]);
  });

  test("when their JSON came in several lines", () => {
    const { sink, sent } = stage({ streamId: "a" });
    const pretty = JSON.stringify({ type: "response.created", response: { id: 1 } }, null, 2);
    sink.write(wholePart(Buffer.concat([formatEvent("response.created", pretty), DELTA])));
    expect(JSON.parse(sent[0] ?? "")).toMatchObject({
      stream_id: "a",
      type: "response.created",
      response: { id: 1 },
    });
    expect(sent).toHaveLength(2);
  });

  test("and nothing else does: comments and the mark of the end are for HTTP", () => {
    const { sink, sent } = stage();
    sink.write(wholePart(Buffer.from(": keep-alive\n\n")));
    sink.write(wholePart(Buffer.concat([completed(), DONE])));
    sink.write(wholePart(DONE));
    expect(sent.map((text) => JSON.parse(text).type)).toEqual(["response.completed"]);
  });

  test("that are UTF-8, whatever the upstream sent", () => {
    const { sink, sent } = stage();
    const broken = Buffer.concat([DELTA, DELTA]);
    broken[DELTA.indexOf("ä")] = 0xff;
    sink.write(wholePart(broken));
    expect(sent.map((text) => JSON.parse(text).delta)).toEqual(["h\ufffd\ufffdl𝄞lo", "häl𝄞lo"]);
  });

  test("as fast as the outlet has room", () => {
    const room = Promise.resolve();
    const { sink } = stage({ outlet: { send() {}, together: (send) => send(), room: () => room } });
    expect(sink.write(wholePart(DELTA))).toBe(room);
  });
});

describe("what was said", () => {
  const CALL = { type: "function_call", call_id: "call_1", name: "f" };
  const texts = (said: SentEvents | null) =>
    said?.kind === "response" ? said.outputs.map((output) => Buffer.from(output).toString()) : null;

  test("are the items as they were sent, and the calls among them", () => {
    const { sink, said } = stage();
    const message = { type: "message", content: [{ type: "output_text", text: "ä" }] };
    for (const bytes of [item(message), DELTA, item(CALL), completed()]) sink.write(wholePart(bytes));
    sink.end([]);
    expect(said()).toMatchObject({ kind: "response", responseId: "resp_1", calls: ["call_1"] });
    expect(texts(said())).toEqual([JSON.stringify(message), JSON.stringify(CALL)]);
  });

  test("is read from the end where nothing else was streamed", () => {
    const { sink, said } = stage();
    sink.write(wholePart(completed([{ type: "message" }, CALL])));
    sink.end([]);
    expect(texts(said())).toEqual(['{"type":"message"}', JSON.stringify(CALL)]);
    expect(said()).toMatchObject({ calls: ["call_1"] });
  });

  describe("of reasoning", () => {
    const PLAIN = { id: "rs_1", type: "reasoning", summary: [], encrypted_content: null };
    const ENCRYPTED = { ...PLAIN, encrypted_content: "gAAA" };
    const noted = (isStored: boolean, ...events: Buffer[]) => {
      const { sink, said } = stage({ isStored });
      for (const bytes of events) sink.write(wholePart(bytes));
      sink.end([]);
      return texts(said())?.map((output) => JSON.parse(output).id);
    };

    test("has no id by which an upstream would look for what it did not keep", () => {
      expect(noted(false, item(PLAIN), item(ENCRYPTED), completed())).toEqual([undefined, "rs_1"]);
      expect(noted(false, completed([PLAIN, ENCRYPTED]))).toEqual([undefined, "rs_1"]);
    });

    test("has its id where the upstream keeps it", () => {
      expect(noted(true, item(PLAIN), completed())).toEqual(["rs_1"]);
    });
  });

  test("may be incomplete", () => {
    const { sink, said } = stage();
    sink.write(wholePart(event("response.incomplete", { response: { id: "resp_2", output: [] } })));
    sink.end([]);
    expect(said()).toEqual({ kind: "response", responseId: "resp_2", outputs: [], calls: [] });
  });

  test("is nothing when it failed, or never ended", () => {
    for (const last of [event("response.failed", { response: { id: "resp_1" } }), DELTA]) {
      const { sink, said } = stage();
      sink.write(wholePart(item(CALL)));
      sink.write(wholePart(last));
      sink.end([]);
      expect(said()).toEqual({ kind: "failed" });
    }
  });

  test("is not kept when it is too long, and sent all the same", () => {
    const { sink, sent, said } = stage({ bytesMax: 100 });
    sink.write(wholePart(item({ type: "message", content: "x".repeat(200) })));
    sink.write(wholePart(completed()));
    sink.end([]);
    expect(said()).toEqual({ kind: "too_long" });
    expect(sent).toHaveLength(2);
  });
});
