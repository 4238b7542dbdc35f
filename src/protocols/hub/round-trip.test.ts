/** What a dialect writes it reads back, apart from the losses that it declares. */

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { COMPATIBLE_PROFILE } from "../../accounts/profiles.ts";
import { CHAT_CODEC } from "../chat/chat-codec.ts";
import type { TokenUsage } from "../shared/usage.ts";
import {
  call,
  callOutput,
  clientTarget,
  conversations,
  functionStreams,
  hubRequest,
  message,
  NO_SETTINGS,
  NO_TOOL_NAMES,
  parseSse,
  sharedSettings,
  streams,
  TOOLS,
  textPart,
  USAGE,
  writeTarget,
} from "./codec.test-support.ts";
import { DIALECT_LOSSES, type DialectLosses } from "./declared-losses.test-support.ts";
import type { DialectCodec, HubStreamReader } from "./dialect-codec.ts";
import type { Dialect, HubItem, HubRequest, OpaqueField } from "./hub-request.ts";
import type { HubEvent } from "./hub-response.ts";

const OPTIONS = { publicModel: "public", stream: false };

describe.each(DIALECT_LOSSES)("%s", (_, losses) => {
  const { codec, profile, isOpenai } = losses;

  test("reads the requests that it writes, and names what it drops", () => {
    fc.assert(
      fc.property(conversations, sharedSettings, fc.boolean(), (items, settings, hasTools) => {
        fc.pre(items.length > 0);
        const request = hubRequest(codec.dialect, {
          instructions: [textPart("Be brief.")],
          items: items.map((item) => withAccepted(item, losses)),
          tools: hasTools ? TOOLS : [],
          toolChoice: hasTools ? { kind: "tool", name: "look_up", namespace: null } : null,
          // Without tools the setting is left out, because OpenAI rejects it.
          settings: hasTools ? settings : { ...settings, parallelCalls: null },
        });
        const { body, dropped } = codec.writeRequest(request, writeTarget({ profile }));
        const read = codec.readRequest(JSON.parse(JSON.stringify(body)), OPTIONS);
        expect(dropped.toSorted()).toEqual(losses.expectDropped(request).toSorted());
        expect(withoutSource(read, losses)).toEqual(withoutSource(losses.expectRequest(request), losses));
      }),
    );
  });

  test("writes the same request again from what it has read", () => {
    fc.assert(
      fc.property(conversations, sharedSettings, (items, settings) => {
        fc.pre(items.length > 0);
        const accepted = items.map((item) => withAccepted(item, losses));
        const target = writeTarget({ profile });
        const request = hubRequest(codec.dialect, { items: accepted, tools: TOOLS, settings });
        const first = codec.writeRequest(request, target).body;
        const read = codec.readRequest(JSON.parse(JSON.stringify(first)), OPTIONS);
        expect(withoutUser(codec.writeRequest(read, target).body)).toEqual(withoutUser(first));
      }),
    );
  });

  test("reads the streams that it writes", () => {
    fc.assert(
      fc.property(isOpenai ? streams : functionStreams, (events) => {
        fc.pre(!isEmptyEnd(events, codec));
        const read = translateStream(events, codec);
        expect(mergeDeltas(read)).toEqual(mergeDeltas(events.map((event) => expectEvent(event, losses))));
      }),
    );
  });

  test("reads whole responses that it writes", () => {
    fc.assert(
      fc.property(conversations, (items) => {
        const output = items.filter(
          (item) =>
            (item.kind === "call" && (isOpenai || item.tool === "function")) ||
            (item.kind === "message" && item.role === "assistant"),
        );
        fc.pre(output.length > 0);
        const first = output.find(({ kind }) => kind === "message");
        const calls = output.filter(({ kind }) => kind === "call");
        const kept = [...(first === undefined ? [] : [first]), ...calls] as never[];
        const response = {
          responseId: "resp_1",
          createdAtSeconds: codec.dialect === "chat" || codec.dialect === "responses" ? 1 : null,
          items: kept,
          stop: calls.length > 0 ? ("tools" as const) : ("end" as const),
          stopSequence: null,
          usage: USAGE,
        };
        const written = codec.writeResponse(response, clientTarget(hubRequest(codec.dialect)));
        expect(codec.readResponse(JSON.parse(JSON.stringify(written)), NO_TOOL_NAMES)).toEqual({
          ...response,
          usage: losses.expectUsage(USAGE),
        });
      }),
    );
  });
});

/** The state of each vendor, in the field of its dialect. */
const STATES: readonly [OpaqueField, Dialect, string][] = [
  ["encrypted_content", "responses", "Hm."],
  ["signature", "messages", "Hm."],
  ["redacted_thinking", "messages", ""],
  // Google's clients need not send thoughts back.
  ["thought_signature", "gemini", ""],
];

test.each(STATES)("a request carries %s of its own vendor back unchanged", (field, dialect, shown) => {
  const losses = DIALECT_LOSSES.map(([, one]) => one).find(({ codec }) => codec.dialect === dialect);
  if (losses === undefined) throw new Error("no such dialect");
  const { codec, profile } = losses;
  fc.assert(
    fc.property(fc.base64String({ minLength: 4 }), (value) => {
      const opaque = { kind: "vendor", dialect, field, value } as const;
      const isSummary = dialect !== "messages";
      const items: HubItem[] = [
        message("user", "hi"),
        { kind: "reasoning", text: shown, isSummary, opaque },
        call("c1", { opaque: dialect === "gemini" ? opaque : null }),
        callOutput("c1", "x"),
      ];
      const request = hubRequest(dialect, { items, tools: TOOLS });
      const { body, dropped } = codec.writeRequest(request, writeTarget({ profile }));
      const isOpenai = dialect === "responses";
      expect(dropped).toEqual(isOpenai ? [] : ["tools.strict"]);
      expect(codec.readRequest(JSON.parse(JSON.stringify(body)), OPTIONS).items).toEqual(items);
    }),
  );
});

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
      const response = { choices: [{ message: { tool_calls: [toolCall] }, finish_reason: "tool_calls" }] };
      const read = CHAT_CODEC.readResponse(response, { ...NO_TOOL_NAMES, toolNames });
      expect(read?.items).toMatchObject([{ kind: "call", tool: "custom", name: "free", input }]);
    }),
  );
});

function withAccepted(item: HubItem, { accepts }: DialectLosses): HubItem {
  return item.kind === "message" ? { ...item, parts: item.parts.filter(accepts) } : item;
}

/** Gemini's reader takes a normal end without content for a fault of the upstream. */
function isEmptyEnd(events: readonly HubEvent[], { dialect }: DialectCodec): boolean {
  return (
    dialect === "gemini" &&
    !events.some(({ type }) => type === "delta") &&
    events.some((event) => event.type === "end" && event.stop === "end")
  );
}

function expectEvent(event: HubEvent, { expectUsage }: DialectLosses): HubEvent {
  return event.type === "usage" ? { ...event, usage: expectUsage(event.usage) } : event;
}

/** Chat has one text and one list of calls in each message, so its reader merges what the stream has separated. */
function translateStream(events: readonly HubEvent[], codec: DialectCodec): HubEvent[] {
  const reasoning = { effort: null, budgetTokens: null, isShown: true };
  const request = hubRequest(codec.dialect, { settings: { ...NO_SETTINGS, reasoning } });
  const writer = codec.openStreamWriter(clientTarget(request));
  const text = events.map((event) => writer.write(event)).join("");
  return readAll(codec.openStreamReader(NO_TOOL_NAMES), text);
}

function readAll(reader: HubStreamReader, text: string): HubEvent[] {
  return [...parseSse(text).flatMap(({ data, name }) => reader.read(data, name)), ...reader.close()];
}

/** The last report of usage counts: Messages has an estimate in its first event. */
function mergeDeltas(events: readonly HubEvent[]): { events: unknown[]; usage: TokenUsage | null } {
  const merged: Record<string, unknown>[] = [];
  let usage: TokenUsage | null = null;
  for (const event of events) {
    const last = merged.at(-1);
    if (event.type === "usage") usage = event.usage;
    else if (event.type === "delta" && last?.type === "delta") last.text = `${last.text}${event.text}`;
    else if (event.type === "start") merged.push({ type: "start" });
    else if (event.type === "item_start" && event.item.kind === "reasoning")
      merged.push({ type: "item_start", kind: "reasoning" });
    else if (event.type === "item_end") merged.push({ type: "item_end" });
    else merged.push({ ...event });
  }
  return { events: merged, usage };
}

/** The state of reasoning is always requested from upstreams, so that it can be sealed. */
function withoutSource(
  { original: _, unread: __, settings, ...request }: HubRequest,
  { isOpenai }: DialectLosses,
) {
  const user = isOpenai ? settings.user : null;
  return { ...request, settings: { ...settings, user, wantsEncryptedReasoning: false } };
}

/** A digest is digested again. */
function withoutUser({ metadata: _, ...body }: Record<string, unknown>): Record<string, unknown> {
  return body;
}
