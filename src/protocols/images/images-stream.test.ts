import { describe, expect, test } from "bun:test";
import { joinParts } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { EventVerdict, StreamReader } from "../shared/stream.ts";
import { openImagesReader } from "./images-stream.ts";

const utf8 = new TextEncoder();

function open(choices = 1): StreamReader {
  return openImagesReader({ publicModel: "painter", choices, depthMax: 32 });
}

function read(reader: StreamReader, block: string): EventVerdict {
  const bytes = utf8.encode(`${block}\n\n`);
  return reader.read(bytes, 0, bytes.length - 2);
}

const block = (type: string, rest: Record<string, unknown> = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}`;
const USAGE = { input_tokens: 3, output_tokens: 4, total_tokens: 7 };
const COMPLETED = block("image_generation.completed", { b64_json: "AAAA", usage: USAGE });

describe("an image stream", () => {
  test.each(["image_generation.partial_image", "image_edit.partial_image"])("%s passes unchanged", (type) => {
    expect(read(open(), block(type, { b64_json: "AAAA" }))).toEqual({
      phase: "content",
      replacement: null,
    });
  });

  test.each(["image_generation.completed", "image_edit.completed"])("%s ends it and is unchanged", (type) => {
    const reader = open();
    expect(read(reader, block(type, { usage: USAGE }))).toEqual({ phase: "terminal", replacement: null });
    expect(reader).toMatchObject({ images: 1, outcome: "completed" });
    expect(reader.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  test("contains image events only", () => {
    expect(read(open(), block("codex.rate_limits", { plan: "org-1" })).phase).toBe("dropped");
  });

  test("contains no headers of the upstream, at any position of an event", () => {
    const headers = { "openai-organization": "org-1" };
    const picture = { type: "image_generation.partial_image", b64_json: "AAAA" };
    for (const event of [
      { headers, ...picture },
      { ...picture, headers },
      { ...picture, headers, model: "gpt-image" },
    ]) {
      const verdict = read(open(), `event: ${picture.type}\ndata: ${JSON.stringify(event)}`);
      if (verdict.phase !== "content" || !verdict.replacement) throw new Error("it was not changed");
      const [, data = ""] = Buffer.from(joinParts(verdict.replacement)).toString().split("data: ");
      expect(JSON.parse(data)).toEqual({ ...picture, ...("model" in event ? { model: "painter" } : {}) });
    }
  });

  test("of several images ends with the last", () => {
    const reader = open(3);
    expect(read(reader, COMPLETED).phase).toBe("content");
    expect(read(reader, COMPLETED).phase).toBe("content");
    expect(reader.outcome).toBe("failed");
    expect(read(reader, COMPLETED).phase).toBe("terminal");
    expect(reader).toMatchObject({ images: 3, outcome: "completed" });
  });

  test("that is closed early is complete if a finished image came last", () => {
    const reader = open(3);
    read(reader, block("image_generation.partial_image"));
    expect([reader.isCompleteWithoutTerminal("closed"), reader.isEnding()]).toEqual([false, false]);
    read(reader, COMPLETED);
    read(reader, block("image_generation.partial_image"));
    expect([reader.isCompleteWithoutTerminal("closed"), reader.isEnding()]).toEqual([false, false]);
    expect(reader).toMatchObject({ images: 2, outcome: "failed" });
    read(reader, COMPLETED);
    expect([reader.isCompleteWithoutTerminal("closed"), reader.isEnding()]).toEqual([true, true]);
    expect(reader).toMatchObject({ images: 2, outcome: "completed" });
  });

  test("that breaks off early is not complete", () => {
    const reader = open(2);
    read(reader, COMPLETED);
    expect(reader.isCompleteWithoutTerminal("broke off")).toBe(false);
    expect(reader).toMatchObject({ images: 1, outcome: "failed" });
  });

  test("has early usage after one image while the next is in progress", () => {
    const reader = open(2);
    read(reader, COMPLETED);
    expect(reader.usage).toMatchObject({ outputTokens: 4, isEarly: false });
    read(reader, block("image_generation.partial_image"));
    expect(reader.usage).toMatchObject({ outputTokens: 4, isEarly: true });
    read(reader, COMPLETED);
    expect(reader.usage).toMatchObject({ outputTokens: 4, isEarly: false });
  });

  test("has the kind of its images", () => {
    const reader = open();
    expect(reader.imageKind).toBeNull();
    read(reader, block("image_generation.partial_image", { size: "1024x1024", quality: "high" }));
    read(reader, COMPLETED);
    expect(reader.imageKind).toBe("1024x1024/high");
  });

  test("that failed still has its usage", () => {
    const reader = open(2);
    read(reader, block("image_generation.partial_image"));
    read(reader, block("error", { error: { message: "m" }, usage: USAGE }));
    expect(reader.usage).toMatchObject({ inputTokens: 3, outputTokens: 4, isEarly: false });
  });

  test("that breaks off within an image counts it, unless the upstream reports a failure", () => {
    const reader = open(2);
    expect(reader.images).toBe(0);
    read(reader, block("image_generation.partial_image"));
    expect(reader.images).toBe(1);
    read(reader, COMPLETED);
    expect(reader.images).toBe(2);
    read(reader, block("error", { error: { message: "m" } }));
    expect(reader.images).toBe(1);
  });

  test("that ends early counts the finished images", () => {
    const reader = open(2);
    read(reader, block("image_generation.partial_image"));
    read(reader, COMPLETED);
    reader.isCompleteWithoutTerminal("closed");
    expect(reader.images).toBe(1);
  });

  test.each([
    ["at the start", '{"model":"gpt-image-eu","type":"image_edit.completed","b64_json":"AAAA","n":1.0}'],
    ["in the middle", '{"type":"image_edit.completed", "model" : "gpt-image-eu","b64_json":"AAAA"}'],
    ["at the end", '{"type":"image_edit.completed","b64_json":"AAAA","model":"gpt-image-eu"}'],
  ])("has the public model instead of the upstream model, %s, and every other byte unchanged", (_, json) => {
    const expected = `event: image_edit.completed\ndata: ${json.replace("gpt-image-eu", "painter")}\n\n`;
    for (const text of [
      `event: image_edit.completed\ndata: ${json}`,
      `data: ${json}`,
      `data:${json}\nid: 1`,
    ]) {
      const verdict = read(open(), text);
      expect(verdict.phase === "terminal" && joinParts(verdict.replacement ?? []).toString()).toBe(expected);
    }
  });

  test("is rewritten without copying the image", () => {
    const bytes = utf8.encode(
      `${block("image_generation.partial_image", { model: "up", b64_json: "AAAA" })}\n\n`,
    );
    const verdict = open().read(bytes, 0, bytes.length - 2);
    const parts = verdict.phase === "content" ? (verdict.replacement ?? []) : [];
    expect(parts.filter((part) => part.bytes === bytes)).toHaveLength(2);
  });

  test.each([
    ["null", null],
    ["a number", 7],
    ["an object", { model: "x" }],
  ])("a model that is %s is unchanged", (_, model) => {
    const text = block("image_generation.partial_image", { model });
    expect(read(open(), text)).toEqual({ phase: "content", replacement: null });
  });

  test("adds a missing event line", () => {
    const verdict = read(open(), 'data: {"type":"image_generation.partial_image","n":1.0}');
    expect(
      verdict.phase === "content" && verdict.replacement && joinParts(verdict.replacement).toString(),
    ).toBe(
      'event: image_generation.partial_image\ndata: {"type":"image_generation.partial_image","n":1.0}\n\n',
    );
  });

  test("an error instead of an image is a failure", () => {
    const error = { code: "moderation_blocked", message: "m" };
    expect(read(open(), block("error", { error }))).toMatchObject({ phase: "failed", error });
    expect(read(open(), block("error", error))).toMatchObject({ phase: "failed", error });
    expect(read(open(), `data: ${JSON.stringify({ error })}`)).toMatchObject({ phase: "failed", error });
  });

  test("[DONE] is dropped, because the images API does not have it", () => {
    expect(read(open(), "data: [DONE]").phase).toBe("dropped");
    expect(open().endMarker).toBeNull();
  });

  test.each(["data: {", "data: {}", `data: ${JSON.stringify({ type: "a\nb" })}`])(
    "an invalid event is dropped and counted: %s",
    (bad) => {
      const reader = open();
      expect(read(reader, bad).phase).toBe("dropped");
      expect(reader.badEvents).toBe(1);
    },
  );

  test("that broke off ends with one error event", () => {
    const text = Buffer.from(open().failure(new ApiError("upstream_error", "It broke."), "req_1")).toString();
    expect(text).toBe(
      `event: error\ndata: ${JSON.stringify({
        type: "error",
        error: {
          message: "It broke.",
          type: "server_error",
          param: null,
          code: "upstream_error",
          request_id: "req_1",
        },
      })}\n\n`,
    );
  });
});
