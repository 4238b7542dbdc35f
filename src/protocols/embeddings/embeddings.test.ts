import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  readGeminiEmbeddings,
  readOpenaiEmbeddings,
  writeGeminiEmbeddings,
  writeOpenaiEmbeddings,
} from "./embeddings-request.ts";
import {
  normalize,
  readGeminiVector,
  readOpenaiVectors,
  scanGeminiBatch,
  writeGeminiVectors,
  writeOpenaiEntry,
  writeOpenaiTail,
} from "./embeddings-response.ts";
import { encodeVector } from "./vectors.ts";

const texts = fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 250 });
const dimensions = fc.option(fc.integer({ min: 1, max: 4_096 }));
/** JSON has no negative zero. */
const number = fc.float({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0);
const vectors = fc.array(fc.array(number, { minLength: 3, maxLength: 3 }), { minLength: 1, maxLength: 20 });

describe("a request", () => {
  test("has the same texts and dimensions after a translation there and back", () => {
    fc.assert(
      fc.property(texts, dimensions, (input, size) => {
        const request = readOpenaiEmbeddings({ model: "m", input, dimensions: size });
        const { batches } = writeGeminiEmbeddings(request, "m");
        const back = batches.map(({ body, count }) => {
          const google = readGeminiEmbeddings(body);
          expect(google.texts).toHaveLength(count);
          return readOpenaiEmbeddings(writeOpenaiEmbeddings(google, "m").body);
        });
        expect(back.flatMap((one) => one.texts)).toEqual(input);
        expect(back.every((one) => one.texts.length <= 100 && one.dimensions === size)).toBe(true);
      }),
    );
  });

  test("of Google's may be written in snake case", () => {
    const request = readGeminiEmbeddings({
      content: { parts: [{ text: "a" }] },
      output_dimensionality: 64,
      task_type: "CLUSTERING",
    });
    expect(request).toMatchObject({ texts: ["a"], dimensions: 64, taskType: "CLUSTERING", unread: [] });
  });

  test("names the fields that the other API does not have", () => {
    const openai = readOpenaiEmbeddings({ model: "m", input: "a", user: "ada", truncate: true });
    expect(writeGeminiEmbeddings(openai, "m").dropped).toEqual(["truncate", "user"]);
    const google = readGeminiEmbeddings({
      content: { parts: [{ text: "a" }] },
      taskType: "CLUSTERING",
      title: "t",
      autoTruncate: true,
    });
    expect(writeOpenaiEmbeddings(google, "m").dropped).toEqual(["autoTruncate", "taskType", "title"]);
  });

  test.each([
    [{ input: [1, 2] }, "unsupported_parameter"],
    [{ input: [["a"]] }, "unsupported_parameter"],
    [{ input: { text: "a" } }, "invalid_type"],
    [{ input: "a", dimensions: 0 }, "invalid_value"],
    [{ input: "a", dimensions: "8" }, "invalid_value"],
  ])("%j is rejected with %s", (json, code) => {
    expect(() => readOpenaiEmbeddings(json)).toThrow(expect.objectContaining({ code }));
  });

  test.each([
    [{ requests: [] }, "invalid_value"],
    [{ requests: ["a"] }, "invalid_type"],
    [{ content: {} }, "missing_required_parameter"],
    [{ content: { parts: [{ fileData: {} }] } }, "unsupported_parameter"],
  ])("of Google's like %j is rejected with %s", (json, code) => {
    expect(() => readGeminiEmbeddings(json)).toThrow(expect.objectContaining({ code }));
  });
});

function readGemini(json: object, count: number) {
  const bytes = Buffer.from(JSON.stringify(json));
  const batch = scanGeminiBatch({ bytes, start: 0, end: bytes.length }, count, 8);
  return batch?.vectors.map((range) => readGeminiVector(bytes, range)) ?? null;
}

describe("a response", () => {
  test("has the same vectors after a translation there and back", () => {
    fc.assert(
      fc.property(vectors, fc.boolean(), (list, wantsBase64) => {
        const entries = list.map((vector, index) => writeOpenaiEntry(vector, index, wantsBase64));
        const openai = JSON.parse(`{"data":[${entries.join(",")}${writeOpenaiTail("m", 3)}`);
        const read = readOpenaiVectors(openai, list.length);
        if (read === null) throw new Error("not a response");
        expect(readGemini(writeGeminiVectors(read, "batch"), list.length)).toEqual(list);
        expect([read.usage?.inputTokens, openai.model]).toEqual([3, "m"]);
      }),
    );
  });

  test("is ordered by its indexes", () => {
    const data = [
      { index: 1, embedding: [2] },
      { index: 0, embedding: encodeVector([1]) },
    ];
    expect(readOpenaiVectors({ data }, 2)?.vectors).toEqual([[1], [2]]);
  });

  test("with a missing, empty or doubled vector is none", () => {
    expect(readOpenaiVectors({ data: [{ index: 0, embedding: [1] }] }, 2)).toBeNull();
    expect(readOpenaiVectors({ data: [{ index: 0, embedding: [] }] }, 1)).toBeNull();
    const doubled = [0, 0].map((index) => ({ index, embedding: [1] }));
    expect(readOpenaiVectors({ data: doubled }, 2)).toBeNull();
    expect(readGemini({ embeddings: [{ values: [1] }] }, 2)).toBeNull();
    for (const values of [["1"], [], 7]) expect(readGemini({ embeddings: [{ values }] }, 1)).toEqual([null]);
  });

  test("is normalized to length 1, except for a vector of zeros", () => {
    expect(normalize([3, 4])).toEqual([0.6, 0.8]);
    expect(normalize([0, 0])).toEqual([0, 0]);
  });
});
