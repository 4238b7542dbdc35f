/** Every place of a response that can repeat has a bound, in each dialect, streamed and whole. */

import { describe, expect, test } from "bun:test";
import { responseBounds } from "../../count-limits.ts";
import { lookUpCodec } from "../codecs.ts";
import { clientTarget, hubRequest, NO_TOOL_NAMES } from "./codec.test-support.ts";
import type { Dialect } from "./hub-request.ts";
import type { HubEvent } from "./hub-response.ts";
import { ResponseBounds } from "./response-bounds.ts";
import { TextPieces } from "./text-pieces.ts";

const { callsMax, itemsMax, listMax, choicesMax, citationsMax, searchesMax, searchAddressesMax } =
  responseBounds;
const { citationCharsMax, textCharsMax } = responseBounds;

const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));
const url = (at: number) => `https://${at}.example`;

/** The events of a stream, or one whole response, with a place repeated so often. */
type Repeat = (count: number) => readonly object[];

const chat = (delta: object) => ({ choices: [{ delta }] });
const chatCall = (at: number) => ({ index: at, id: `c${at}`, function: { name: "f", arguments: "{}" } });
const annotation = (at: number) => ({ type: "url_citation", url: url(at) });
const chatAnnotation = (at: number) => ({ type: "url_citation", url_citation: { url: url(at) } });
const block = (index: number, content_block: object) => [
  { type: "content_block_start", index, content_block },
  { type: "content_block_stop", index },
];
const tool = (at: number) => ({ type: "tool_use", id: `c${at}`, name: "f", input: { a: 1 } });
const citation = (at: number) => ({ type: "web_search_result_location", url: url(at), title: "" });
const search = (at: number) => ({
  type: "server_tool_use",
  id: `s${at}`,
  name: "web_search",
  input: { query: "q" },
});
const found = (urls: number) => ({
  type: "web_search_tool_result",
  tool_use_id: "s",
  content: times(urls, (at) => ({ url: url(at) })),
});
const done = (output_index: number, item: object) => ({
  type: "response.output_item.done",
  output_index,
  item,
});
const callItem = (at: number) => ({ type: "function_call", call_id: `c${at}`, name: "f", arguments: "{}" });
const searchCall = (query: string, urls: number) => ({
  type: "web_search_call",
  action: { query, sources: times(urls, (at) => ({ url: url(at) })) },
});
const textItem = (parts: number, annotations: number) => ({
  type: "message",
  content: times(parts, () => ({
    type: "output_text",
    text: "a",
    annotations: times(annotations, annotation),
  })),
});
const gemini = (parts: readonly object[], more: object = {}) => ({
  candidates: [{ content: { parts }, ...more }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
});
const geminiCall = (at: number) => ({ functionCall: { id: `c${at}`, name: "f", args: {} } });
const grounded = (groundingMetadata: object) => ({ finishReason: "STOP", groundingMetadata });
const supports = (count: number) => ({
  groundingChunks: [{ web: { uri: url(0) } }],
  groundingSupports: [
    { segment: { startIndex: 0, endIndex: 1 }, groundingChunkIndices: times(count, () => 0) },
  ],
});
const alternating = (count: number) => times(count, (at) => ({ text: "a", thought: at % 2 === 1 }));
const message = (content: readonly object[]) => ({ content, stop_reason: "end_turn" });
const response = (output: readonly object[]) => ({ status: "completed", output });
const chatWhole = (reply: object) => ({ choices: [{ message: reply, finish_reason: "stop" }] });

const STREAMED: readonly [Dialect, string, number, Repeat][] = [
  ["chat", "calls", callsMax, (n) => times(n, (at) => chat({ tool_calls: [chatCall(at)] }))],
  ["chat", "calls", callsMax, (n) => times(n, (index) => chat({ tool_calls: [{ index, function: {} }] }))],
  ["chat", "calls", callsMax, (n) => times(n, (index) => chat({ tool_calls: [{ index, id: "same" }] }))],
  ["chat", "citations", citationsMax, (n) => [chat({ annotations: times(n, chatAnnotation) })]],
  ["chat", "citations", citationsMax, (n) => times(n, (at) => chat({ annotations: [chatAnnotation(at)] }))],
  ["chat", "choices", choicesMax, (n) => [{ choices: times(n, () => ({})) }]],
  ["chat", "elements in one list", listMax, (n) => [chat({ content: times(n, () => ({ text: "a" })) })]],
  ["chat", "items", itemsMax, (n) => times(n, (at) => chat(at % 2 ? { content: "a" } : { reasoning: "b" }))],
  ["messages", "calls", callsMax, (n) => times(n, (at) => block(at, tool(at))).flat()],
  ["messages", "items", itemsMax, (n) => times(n, (at) => block(at, { type: "text", text: "a" })).flat()],
  [
    "messages",
    "citations",
    citationsMax,
    (n) => block(0, { type: "text", text: "a", citations: times(n, citation) }),
  ],
  [
    "messages",
    "citations",
    citationsMax,
    (n) => [
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      ...times(n, (at) => ({
        type: "content_block_delta",
        index: 0,
        delta: { type: "citations_delta", citation: citation(at) },
      })),
    ],
  ],
  ["messages", "searches", searchesMax, (n) => times(n, (at) => block(at, search(at))).flat()],
  ["messages", "addresses of searches", searchAddressesMax, (n) => block(0, found(n))],
  ["responses", "calls", callsMax, (n) => times(n, (at) => done(at, callItem(at)))],
  ["responses", "items", itemsMax, (n) => times(n, (at) => done(at, textItem(1, 0)))],
  ["responses", "citations", citationsMax, (n) => [done(0, textItem(1, n))]],
  ["responses", "searches", searchesMax, (n) => times(n, (at) => done(at, searchCall("q", 0)))],
  ["responses", "addresses of searches", searchAddressesMax, (n) => [done(0, searchCall("q", n))]],
  ["gemini", "calls", callsMax, (n) => [gemini(times(n, geminiCall))]],
  ["gemini", "items", itemsMax, (n) => [gemini(alternating(n))]],
  ["gemini", "choices", choicesMax, (n) => [{ candidates: times(n, () => ({})) }]],
  ["gemini", "citations", citationsMax, (n) => [gemini([{ text: "a" }], grounded(supports(n)))]],
  [
    "gemini",
    "searches",
    searchesMax,
    (n) => [gemini([{ text: "a" }], grounded({ webSearchQueries: times(n, () => "q") }))],
  ],
  [
    "gemini",
    "addresses of searches",
    searchAddressesMax,
    (n) => [
      gemini([{ text: "a" }], grounded({ groundingChunks: times(n, (at) => ({ web: { uri: url(at) } })) })),
    ],
  ],
];

const WHOLE: readonly [Dialect, string, number, Repeat][] = [
  ["chat", "calls", callsMax, (n) => [chatWhole({ tool_calls: times(n, chatCall) })]],
  ["chat", "citations", citationsMax, (n) => [chatWhole({ annotations: times(n, chatAnnotation) })]],
  ["messages", "calls", callsMax, (n) => [message(times(n, tool))]],
  ["messages", "items", itemsMax, (n) => [message(times(n, () => ({ type: "text", text: "a" })))]],
  [
    "messages",
    "citations",
    citationsMax,
    (n) => [message([{ type: "text", text: "a", citations: times(n, citation) }])],
  ],
  ["messages", "searches", searchesMax, (n) => [message(times(n, search))]],
  ["responses", "calls", callsMax, (n) => [response(times(n, callItem))]],
  ["responses", "items", itemsMax, (n) => [response([textItem(n, 0)])]],
  ["responses", "citations", citationsMax, (n) => [response([textItem(1, n)])]],
  ["responses", "searches", searchesMax, (n) => [response(times(n, () => searchCall("q", 0)))]],
  ["gemini", "calls", callsMax, (n) => [gemini(times(n, geminiCall), { finishReason: "STOP" })]],
  ["gemini", "items", itemsMax, (n) => [gemini(alternating(n), { finishReason: "STOP" })]],
  ["gemini", "citations", citationsMax, (n) => [gemini([{ text: "a" }], grounded(supports(n)))]],
];

function readStream(dialect: Dialect, events: readonly object[]): HubEvent[] {
  const reader = lookUpCodec(dialect).openStreamReader(NO_TOOL_NAMES);
  return [...events.flatMap((event) => reader.read(JSON.stringify(event), null)), ...reader.close()];
}

const describeBound = (max: number, what: string) =>
  `The response has more than ${max.toLocaleString("en-US")} ${what}.`;

test.each(STREAMED)("a stream of %s has bounded %s (%d)", (dialect, what, max, repeat) => {
  expect(() => readStream(dialect, repeat(max))).not.toThrow();
  expect(() => readStream(dialect, repeat(max + 1))).toThrow(describeBound(max, what));
});

test.each(WHOLE)("a whole response of %s has bounded %s (%d)", (dialect, what, max, repeat) => {
  const read = (count: number) => lookUpCodec(dialect).readResponse({ ...repeat(count)[0] }, NO_TOOL_NAMES);
  expect(() => read(max)).not.toThrow();
  expect(() => read(max + 1)).toThrow(describeBound(max, what));
});

test.each<[string, number, (bounds: ResponseBounds, chars: number) => void]>([
  ["characters", textCharsMax, (bounds, chars) => bounds.addText(chars)],
  [
    "characters of citations",
    citationCharsMax,
    (bounds, chars) => bounds.addCitation({ url: "u", title: "x".repeat(chars - 1) }),
  ],
])("a response has bounded %s (%d) in one piece or several", (what, max, add) => {
  const bounds = new ResponseBounds();
  add(bounds, max - 1);
  expect(() => add(bounds, 1)).not.toThrow();
  expect(() => add(bounds, 1)).toThrow(describeBound(max, what));
  expect(() => add(new ResponseBounds(), max + 1)).toThrow(describeBound(max, what));
});

test.each(["chat", "messages", "gemini"] as const)("%s: arguments that are kept are bounded", (dialect) => {
  const text = "x".repeat(1024 * 1024);
  const piece: Readonly<Record<typeof dialect, object>> = {
    chat: chat({ tool_calls: [{ index: 0, function: { arguments: text } }] }),
    messages: { type: "content_block_delta", index: 0, delta: { partial_json: text } },
    gemini: gemini([
      {
        functionCall: {
          willContinue: true,
          partialArgs: [{ jsonPath: "$.a", stringValue: text, willContinue: true }],
        },
      },
    ]),
  };
  const begin = { type: "content_block_start", index: 0, content_block: { ...search(0), input: {} } };
  const reader = lookUpCodec(dialect).openStreamReader(NO_TOOL_NAMES);
  reader.read(JSON.stringify(begin), null);
  const send = () => reader.read(JSON.stringify(piece[dialect]), null);
  for (let at = 0; at < 3; at++) expect(send).not.toThrow();
  expect(() => times(2, send)).toThrow("The response has more than 4,194,304 characters.");
});

describe("what a Gemini client receives of citations", () => {
  const TEXT = "ä".repeat(50_000);

  function write(citations: number): string {
    const writer = lookUpCodec("gemini").openStreamWriter(clientTarget(hubRequest("gemini")));
    const cited = times(citations, (at) => ({ url: url(at), title: "", start: at, end: TEXT.length }));
    const events: HubEvent[] = [
      { type: "item_start", item: { kind: "text" } },
      { type: "delta", text: TEXT },
      { type: "item_end", opaque: null, isCut: false, citations: cited },
      { type: "end", stop: "end", stopSequence: null },
    ];
    return events.map((event) => writer.write(event)).join("");
  }

  test("is a small multiple of the text, and has all places", () => {
    const text = write(citationsMax);
    expect(text.length).toBeLessThan(8 * TEXT.length);
    expect(text.match(/"startIndex"/g)).toHaveLength(citationsMax);
    expect(text).toContain(`"startIndex":1998,"endIndex":${2 * TEXT.length}`);
  });

  test("contains the cited texts if there are few", () => {
    expect(write(2).match(/"text":"ä/g)).toHaveLength(3);
  });
});

test("places of a Gemini upstream are converted from bytes to characters, in any order", () => {
  const text = "äöü is 🙂 ok";
  const place = (part: string) => Buffer.byteLength(text.slice(0, text.indexOf(part)));
  const support = (part: string) => ({
    segment: { startIndex: place(part), endIndex: place(part) + Buffer.byteLength(part) },
    groundingChunkIndices: [0],
  });
  const metadata = {
    groundingChunks: [{ web: { uri: url(0) } }],
    groundingSupports: [support("ok"), support("öü"), support("🙂"), support("ä")],
  };
  const read = lookUpCodec("gemini").readResponse(gemini([{ text }], grounded(metadata)), NO_TOOL_NAMES);
  const [item] = read?.items ?? [];
  const part = item?.kind === "message" ? item.parts[0] : null;
  const cited = part?.kind === "text" ? (part.citations ?? []) : [];
  expect(cited.map(({ start, end }) => text.slice(start, end))).toEqual(["ok", "öü", "🙂", "ä"]);
});

test("a text in many pieces is the same text", () => {
  const pieces = new TextPieces();
  const all = times(1_000, (at) => String(at));
  for (const piece of all) pieces.add(piece);
  expect(pieces.length).toBe(all.join("").length);
  expect(pieces.toString()).toBe(all.join(""));
  pieces.add("end");
  expect(pieces.toString()).toBe(`${all.join("")}end`);
});
