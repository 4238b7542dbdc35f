import { expect, test } from "bun:test";
import fc from "fast-check";
import type { ClientTarget } from "../hub/dialect-codec.ts";
import { DroppedFields } from "../hub/dropped-fields.ts";
import type { HubEvent, StartedItem } from "../hub/hub-response.ts";
import { MessagesHubReader } from "./messages-hub-reader.ts";
import { MessagesHubWriter } from "./messages-hub-writer.ts";
import { readMessagesRequest } from "./messages-request-reader.ts";

const REQUEST = readMessagesRequest(
  { model: "m", max_tokens: 10, messages: [{ role: "user", content: "hi" }] },
  { publicModel: "m", stream: true },
);
const CLIENT: ClientTarget = {
  publicModel: "m",
  request: REQUEST,
  responseId: "msg_1",
  previousResponseId: null,
  inputTokensEstimate: 7,
  nowMs: 0,
  newId: (prefix) => `${prefix}1`,
  wantsUsageChunk: false,
  dropped: new DroppedFields(),
};

interface SentEvent {
  type: string;
  index?: number;
  delta?: { type: string; stop_reason?: string };
  content_block?: { type: string };
}

const item = fc.oneof(
  fc.constant<StartedItem>({ kind: "text" }),
  fc.constant<StartedItem>({ kind: "refusal" }),
  fc.constant<StartedItem>({ kind: "reasoning", isSummary: true }),
  fc.string({ minLength: 1 }).map((callId): StartedItem => {
    return { kind: "call", callId, name: "f", namespace: null, tool: "function" };
  }),
);
const texts = fc.array(fc.string({ minLength: 1 }), { maxLength: 3 });
const response = fc.array(fc.tuple(item, texts), { maxLength: 5 });

function events(items: readonly (readonly [StartedItem, readonly string[]])[]): HubEvent[] {
  return [
    { type: "start", responseId: null, createdAtSeconds: null },
    ...items.flatMap(([one, deltas]): HubEvent[] => [
      { type: "item_start", item: one },
      ...deltas.map((text): HubEvent => ({ type: "delta", text })),
      { type: "item_end", opaque: null, isCut: false },
    ]),
    { type: "end", stop: "end", stopSequence: null },
  ];
}

function write(items: readonly (readonly [StartedItem, readonly string[]])[]): SentEvent[] {
  const writer = new MessagesHubWriter(CLIENT);
  const text = events(items)
    .map((event) => writer.write(event))
    .join("");
  return text
    .split("\n\n")
    .filter((block) => block !== "")
    .map((block) => JSON.parse(block.slice(block.indexOf("data: ") + 6)));
}

const DELTAS: Readonly<Record<string, readonly string[]>> = {
  text: ["text_delta"],
  thinking: ["thinking_delta", "signature_delta"],
  tool_use: ["input_json_delta"],
};

test("a stream has one start, dense blocks one after the other with deltas of their type, and one end", () => {
  fc.assert(
    fc.property(response, (items) => {
      const sent = write(items);
      expect(sent[0]?.type).toBe("message_start");
      expect(sent.slice(-2).map(({ type }) => type)).toEqual(["message_delta", "message_stop"]);
      let next = 0;
      let open: { type: string; deltas: number } | null = null;
      for (const { type, index, delta, content_block: block } of sent.slice(1, -2)) {
        expect(index).toBe(next);
        if (type === "content_block_start") {
          expect(open).toBeNull();
          open = { type: block?.type ?? "", deltas: 0 };
        } else if (type === "content_block_delta") {
          expect(DELTAS[open?.type ?? ""]).toContain(delta?.type ?? "");
          if (open !== null) open.deltas++;
        } else {
          expect(type).toBe("content_block_stop");
          // No block is empty: not a leading text, and not the input of a call.
          expect(open?.deltas).toBeGreaterThan(0);
          open = null;
          next++;
        }
      }
      expect(open).toBeNull();
    }),
  );
});

test("a reader of the written stream gets the items back", () => {
  fc.assert(
    fc.property(response, (items) => {
      const reader = new MessagesHubReader({
        toolNames: { resolve: () => null },
        sealer: { seal: (state) => ({ kind: "vendor", dialect: "messages", ...state }), open: () => null },
        dropped: new DroppedFields(),
      });
      const read = write(items).flatMap((event) => reader.read(JSON.stringify(event)));
      const kinds = read.flatMap((event) => (event.type === "item_start" ? [event.item.kind] : []));
      const written = items
        .filter(([one, deltas]) => one.kind === "call" || deltas.length > 0)
        .map(([one]) => (one.kind === "refusal" ? "text" : one.kind));
      expect(kinds).toEqual(written);
      const hasCall = written.includes("call");
      // A delivered call means `tools`, whatever the upstream reports.
      expect(read.at(-1)).toMatchObject({ type: "end", stop: hasCall ? "tools" : "end" });
    }),
  );
});

test("a stream that breaks off is an error, and one that only lacks its last event is complete", () => {
  const open = () =>
    new MessagesHubReader({
      toolNames: { resolve: () => null },
      sealer: { seal: (state) => ({ kind: "vendor", dialect: "messages", ...state }), open: () => null },
      dropped: new DroppedFields(),
    });
  const sent = write([[{ kind: "text" }, ["Hello"]]]).map((event) => JSON.stringify(event));
  const cut = open();
  for (const event of sent.slice(0, 3)) cut.read(event);
  expect(cut.close()).toMatchObject([{ type: "error" }]);
  const unfinished = open();
  for (const event of sent.slice(0, -1)) unfinished.read(event);
  expect(unfinished.close().at(-1)).toMatchObject({ type: "end", stop: "end" });
});
