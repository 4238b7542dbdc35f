/** What a dialect writes it reads back, apart from the losses that it declares. */

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CHAT_CODEC } from "../chat/chat-codec.ts";
import { RESPONSES_CODEC } from "../responses/responses-codec.ts";
import { COMPATIBLE_PROFILE } from "./account-profile.ts";
import {
  clientTarget,
  conversations,
  hubRequest,
  NO_TOOL_NAMES,
  parseSse,
  sharedSettings,
  streams,
  TOOLS,
  textPart,
  writeTarget,
} from "./codec.test-support.ts";
import type { DialectCodec, HubStreamReader } from "./dialect-codec.ts";
import type { HubEvent } from "./hub-response.ts";

const CODECS: readonly [string, DialectCodec][] = [
  ["Chat Completions", CHAT_CODEC],
  ["Responses", RESPONSES_CODEC],
];
const OPTIONS = { publicModel: "public", stream: false };

describe.each(CODECS)("%s", (_, codec) => {
  test("reads the requests that it writes", () => {
    fc.assert(
      fc.property(conversations, sharedSettings, fc.boolean(), (items, settings, hasTools) => {
        const request = hubRequest(codec.dialect, {
          instructions: [textPart("Be brief.")],
          items,
          tools: hasTools ? TOOLS : [],
          toolChoice: hasTools ? { kind: "tool", name: "look_up", namespace: null } : null,
          // Without tools the setting is left out, because OpenAI rejects it.
          settings: hasTools ? settings : { ...settings, parallelCalls: null },
        });
        const { body, dropped } = codec.writeRequest(request, writeTarget());
        const read = codec.readRequest(JSON.parse(JSON.stringify(body)), OPTIONS);
        expect(dropped).toEqual([]);
        expect(withoutSource(read)).toEqual(withoutSource(request));
      }),
    );
  });

  test("reads the streams that it writes", () => {
    fc.assert(
      fc.property(streams, (events) => {
        const read = translateStream(events, codec);
        expect(mergeDeltas(read)).toEqual(mergeDeltas(events.map((event) => withWrittenTier(event, codec))));
      }),
    );
  });

  test("reads whole responses that it writes", () => {
    fc.assert(
      fc.property(conversations, (items) => {
        const output = items.filter(
          (item) => item.kind === "call" || (item.kind === "message" && item.role === "assistant"),
        );
        const first = output.find(({ kind }) => kind === "message");
        const calls = output.filter(({ kind }) => kind === "call");
        const kept = [...(first === undefined ? [] : [first]), ...calls] as never[];
        const response = {
          responseId: "resp_1",
          createdAtSeconds: 1,
          items: kept,
          stop: calls.length > 0 ? ("tools" as const) : ("end" as const),
          stopSequence: null,
          usage: null,
        };
        const written = codec.writeResponse(response, clientTarget(hubRequest(codec.dialect)));
        expect(codec.readResponse(JSON.parse(JSON.stringify(written)), NO_TOOL_NAMES)).toEqual(response);
      }),
    );
  });
});

/** A response of the Responses API always has a tier. */
function withWrittenTier(event: HubEvent, { dialect }: DialectCodec): HubEvent {
  if (event.type !== "usage" || dialect !== "responses") return event;
  return { ...event, usage: { ...event.usage, tier: event.usage.tier ?? "standard" } };
}

test("custom tools that an upstream lacks come back as custom calls", () => {
  fc.assert(
    fc.property(fc.string(), (input) => {
      const request = hubRequest("responses", { tools: TOOLS });
      const { body, toolNames } = CHAT_CODEC.writeRequest(
        request,
        writeTarget({ profile: COMPATIBLE_PROFILE }),
      );
      expect(JSON.stringify(body)).not.toContain('"type":"custom"');
      const toolCall = {
        id: "c",
        type: "function",
        function: { name: "free", arguments: JSON.stringify({ input }) },
      };
      const answer = { choices: [{ message: { tool_calls: [toolCall] }, finish_reason: "tool_calls" }] };
      const read = CHAT_CODEC.readResponse(answer, { ...NO_TOOL_NAMES, toolNames });
      expect(read?.items).toMatchObject([{ kind: "call", tool: "custom", name: "free", input }]);
    }),
  );
});

/** Chat has one text and one list of calls in each message, so its reader merges what the stream has separated. */
function translateStream(events: readonly HubEvent[], codec: DialectCodec): HubEvent[] {
  const writer = codec.openStreamWriter(clientTarget(hubRequest(codec.dialect)));
  const text = events.map((event) => writer.write(event)).join("");
  return readAll(codec.openStreamReader(NO_TOOL_NAMES), text);
}

function readAll(reader: HubStreamReader, text: string): HubEvent[] {
  return [...parseSse(text).flatMap(({ data, name }) => reader.read(data, name)), ...reader.close()];
}

function mergeDeltas(events: readonly HubEvent[]): unknown[] {
  const merged: Record<string, unknown>[] = [];
  for (const event of events) {
    const last = merged.at(-1);
    if (event.type === "delta" && last?.type === "delta") last.text = `${last.text}${event.text}`;
    else if (event.type === "start") merged.push({ type: "start" });
    else if (event.type === "item_start" && event.item.kind === "reasoning")
      merged.push({ type: "item_start", kind: "reasoning" });
    else if (event.type === "item_end") merged.push({ type: "item_end" });
    else merged.push({ ...event });
  }
  return merged;
}

/** A Responses upstream is always asked for the state of its reasoning, so that it can be sealed. */
function withoutSource({ original: _, unread: __, settings, ...request }: ReturnType<typeof hubRequest>) {
  return { ...request, settings: { ...settings, wantsEncryptedReasoning: false } };
}
