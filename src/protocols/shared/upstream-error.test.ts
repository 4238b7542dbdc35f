import { describe, expect, test } from "bun:test";
import { readRefusal, readUpstreamError } from "./upstream-error.ts";

describe("finding the error", () => {
  const found = { code: "c", type: "t", param: "p", message: "m" };

  test("in an error envelope", () => {
    expect(readUpstreamError({ error: found })).toEqual(found);
  });

  test("in a failed response", () => {
    const json = {
      type: "response.failed",
      response: { status: "failed", error: { code: "c", message: "m" } },
    };
    expect(readUpstreamError(json)).toEqual({ code: "c", type: null, param: null, message: "m" });
  });

  test("in an error event, whose fields stand at the top", () => {
    const json = { type: "error", code: "c", message: "m", param: null, sequence_number: 3 };
    expect(readUpstreamError(json)).toEqual({ code: "c", type: "error", param: null, message: "m" });
  });

  test("in an error whose object says that it is one", () => {
    const json = { object: "error", message: "m", type: "BadRequestError", param: null, code: 400 };
    expect(readUpstreamError(json)).toEqual({
      code: "400",
      type: "BadRequestError",
      param: null,
      message: "m",
    });
  });

  test("in an error event that nests them", () => {
    expect(readUpstreamError({ type: "error", error: found })).toEqual(found);
  });

  test("in a bare string", () => {
    expect(readUpstreamError({ error: "no" })).toEqual({
      code: null,
      type: null,
      param: null,
      message: "no",
    });
  });

  test("with a code that is a number", () => {
    expect(readUpstreamError({ error: { code: 429, message: "m" } })?.code).toBe("429");
  });

  test("with the time of its reset, as a time or a moment", () => {
    const read = (more: object) => readUpstreamError({ error: { ...found, ...more } });
    expect(read({ resets_in_seconds: 90 })).toEqual({ ...found, resetsInMs: 90_000 });
    expect(read({ resets_at: 1_788_264_000 })).toEqual({ ...found, resetsAtMs: 1_788_264_000_000 });
    expect(read({ resets_at: 1_788_264_000, resets_in_seconds: 90 })).toEqual({
      ...found,
      resetsInMs: 90_000,
    });
    expect(read({ resets_at: "soon", resets_in_seconds: -1 })).toEqual(found);
  });

  test("with fields of any other type left out", () => {
    const odd = { error: { code: {}, type: [], param: true, message: null } };
    expect(readUpstreamError(odd)).toEqual({ code: null, type: null, param: null, message: "" });
  });

  test("or not, where there is none", () => {
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

describe("the reason of a refusal is also found", () => {
  const reason = { code: null, type: null, param: null, message: "too hot" };

  test("in what FastAPI calls a detail", () => {
    expect(readRefusal({ detail: "too hot" })).toEqual(reason);
  });

  test("in its list of fields that are wrong, under the name that OpenAI has for the first", () => {
    const detail = [
      { loc: ["body", "messages", 0, "content"], msg: "field required", type: "missing" },
      { loc: ["body", "n"], msg: "too many", type: "less_than" },
    ];
    expect(readRefusal({ detail })).toEqual({
      ...reason,
      param: "messages[0].content",
      message: "messages[0].content: field required",
    });
  });

  test("in a list that holds the error", () => {
    const error = { code: 400, message: "too hot", status: "INVALID_ARGUMENT" };
    expect(readRefusal([{ error }])).toEqual({ ...reason, code: "400" });
  });

  test("in a message alone", () => {
    expect(readRefusal({ message: "too hot" })).toEqual(reason);
  });

  test("and not where there is none", () => {
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
      expect(readRefusal(json)).toBeNull();
    }
  });
});
