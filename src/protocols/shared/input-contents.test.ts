import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { camelCase } from "../../base/name-case.ts";
import { type InputContents, measureInputContents } from "./input-contents.ts";
import { measureInputSize } from "./input-size.ts";
import { GEMINI_MEDIA_EXAMPLES, MEDIA_EXAMPLES } from "./media-members.test-support.ts";
import { classifyGeminiTool, HOSTED_GEMINI_TOOLS, TOOL_MEMBERS } from "./tool-kinds.ts";

const measureText = (json: string): InputContents => {
  const body = Buffer.from(json);
  return measureInputContents(body, measureInputSize(body));
};
const measure = (json: unknown) => measureText(JSON.stringify(json));
const PICTURE = `data:image/png;base64,${"iVBORw0KGgo".repeat(100)}`;
const NOTHING = {
  pictures: 0,
  remotePictures: 0,
  files: 0,
  remoteFiles: 0,
  referencesItems: false,
  hostsTools: false,
  searchesWeb: false,
  namesCollections: false,
  hasSchema: false,
};
const content = (...parts: object[]) => ({ input: [{ role: "user", content: parts }] });

describe("the contents of a request's input", () => {
  test("is its text if it refers to nothing else", () => {
    const body = { model: "m", input: "hi", tools: [{ type: "function", parameters: { type: "object" } }] };
    expect(measure(body)).toEqual({ ...NOTHING, textBytes: JSON.stringify(body).length });
  });

  test.each([
    [content({ type: "input_image", image_url: PICTURE }), { pictures: 1 }],
    [content({ type: "input_image", image_url: "https://a/b.png" }), { pictures: 1, remotePictures: 1 }],
    [
      { messages: [{ role: "user", content: [{ image_url: { url: "https://a/b" } }] }] },
      { pictures: 1, remotePictures: 1 },
    ],
    [content({ type: "input_file", file_url: "https://a/b.pdf" }), { files: 1, remoteFiles: 1 }],
    [content({ type: "input_file", file_id: "file-1" }), { files: 1, remoteFiles: 1 }],
    [content({ type: "input_file", file_data: PICTURE }), { files: 1 }],
    [content({ type: "input_audio", input_audio: { format: "wav", data: "AAAA" } }), { files: 1 }],
    [{ input: [{ type: "item_reference", id: "msg_1" }] }, { referencesItems: true }],
    [{ input: [{ id: "msg_1" }] }, { referencesItems: true }],
    [{ input: [{ id: "msg_1", type: null }] }, { referencesItems: true }],
    [{ input: [{ role: "user", content: "a" }, { id: "msg_1" }] }, { referencesItems: true }],
    [{ tools: [{ type: "web_search" }] }, { hostsTools: true, searchesWeb: true }],
    [{ tools: [{ type: "function" }, { type: "mcp", server_url: "https://a" }] }, { hostsTools: true }],
    [
      { input: [{ type: "additional_tools", tools: [{ type: "web_search" }] }] },
      { hostsTools: true, searchesWeb: true },
    ],
    [{ input: [{ type: "tool_search_output", tools: [{ type: "mcp" }] }] }, { hostsTools: true }],
    [{ tools: [{ type: "namespace", tools: [{ type: "mcp" }] }] }, { hostsTools: true }],
    [{ tools: { codeExecution: {} } }, { hostsTools: true }],
    [{ web_search_options: {} }, { hostsTools: true, searchesWeb: true }],
    [
      { tools: [{ type: "image_generation", input_image_mask: { file_id: "file-1" } }] },
      { files: 1, remoteFiles: 1, hostsTools: true },
    ],
    [
      {
        messages: [
          { content: [{ type: "tool_use", input: { url: "a" } }, { image_url: { url: "https://a" } }] },
        ],
      },
      { pictures: 1, remotePictures: 1 },
    ],
    [
      { tools: [{ type: "file_search", vector_store_ids: ["vs_1"] }] },
      { hostsTools: true, namesCollections: true },
    ],
    [
      { tools: [{ fileSearch: { fileSearchStoreNames: ["fileSearchStores/a"] } }] },
      { hostsTools: true, namesCollections: true },
    ],
    [{ response_format: { type: "json_schema", json_schema: { schema: {} } } }, { hasSchema: true }],
    [{ text: { format: { type: "json_schema", schema: {} } } }, { hasSchema: true }],
    [{ generationConfig: { responseJsonSchema: { type: "object" } } }, { hasSchema: true }],
  ] as const)("includes the references of case %#", (body, found) => {
    expect(measure(body)).toMatchObject({ ...NOTHING, ...found });
  });

  test.each(MEDIA_EXAMPLES)("includes what `$name` holds, inline: $isInline", ({ kind, part, isInline }) => {
    const { pictures, remotePictures, files, remoteFiles } = measure(content(part));
    expect({ pictures, files }).toEqual(
      kind === "images" ? { pictures: 1, files: 0 } : { pictures: 0, files: 1 },
    );
    // Of audio and video, the address is not read.
    expect(remotePictures + remoteFiles).toBe(isInline || kind === "audio" ? 0 : 1);
  });

  test.each(GEMINI_MEDIA_EXAMPLES)("includes what Gemini's `$name` holds", ({ part, isInline }) => {
    expect(measure({ contents: [{ parts: [part] }] })).toMatchObject(
      isInline ? { ...NOTHING, pictures: 1 } : { ...NOTHING, files: 1, remoteFiles: 1 },
    );
  });

  test.each(TOOL_MEMBERS)("includes the tool that `$name` turns on", (member) => {
    const { name, kind, addsInput, isOffIfFalse } = member;
    const found = { ...NOTHING, hostsTools: addsInput, searchesWeb: kind === "web_search" };
    expect(measure({ [name]: {} })).toMatchObject(found);
    expect(measure({ [name]: true })).toMatchObject(found);
    expect(measure({ [name]: null })).toMatchObject(NOTHING);
    expect(measure({ [name]: false })).toMatchObject(isOffIfFalse ? NOTHING : found);
    expect(measure({ metadata: { [name]: {} } })).toMatchObject(NOTHING);
  });

  test.each(HOSTED_GEMINI_TOOLS)("includes Gemini's tool `%s`", (name) => {
    const searchesWeb = classifyGeminiTool(camelCase(name)) === "web_search";
    expect(measure({ tools: [{ [name]: {} }] })).toMatchObject({ ...NOTHING, hostsTools: true, searchesWeb });
    expect(measure({ metadata: [{ [name]: {} }] })).toMatchObject(NOTHING);
  });

  test.each([
    { input: [{ role: "user", content: [{ text: "x" }] }] },
    { input: [{ type: "message", content: [{ id: "msg_1" }] }] },
    { input: ["a", "b"], web_search_options: null },
    { input: 'a "json_schema" and its "vector_store_ids"', response_format: { type: "json_object" } },
    { tools: [{ type: "function", parameters: { properties: { file_id: { type: "string" } } } }] },
    { contents: [{ parts: [{ inlineData: null }, { fileData: null }] }] },
    // Tools of Codex have a parameter `audio_url`.
    { tools: [{ type: "function", parameters: { properties: { audio_url: { type: "string" } } } }] },
    { tools: [{ functionDeclarations: [{ parameters: { properties: { fileData: { type: "OBJECT" } } } }] }] },
    {
      messages: [
        { content: [{ type: "tool_use", name: "WebFetch", input: { url: "https://a", file_id: "f" } }] },
      ],
    },
    { contents: [{ parts: [{ functionCall: { name: "fetch", args: { url: "https://a" } } }] }] },
    { contents: [{ parts: [{ functionResponse: { name: "fetch", response: { url: "https://a" } } }] }] },
    { metadata: { type: "web_search" } },
    {
      input: [{ type: "additional_tools", tools: [{ type: "function" }], content: [{ type: "web_search" }] }],
    },
    {
      input: [
        {
          type: "additional_tools",
          tools: [{ type: "function", parameters: { properties: { file_id: { type: "string" } } } }],
        },
      ],
    },
    { messages: [{ role: "user", content: '{"file_id":"file-1"}' }] },
  ])("contains nothing more in %j", (body) => {
    expect(measure(body)).toMatchObject(NOTHING);
  });

  test("is found for escaped names", () => {
    expect(measureText('{"t\\u006fols" : [ {"typ\\u0065":"web_search"} ]}').hostsTools).toBe(true);
    expect(measureText('{"tools":[{"type":"web\\u005fsearch"}]}').hostsTools).toBe(true);
    expect(measureText('{"tools":[{"type":"f\\u0075nction"}]}').hostsTools).toBe(false);
    expect(measureText('{"input":[{"type":"item\\u005freference"}]}').referencesItems).toBe(true);
    expect(measureText('{"input":[{"file\\u005fid":"f","role":"user"}]}').remoteFiles).toBe(1);
  });

  test("does not count whitespace between tokens as text", () => {
    fc.assert(
      fc.property(fc.object(), fc.constantFrom(1, 4, "\t", "  "), (body, indent) => {
        const plain = JSON.stringify(body);
        const spaced = measureText(` ${JSON.stringify(body, null, indent)}\r\n`);
        expect(spaced).toEqual(measureText(plain));
        expect(spaced.textBytes).toBeLessThanOrEqual(Buffer.byteLength(plain));
      }),
    );
  });
});
