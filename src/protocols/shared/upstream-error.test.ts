import { describe, expect, test } from "bun:test";
import { readRejection, readUpstreamError } from "./upstream-error.ts";

describe("reading an upstream error", () => {
  const found = { code: "c", type: "t", param: "p", message: "m" };

  test("from an error envelope", () => {
    expect(readUpstreamError({ error: found })).toEqual(found);
  });

  test("from a failed response", () => {
    const json = {
      type: "response.failed",
      response: { status: "failed", error: { code: "c", message: "m" } },
    };
    expect(readUpstreamError(json)).toEqual({ code: "c", type: null, param: null, message: "m" });
  });

  test("from an error event with top-level fields", () => {
    const json = { type: "error", code: "c", message: "m", param: null, sequence_number: 3 };
    expect(readUpstreamError(json)).toEqual({ code: "c", type: "error", param: null, message: "m" });
  });

  test("from an object of type error", () => {
    const json = { object: "error", message: "m", type: "BadRequestError", param: null, code: 400 };
    expect(readUpstreamError(json)).toEqual({
      code: "400",
      type: "BadRequestError",
      param: null,
      message: "m",
    });
  });

  test("from an error event with a nested error", () => {
    expect(readUpstreamError({ type: "error", error: found })).toEqual(found);
  });

  test("from a plain string", () => {
    expect(readUpstreamError({ error: "no" })).toEqual({
      code: null,
      type: null,
      param: null,
      message: "no",
    });
  });

  test("with a numeric code", () => {
    expect(readUpstreamError({ error: { code: 429, message: "m" } })?.code).toBe("429");
  });

  test("with its reset, as a duration or a timestamp", () => {
    const read = (more: object) => readUpstreamError({ error: { ...found, ...more } });
    expect(read({ resets_in_seconds: 90 })).toEqual({ ...found, resetsInMs: 90_000 });
    expect(read({ resets_at: 1_788_264_000 })).toEqual({ ...found, resetsAtMs: 1_788_264_000_000 });
    expect(read({ resets_at: 1_788_264_000, resets_in_seconds: 90 })).toEqual({
      ...found,
      resetsInMs: 90_000,
    });
    expect(read({ resets_at: "soon", resets_in_seconds: -1 })).toEqual(found);
  });

  test("without fields of other types", () => {
    const odd = { error: { code: {}, type: [], param: true, message: null } };
    expect(readUpstreamError(odd)).toEqual({ code: null, type: null, param: null, message: "" });
  });

  test("without the rest of a text that an event has made very long", () => {
    const message = "a ".repeat(1024 * 1024);
    for (const error of [message, { message }, { message, code: 400, status: "INVALID_ARGUMENT" }])
      expect(readUpstreamError({ error })?.message).toBe(message.slice(0, 16 * 1024));
  });

  test("returns null if there is none", () => {
    for (const json of [
      null,
      7,
      "x",
      [],
      {},
      { error: null },
      { error: 7 },
      { message: "m" },
      { type: "error" },
    ]) {
      expect(readUpstreamError(json)).toBeNull();
    }
  });
});

describe("reading the reason of a rejection", () => {
  const reason = { code: null, type: null, param: null, message: "too hot" };

  test("from FastAPI's detail", () => {
    expect(readRejection({ detail: "too hot" })).toEqual(reason);
  });

  test("from FastAPI's list of invalid fields, with the first as OpenAI's param", () => {
    const detail = [
      { loc: ["body", "messages", 0, "content"], msg: "field required", type: "missing" },
      { loc: ["body", "n"], msg: "too many", type: "less_than" },
    ];
    expect(readRejection({ detail })).toEqual({
      ...reason,
      param: "messages[0].content",
      message: "messages[0].content: field required",
    });
  });

  test("from a list that contains the error", () => {
    const error = { code: 400, message: "too hot", status: "INVALID_ARGUMENT" };
    expect(readRejection([{ error }])).toEqual({ ...reason, code: "400", type: "INVALID_ARGUMENT" });
  });

  test("from a plain message", () => {
    expect(readRejection({ message: "too hot" })).toEqual(reason);
  });

  test("returns null if there is none", () => {
    for (const json of [
      null,
      [],
      [5],
      "too hot",
      {},
      { detail: [] },
      { detail: [{ msg: 5 }] },
      { message: {} },
    ]) {
      expect(readRejection(json)).toBeNull();
    }
  });
});
