import { describe, expect, test } from "bun:test";
import { wholeBytesPart } from "../../base/parts.ts";
import { requestCounts } from "../../count-limits.ts";
import type { ApiError } from "../../errors.ts";
import { lookUpEndpoint } from "../endpoints.ts";
import { readModelRequest } from "../read-request.ts";
import type { Endpoint } from "./endpoint.ts";
import { checkParsedValues } from "./list-bounds.ts";
import type { ModelRequest } from "./request.ts";

const LIMITS = { depthMax: 128, modelNameCharsMax: 64 };
const RESPONSES = lookUpEndpoint("responses");
const CHAT = lookUpEndpoint("chat.completions");
const MESSAGES = lookUpEndpoint("messages");
const EMBEDDINGS = lookUpEndpoint("embeddings");
const GEMINI: Endpoint = { ...lookUpEndpoint("gemini.generate_content"), model: "m" };

function read(endpoint: Endpoint, fields: string): ModelRequest {
  return readModelRequest(wholeBytesPart(Buffer.from(`{"model":"m",${fields}}`)), endpoint, LIMITS);
}

/** The error of a request; null if it is accepted. */
function rejection(endpoint: Endpoint, fields: string): Pick<ApiError, "code" | "param" | "message"> | null {
  try {
    read(endpoint, fields);
    return null;
  } catch (thrown) {
    return thrown as ApiError;
  }
}

const list = (count: number, element: string) => `[${Array(count).fill(element).join(",")}]`;
const { itemsMax, partsMax, toolsMax, allowedToolsMax, schemaNodesMax, embeddingInputsMax, parsedValuesMax } =
  requestCounts;
const ITEM = `{"role":"user","content":"hi"}`;
const NAME = `{"type":"function","name":"f"}`;

describe("a list", () => {
  test.each<[string, number, string, Endpoint, (count: number) => string]>([
    ["of items", itemsMax, "input", RESPONSES, (n) => `"input":${list(n, ITEM)}`],
    ["of numbers instead of items", itemsMax, "input", RESPONSES, (n) => `"input":${list(n, "1")}`],
    ["of messages", itemsMax, "messages", CHAT, (n) => `"messages":${list(n, ITEM)}`],
    ["of contents", itemsMax, "contents", GEMINI, (n) => `"contents":${list(n, `{"parts":[]}`)}`],
    [
      "of parts in the second message",
      partsMax,
      "messages[1].content",
      CHAT,
      (n) => `"messages":[${ITEM},{"role":"user","content":${list(n, `{"type":"text","text":"a"}`)}}]`,
    ],
    [
      "of parts of the instructions",
      partsMax,
      "system",
      MESSAGES,
      (n) => `"messages":[${ITEM}],"max_tokens":1,"system":${list(n, "{}")}`,
    ],
    [
      "of parts of the instruction",
      partsMax,
      "systemInstruction.parts",
      GEMINI,
      (n) => `"contents":[],"systemInstruction":{"parts":${list(n, "{}")}}`,
    ],
    [
      "of parts in the output of a call",
      partsMax,
      "input[0].output",
      RESPONSES,
      (n) => `"input":[{"type":"function_call_output","output":${list(n, "{}")}}]`,
    ],
    [
      "of parts in the result of a tool",
      partsMax,
      "messages[0].content[0].content",
      CHAT,
      (n) => `"messages":[{"role":"user","content":[{"type":"tool_result","content":${list(n, "{}")}}]}]`,
    ],
    [
      "of calls in a message",
      partsMax,
      "messages[0].tool_calls",
      CHAT,
      (n) => `"messages":[{"role":"assistant","tool_calls":${list(n, "{}")}}]`,
    ],
    [
      "of annotations of a message",
      partsMax,
      "messages[0].annotations",
      CHAT,
      (n) => `"messages":[{"role":"assistant","content":"a","annotations":${list(n, "{}")}}]`,
    ],
    [
      "of annotations of a part",
      partsMax,
      "input[0].content[0].annotations",
      RESPONSES,
      (n) =>
        `"input":[{"role":"assistant","content":[{"type":"output_text","annotations":${list(n, "{}")}}]}]`,
    ],
    [
      "of tools that an item adds",
      toolsMax,
      "input[0].tools",
      RESPONSES,
      (n) => `"input":[{"type":"additional_tools","tools":${list(n, NAME)}}]`,
    ],
    [
      "of functions in the older form of tools",
      toolsMax,
      "functions",
      CHAT,
      (n) => `"messages":[${ITEM}],"functions":${list(n, `{"name":"f"}`)}`,
    ],
    [
      "of Gemini parts",
      partsMax,
      "contents[0].parts",
      GEMINI,
      (n) => `"contents":[{"parts":${list(n, `{"text":"a"}`)}}]`,
    ],
    ["of tools", toolsMax, "tools", RESPONSES, (n) => `"input":"a","tools":${list(n, NAME)}`],
    [
      "of functions in a Gemini tool",
      toolsMax,
      "tools[0].function_declarations",
      GEMINI,
      (n) => `"contents":[],"tools":[{"function_declarations":${list(n, `{"name":"f"}`)}}]`,
    ],
    [
      "of allowed tools",
      allowedToolsMax,
      "tool_choice.tools",
      RESPONSES,
      (n) => `"input":"a","tool_choice":{"type":"allowed_tools","tools":${list(n, NAME)}}`,
    ],
    [
      "of allowed tools of Chat",
      allowedToolsMax,
      "tool_choice.allowed_tools.tools",
      CHAT,
      (n) => `"messages":[${ITEM}],"tool_choice":{"allowed_tools":{"tools":${list(n, NAME)}}}`,
    ],
    [
      "of allowed functions of Gemini",
      allowedToolsMax,
      "toolConfig.functionCallingConfig.allowedFunctionNames",
      GEMINI,
      (n) =>
        `"contents":[],"toolConfig":{"functionCallingConfig":{"allowedFunctionNames":${list(n, `"f"`)}}}`,
    ],
    ["of texts to embed", embeddingInputsMax, "input", EMBEDDINGS, (n) => `"input":${list(n, `"a"`)}`],
  ])("%s may have %i elements, and one more is rejected by name", (_, max, param, endpoint, build) => {
    expect(rejection(endpoint, build(max))).toBeNull();
    const count = max.toLocaleString("en-US");
    expect(rejection(endpoint, build(max + 1))).toMatchObject({
      code: "invalid_value",
      param,
      message: `\`${param}\` has more than ${count} elements. Send at most ${count}.`,
    });
  });

  test("of values in the schema of a tool is bounded as a whole", () => {
    const tool = (values: number) =>
      `"input":"a","tools":[{"type":"function","name":"f","parameters":{"enum":${list(values, "1")}}}]`;
    // The object and the array are values too.
    expect(rejection(RESPONSES, tool(schemaNodesMax - 2))).toBeNull();
    expect(rejection(RESPONSES, tool(schemaNodesMax - 1))).toMatchObject({
      param: "tools[0].parameters",
      message: "`tools[0].parameters` has more than 32,768 values. Send at most 32,768.",
    });
  });

  test.each<[string, Endpoint, (schema: string) => string]>([
    ["response_format", CHAT, (schema) => `"messages":[${ITEM}],"response_format":${schema}`],
    ["text", RESPONSES, (schema) => `"input":"a","text":${schema}`],
    ["output_config", MESSAGES, (schema) => `"messages":[${ITEM}],"max_tokens":1,"output_config":${schema}`],
    ["generationConfig", GEMINI, (schema) => `"contents":[],"generationConfig":${schema}`],
  ])("the schema of a response, in %s", (member, endpoint, body) => {
    const schema = (values: number) => `{"schema":{"enum":${list(values, "1")}}}`;
    expect(rejection(endpoint, body(schema(schemaNodesMax - 3)))).toBeNull();
    expect(rejection(endpoint, body(schema(schemaNodesMax - 2)))).toMatchObject({ param: member });
  });

  test("of many values in few elements is accepted", () => {
    const wide = `{"role":"user","content":[{"type":"text","text":"a","x":[1,2,3,4,5,6,7,8,9]}]}`;
    expect(rejection(CHAT, `"messages":${list(itemsMax, wide)}`)).toBeNull();
  });

  test("cannot be hidden beside a second member of the same name, or behind an escape in the name", () => {
    const long = list(partsMax + 1, "1");
    for (const members of [`"content":${long},"content":"a"`, `"content":"a","cont\\u0065nt":${long}`])
      expect(rejection(CHAT, `"messages":[{${members}}]`)).toMatchObject({
        code: "invalid_value",
        param: "messages[0].content",
      });
  });

  test("is found with any whitespace", () => {
    const message = ` { "role" : "user" ,\n"content" :\t[ ${list(partsMax + 1, "\n1 ").slice(1)} } `;
    expect(rejection(CHAT, `"messages" : [ ${ITEM} , ${message} ]`)).toMatchObject({
      param: "messages[1].content",
    });
    expect(rejection(CHAT, `"messages" : [ ${message.replace(",\n1 ", "")} ]`)).toBeNull();
  });
});

test("a body has a bounded number of values if it is translated, and any number if it passes through", () => {
  // The array itself is a value.
  const within = read(RESPONSES, `"input":"a","metadata":${list(parsedValuesMax - 1, "1")}`);
  const beyond = read(RESPONSES, `"input":"a","metadata":${list(parsedValuesMax, "1")}`);
  for (const [request, isAccepted] of [
    [within, true],
    [beyond, false],
  ] as const) {
    if (request.inputText.kind !== "json") throw new Error("not JSON");
    const { inputText } = request;
    if (isAccepted) expect(() => checkParsedValues(inputText)).not.toThrow();
    else expect(() => checkParsedValues(inputText)).toThrow("more than 262,144 JSON values");
  }
});
