import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { ENDPOINTS } from "../endpoints.ts";
import { inspectBody, openInspected, readModelRequest } from "../read-request.ts";
import type { EndpointName } from "../shared/endpoint.ts";
import type { ModelRequest, UpstreamBody } from "../shared/request.ts";

const LIMITS = { depthMax: 32, modelNameCharsMax: 64 };

function endpoint(name: EndpointName) {
  const found = ENDPOINTS.find((one) => one.name === name);
  if (found === undefined) throw new Error(name);
  return { ...found, model: "public" };
}

const part = (json: unknown) => wholeBytesPart(Buffer.from(JSON.stringify(json)));

function read(json: unknown, name: EndpointName = "gemini.generate_content"): ModelRequest {
  return readModelRequest(part(json), endpoint(name), LIMITS);
}

function parse(body: UpstreamBody): unknown {
  if ("open" in body) throw new Error("expected parts");
  return JSON.parse(new TextDecoder().decode(joinParts(body)));
}

const contents = [{ role: "user", parts: [{ text: "Hello" }] }];

test("the model and the stream come from the path", () => {
  expect(read({ contents })).toMatchObject({ publicModel: "public", stream: false });
  expect(read({ contents }, "gemini.stream_generate_content").stream).toBe(true);
});

describe("the output limit", () => {
  test.each([
    [{ contents }, null],
    [{ contents, generationConfig: { maxOutputTokens: 9 } }, 9],
    [{ contents, generation_config: { max_output_tokens: 9 } }, 9],
  ])("of %j is %p", (json, tokens) => {
    expect(read(json).outputTokensMax).toBe(tokens);
  });

  test.each([
    [{ contents }, { contents, generationConfig: { maxOutputTokens: 5 } }],
    [
      { contents, generationConfig: {} },
      { contents, generationConfig: { maxOutputTokens: 5 } },
    ],
    [
      { contents, generationConfig: { temperature: 1, maxOutputTokens: 9 } },
      { contents, generationConfig: { temperature: 1, maxOutputTokens: 5 } },
    ],
    [
      { contents, generation_config: { max_output_tokens: 3 } },
      { contents, generation_config: { max_output_tokens: 3 } },
    ],
  ])("a cap of 5 turns %j into %j", (json, expected) => {
    expect(parse(read(json).body.withOutputCap(5).forUpstream("up"))).toEqual(expected);
  });
});

describe("metering", () => {
  const inlineData = (mimeType: string) => ({ inlineData: { mimeType, data: "A".repeat(4_000) } });
  const withParts = (...parts: object[]) => ({ contents: [{ role: "user", parts }] });

  test("inline media are not counted as text", () => {
    const size = read(withParts({ text: "Hi" }, inlineData("image/png"))).inputSize();
    expect(size.media).toBe(1);
    expect(size.textBytes).toBeLessThan(200);
  });

  test("images, files and hosted tools are distinguished", () => {
    const measured = read({
      ...withParts(inlineData("image/png"), inlineData("application/pdf"), {
        fileData: { fileUri: "gs://x/y" },
      }),
      tools: [{ googleSearch: {} }, { functionDeclarations: [{ name: "f" }] }],
    }).inputContents();
    expect(measured).toMatchObject({ pictures: 1, files: 2, remoteFiles: 1, hostsTools: true });
    expect(
      read({ contents, tools: [{ functionDeclarations: [{ name: "f" }] }] }).inputContents().hostsTools,
    ).toBe(false);
  });

  test("cached content is read in addition to the body", () => {
    expect(read({ contents, cachedContent: "cachedContents/1" }).readsStored).toBe(true);
    expect(read({ contents }).readsStored).toBe(false);
  });
});

const SIGNED = { functionCall: { id: "c1", name: "f" }, thoughtSignature: "Z3dzMS5h" };

test.each<[EndpointName, object]>([
  ["gemini.generate_content", { contents, model: "models/public" }],
  [
    "gemini.generate_content",
    { contents: [{ parts: [SIGNED, { text: "Z3dzMS5h" }, { thought_signature: "own" }] }] },
  ],
  [
    "gemini.batch_embed_contents",
    { requests: [{ content: {} }, { model: "models/public", content: {} }, {}] },
  ],
  ["gemini.count_tokens", { generateContentRequest: { contents } }],
])("a body of %s that a thread searched is sent as one that was not: %j", (name, json) => {
  const to = endpoint(name);
  const inspection = structuredClone(inspectBody(part(json), to, LIMITS));
  const searched = openInspected({ body: part(json), inspection, onDispose: null }, to, LIMITS).body;
  const plain = readModelRequest(part(json), to, LIMITS).body;
  for (const form of [null, { api: "gemini" } as const])
    expect(parse(searched.forUpstream("up", form))).toEqual(parse(plain.forUpstream("up", form)));
  const [reduced, wanted] = [searched.withoutEncryptedReasoning(), plain.withoutEncryptedReasoning()];
  expect(reduced && parse(reduced.forUpstream("up"))).toEqual(wanted && parse(wanted.forUpstream("up")));
});

test("a long body that a thread inspected is the same request", () => {
  const json = { contents, generationConfig: { maxOutputTokens: 9, candidateCount: 2 } };
  const name = endpoint("gemini.generate_content");
  const inspection = structuredClone(inspectBody(part(json), name, LIMITS));
  const opened = openInspected({ body: part(json), inspection, onDispose: null }, name, LIMITS);
  const direct = read(json);
  expect(opened).toMatchObject({ publicModel: "public", outputTokensMax: 9, choices: 2 });
  expect(opened.inputSize()).toEqual(direct.inputSize());
  expect(opened.tokensEstimate()).toBe(direct.tokensEstimate());
  expect(parse(opened.body.withOutputCap(5).forUpstream("up"))).toEqual(
    parse(direct.body.withOutputCap(5).forUpstream("up")),
  );
});

test("every other member is forwarded unchanged", () => {
  const names = fc
    .string()
    .filter(
      (name) =>
        !["model", "contents", "__proto__"].includes(name) &&
        !/^generat|^cached|^tools|^requests|^content$/.test(name),
    );
  fc.assert(
    fc.property(fc.dictionary(names, fc.jsonValue()), (rest) => {
      const json = JSON.parse(JSON.stringify({ ...rest, contents }));
      expect(parse(read(json).body.forUpstream("up"))).toEqual(json);
    }),
  );
});
