/** Citations and searches of a response, from each upstream to each client: expressed, or dropped and named. */

import { describe, expect, test } from "bun:test";
import { lookUpCodec } from "../codecs.ts";
import { clientTarget, hubRequest, NO_TOOL_NAMES, parseSse, writeTarget } from "./codec.test-support.ts";
import { DIALECT_LOSSES } from "./declared-losses.test-support.ts";
import { DroppedFields } from "./dropped-fields.ts";
import type { Dialect } from "./hub-request.ts";

type Json = Record<string, unknown>;

const TEXT = "Über: the sky is blue.";
const URL = "https://a.example/sky";
const QUERY = "colour of the sky";
const annotation = { type: "url_citation", url: URL, title: "Sky", start_index: 0, end_index: TEXT.length };
const grounding = {
  webSearchQueries: [QUERY],
  groundingChunks: [{ web: { uri: URL, title: "Sky" } }],
  groundingSupports: [
    {
      segment: { startIndex: 0, endIndex: Buffer.byteLength(TEXT), text: TEXT },
      groundingChunkIndices: [0],
    },
  ],
};
const citation = {
  type: "web_search_result_location",
  url: URL,
  title: "Sky",
  encrypted_index: "x",
  cited_text: "blue",
};
const call = { type: "server_tool_use", id: "s1", name: "web_search", input: { query: QUERY } };
const result = {
  type: "web_search_tool_result",
  tool_use_id: "s1",
  content: [{ type: "web_search_result", url: URL, title: "Sky", encrypted_content: "x" }],
};
const searchCall = {
  type: "web_search_call",
  id: "ws_1",
  status: "completed",
  action: { type: "search", query: QUERY, sources: [{ type: "url", url: URL }] },
};
const message = {
  type: "message",
  content: [{ type: "output_text", text: TEXT, annotations: [annotation] }],
};
const { type, ...url_citation } = annotation;
const chatAnnotations = [{ type, url_citation }];

const WHOLE: Readonly<Record<Dialect, Json>> = {
  chat: { choices: [{ message: { content: TEXT, annotations: chatAnnotations }, finish_reason: "stop" }] },
  responses: { status: "completed", output: [searchCall, message] },
  messages: {
    content: [call, result, { type: "text", text: TEXT, citations: [citation] }],
    stop_reason: "end_turn",
  },
  gemini: {
    candidates: [
      { content: { parts: [{ text: TEXT }] }, finishReason: "STOP", groundingMetadata: grounding },
    ],
  },
};

const block = (index: number, content_block: object, ...deltas: object[]) => [
  { type: "content_block_start", index, content_block },
  ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
  { type: "content_block_stop", index },
];
const done = (output_index: number, item: object) => ({
  type: "response.output_item.done",
  output_index,
  item,
});

const STREAMS: Readonly<Record<Dialect, readonly object[]>> = {
  chat: [
    { choices: [{ delta: { content: TEXT.slice(0, 9) } }] },
    { choices: [{ delta: { content: TEXT.slice(9) } }] },
    { choices: [{ delta: { annotations: chatAnnotations } }] },
    { choices: [{ delta: {}, finish_reason: "stop" }] },
  ],
  responses: [
    done(0, searchCall),
    { type: "response.output_text.delta", output_index: 1, content_index: 0, delta: TEXT },
    done(1, message),
    { type: "response.completed", response: { status: "completed" } },
  ],
  messages: [
    ...block(
      0,
      { ...call, input: {} },
      { type: "input_json_delta", partial_json: JSON.stringify(call.input) },
    ),
    ...block(1, result),
    ...block(
      2,
      { type: "text", text: "" },
      { type: "text_delta", text: TEXT.slice(0, 9) },
      { type: "citations_delta", citation },
      { type: "text_delta", text: TEXT.slice(9) },
    ),
    { type: "message_delta", delta: { stop_reason: "end_turn" } },
    { type: "message_stop" },
  ],
  gemini: [
    { candidates: [{ content: { parts: [{ text: TEXT.slice(0, 9) }] } }] },
    {
      candidates: [
        { content: { parts: [{ text: TEXT.slice(9) }] }, finishReason: "STOP", groundingMetadata: grounding },
      ],
    },
  ],
};

interface Translation {
  /** The JSON of a whole response, or of all events. */
  readonly text: string;
  readonly dropped: readonly string[];
}

function translateWhole(upstream: Dialect, client: Dialect): Translation {
  const dropped = new DroppedFields();
  const response = lookUpCodec(upstream).readResponse(WHOLE[upstream], { ...NO_TOOL_NAMES, dropped });
  if (response === null) throw new Error("not a response");
  const target = clientTarget(hubRequest(client), { dropped });
  const written = lookUpCodec(client).writeResponse(response, target);
  return { text: JSON.stringify(written), dropped: dropped.list() };
}

function translateStream(upstream: Dialect, client: Dialect): Translation {
  const dropped = new DroppedFields();
  const reader = lookUpCodec(upstream).openStreamReader({ ...NO_TOOL_NAMES, dropped });
  const writer = lookUpCodec(client).openStreamWriter(clientTarget(hubRequest(client), { dropped }));
  const events = [
    ...STREAMS[upstream].flatMap((event) => reader.read(JSON.stringify(event), null)),
    ...reader.close(),
  ];
  const written = parseSse(events.map((event) => writer.write(event)).join(""));
  return { text: written.map(({ data }) => data).join("\n"), dropped: dropped.list() };
}

const ALL: readonly Dialect[] = ["chat", "responses", "messages", "gemini"];
const PAIRS = ALL.flatMap((upstream) =>
  ALL.filter((client) => client !== upstream).map((client): [Dialect, Dialect] => [upstream, client]),
);
const FORMS = [
  ["whole", translateWhole],
  ["streamed", translateStream],
] as const;

/** What a client of each dialect finds. */
const EXPECTED: Readonly<Record<Exclude<Dialect, "messages">, unknown>> = {
  chat: chatAnnotations,
  responses: [annotation],
  gemini: grounding.groundingSupports,
};

describe.each(PAIRS)("a response of a %s upstream for a %s client", (upstream, client) => {
  const hasSearch = upstream !== "chat";

  test.each(FORMS)("%s", (_, translate) => {
    const { text, dropped } = translate(upstream, client);
    if (client === "messages") {
      expect(dropped.toSorted()).toEqual(hasSearch ? ["annotations", "web_search_call"] : ["annotations"]);
      return;
    }
    const written: unknown = EXPECTED[client];
    for (const one of written as object[]) expectMembers(text, one);
    if (client === "chat") expect(dropped).toEqual(hasSearch ? ["web_search_call"] : []);
    else {
      expect(dropped).toEqual([]);
      if (hasSearch) expect(text).toContain(QUERY);
    }
  });
});

/** The object is in the text, with its members in any order. */
function expectMembers(text: string, object: object): void {
  const found = text.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line)] : []));
  expect(flatten(found)).toContainEqual(object);
}

function flatten(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  return [value, ...Object.values(value).flatMap(flatten)];
}

test("a Responses client gets the pages that were found if it requests them", () => {
  const request = hubRequest("responses", { original: { include: ["web_search_call.action.sources"] } });
  const response = lookUpCodec("messages").readResponse(WHOLE.messages, NO_TOOL_NAMES);
  if (response === null) throw new Error("not a response");
  expect(lookUpCodec("responses").writeResponse(response, clientTarget(request)).output).toMatchObject([
    { type: "web_search_call", status: "completed", action: searchCall.action },
    { type: "message" },
  ]);
});

describe("citations of several texts have their places in the one message of a Chat client", () => {
  const texts = ["One. ", "Two."];
  const readPlaces = (text: string) =>
    [...text.matchAll(/"start_index":(\d+),"end_index":(\d+)/g)].map(([, start, end]) => [start, end]);
  const places = [
    ["0", "5"],
    ["5", "9"],
  ];

  test("whole", () => {
    const content = texts.map((text) => ({ type: "text", text, citations: [citation] }));
    const response = lookUpCodec("messages").readResponse({ content }, NO_TOOL_NAMES);
    if (response === null) throw new Error("not a response");
    const written = lookUpCodec("chat").writeResponse(response, clientTarget(hubRequest("chat")));
    expect(readPlaces(JSON.stringify(written))).toEqual(places);
  });

  test("streamed", () => {
    const events = texts.flatMap((text, index) =>
      block(
        index,
        { type: "text", text: "" },
        { type: "text_delta", text },
        { type: "citations_delta", citation },
      ),
    );
    const reader = lookUpCodec("messages").openStreamReader(NO_TOOL_NAMES);
    const writer = lookUpCodec("chat").openStreamWriter(clientTarget(hubRequest("chat")));
    const read = [...events, { type: "message_stop" }].flatMap((event) =>
      reader.read(JSON.stringify(event), null),
    );
    const text = read.map((event) => writer.write(event)).join("");
    expect(readPlaces(text)).toEqual(places);
    // OpenAI sends the annotations of a message in one chunk, and its SDK keeps only those of one.
    expect(text.split('"annotations"')).toHaveLength(2);
  });

  test("and are read from there, in the text that they belong to", () => {
    const later = { type: "url_citation", url_citation: { url: URL, start_index: 5, end_index: 9 } };
    const deltas = [
      { content: "One. " },
      { tool_calls: [{ index: 0, id: "c", function: { name: "look_up", arguments: "{}" } }] },
      { content: "Two." },
      { annotations: [later] },
    ];
    const reader = lookUpCodec("chat").openStreamReader(NO_TOOL_NAMES);
    const chunks = deltas.map((delta) => JSON.stringify({ choices: [{ delta }] }));
    const events = [...chunks, "[DONE]"].flatMap((data) => reader.read(data, null));
    const cited = events.flatMap((event) => (event.type === "item_end" ? (event.citations ?? []) : []));
    expect(cited).toEqual([{ url: URL, title: "", start: 0, end: 4 }]);
  });
});

describe("what no other dialect can express is named", () => {
  const fileCitation = { type: "file_citation", file_id: "f" };
  const cases: readonly [string, Dialect, Json, string][] = [
    [
      "a place in a document",
      "messages",
      { content: [{ type: "text", text: "a", citations: [{ type: "page_location", cited_text: "a" }] }] },
      "citations",
    ],
    [
      "a page that was fetched",
      "messages",
      { content: [{ type: "web_fetch_tool_result" }, { type: "text", text: "a" }] },
      "output.web_fetch_tool_result",
    ],
    [
      "a file that was created",
      "messages",
      { content: [{ type: "container_upload" }, { type: "text", text: "a" }] },
      "output.container_upload",
    ],
    [
      "a citation of a file",
      "responses",
      { output: [{ type: "message", content: [{ text: "a", annotations: [fileCitation] }] }] },
      "annotations",
    ],
    [
      "a search in files",
      "responses",
      { output: [{ type: "file_search_call" }, message] },
      "output.file_search_call",
    ],
    [
      "code that was run",
      "gemini",
      {
        candidates: [
          { content: { parts: [{ executableCode: { code: "1" } }, { text: "a" }] }, finishReason: "STOP" },
        ],
      },
      "output.executableCode",
    ],
  ];
  test.each(cases)("%s", (_, upstream, json, name) => {
    const dropped = new DroppedFields();
    lookUpCodec(upstream).readResponse(json, { ...NO_TOOL_NAMES, dropped });
    expect(dropped.list()).toEqual([name]);
  });

  test.each(cases)("%s, in a stream", (_, upstream, json, name) => {
    const dropped = new DroppedFields();
    const reader = lookUpCodec(upstream).openStreamReader({ ...NO_TOOL_NAMES, dropped });
    for (const event of splitResponse(json)) reader.read(JSON.stringify(event), null);
    expect(dropped.list()).toEqual([name]);
  });

  /** The events of a whole response. An event of Gemini is one itself. */
  function splitResponse({ content, output, ...gemini }: Json): object[] {
    if (Array.isArray(content)) return content.flatMap((one: object, index) => block(index, one));
    return Array.isArray(output) ? output.map((item: object, at) => done(at, item)) : [gemini];
  }
});

describe("the history of a client with citations", () => {
  const HISTORIES: Readonly<Partial<Record<Dialect, Json>>> = {
    messages: {
      messages: [
        { role: "user", content: "hi" },
        { role: "assistant", content: [{ type: "text", text: TEXT, citations: [citation] }] },
        { role: "user", content: "and?" },
      ],
    },
    responses: {
      input: [
        { role: "user", content: "hi" },
        { ...message, role: "assistant" },
        { role: "user", content: "and?" },
      ],
    },
    chat: {
      messages: [
        { role: "user", content: "hi" },
        { role: "assistant", content: TEXT, annotations: chatAnnotations },
        { role: "user", content: "and?" },
      ],
    },
  };
  const clients = ["messages", "responses", "chat"] as const;

  test.each(clients)("of %s keeps them for Responses, and names them for other upstreams", (client) => {
    const request = lookUpCodec(client).readRequest(HISTORIES[client] ?? {}, {
      publicModel: "public",
      stream: false,
    });
    for (const [, { codec, profile }] of DIALECT_LOSSES) {
      const { body, dropped } = codec.writeRequest(request, writeTarget({ profile }));
      const name = client === "messages" ? "citations" : "annotations";
      expect([codec.dialect, dropped]).toEqual([codec.dialect, codec.dialect === "responses" ? [] : [name]]);
      expect(JSON.stringify(body).includes(URL)).toBe(codec.dialect === "responses");
    }
  });

  test("of Messages names the blocks of hosted tools, and documents whose citations are enabled", () => {
    const source = { type: "text", media_type: "text/plain", data: "x" };
    const messages = [
      { role: "user", content: [{ type: "document", source, citations: { enabled: true } }] },
      { role: "assistant", content: [call, result, { type: "text", text: TEXT }] },
      { role: "user", content: "and?" },
    ];
    const request = lookUpCodec("messages").readRequest({ messages }, { publicModel: "p", stream: false });
    expect(lookUpCodec("chat").writeRequest(request, writeTarget()).dropped).toEqual([
      "messages[0].content[0].citations",
      "messages[1].content[0].server_tool_use",
      "messages[1].content[1].web_search_tool_result",
    ]);
  });
});
