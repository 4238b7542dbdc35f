/** Requests that repeat one thing as often as the bounds allow are translated in time that fits their size. */

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { requestCounts } from "../../count-limits.ts";
import type { ApiError } from "../../errors.ts";
import { parseLossless } from "../../json/lossless.ts";
import { lookUpCodec } from "../codecs.ts";
import { writeTarget } from "./codec.test-support.ts";
import type { Dialect, HubItem } from "./hub-request.ts";
import { readObject } from "./json-values.ts";

function translate(from: Dialect, to: Dialect, json: string): Readonly<Record<string, unknown>> {
  const read = lookUpCodec(from).readRequest(readObject(parseLossless(json)) ?? {}, {
    publicModel: "public",
    stream: false,
  });
  return lookUpCodec(to).writeRequest(read, writeTarget()).body;
}

function rejection(run: () => unknown): Pick<ApiError, "code" | "param" | "message"> {
  try {
    run();
  } catch (thrown) {
    return thrown as ApiError;
  }
  throw new Error("not rejected");
}

const times = (count: number, make: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => make(i)).join(",");

const tool = (schema: string) =>
  `{"input":"hi","tools":[{"type":"function","name":"f","parameters":${schema}}]}`;
const references = (branches: number, properties: number) =>
  tool(
    `{"anyOf":[${times(branches, () => `{"$ref":"#/$defs/a"}`)}],"$defs":{"a":{"properties":{${times(properties, (i) => `"p${i}":{"type":"string"}`)}},"required":[${times(properties, (i) => `"p${i}"`)}]}}}`,
  );
const alternatives = (branches: number) =>
  tool(`{"anyOf":[${times(branches, (i) => `{"properties":{"a":{"const":${i}}},"required":["a"]}`)}]}`);
const allowed = (count: number) =>
  `{"input":"hi","tools":[${times(count, (i) => `{"type":"function","name":"f${i}"}`)}],"tool_choice":{"type":"allowed_tools","tools":[${times(count, (i) => `{"name":"g${i}"}`)}]}}`;
const searches = (count: number) =>
  `{"input":"hi","tools":[${times(count, () => `{"type":"web_search"}`)},${times(count, (i) => `{"type":"function","name":"f${i}"}`)}],"tool_choice":{"type":"function","name":"web_search_2"}}`;
const geminiCalls = (count: number) =>
  `{"contents":[{"role":"model","parts":[${times(count, (i) => `{"functionCall":{"name":"f${i}"}}`)}]},{"role":"user","parts":[${times(count, (i) => `{"functionResponse":{"name":"f${count - 1 - i}","response":{}}}`)}]}]}`;

/** The best of three runs, because other work on the machine can only make a run longer. */
function cpuMs(run: () => void): number {
  const runs = [1, 2, 3].map(() => {
    const before = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...runs);
}

const { schemaBranchesMax, toolsMax, partsMax, namespaceCharsMax } = requestCounts;

/** Each of these took at least a second for a body of this size. */
const CPU_MS_PER_MIB = 300;
const CPU_MS_LEAST = 20;

describe("the work of translation fits the size of the request", () => {
  test.each<[string, Dialect, Dialect, string]>([
    ["references to one definition", "responses", "messages", references(schemaBranchesMax, 8_000)],
    ["alternatives of one property", "responses", "messages", alternatives(schemaBranchesMax)],
    ["tools and allowed names", "responses", "messages", allowed(toolsMax)],
    ["tools and searches", "responses", "messages", searches(toolsMax / 2)],
    ["open calls and their outputs", "gemini", "responses", geminiCalls(partsMax)],
  ])("%s", (name, from, to, json) => {
    const mib = json.length / 2 ** 20;
    const ms = cpuMs(() => void translate(from, to, json));
    console.log(`work: ${name}: ${(json.length / 1_000).toFixed(0)} KB, ${ms.toFixed(1)} ms of CPU`);
    expect(ms).toBeLessThan(CPU_MS_LEAST + CPU_MS_PER_MIB * mib);
  });
});

describe("a tool's schema", () => {
  test("with too many alternatives is rejected with their number", () => {
    expect(
      rejection(() => translate("responses", "messages", alternatives(schemaBranchesMax + 1))),
    ).toMatchObject({
      code: "invalid_value",
      param: "tools",
      message: "The schema of a tool has more than 1,024 alternatives in `anyOf`. Send at most 1,024.",
    });
  });

  test("has each form of a property once", () => {
    const branch = (kind: number) => `{"properties":{"kind":{"const":${kind}}}}`;
    const { tools } = translate("responses", "messages", tool(`{"anyOf":[${[1, 2, 1, 2].map(branch)}]}`));
    expect(tools).toMatchObject([
      { input_schema: { properties: { kind: { anyOf: [{ const: 1 }, { const: 2 }] } } } },
    ]);
  });

  test("keeps a property with alternatives of its own as it is", () => {
    const own = `{"description":"a","anyOf":[{"type":"string"},{"type":"null"}]}`;
    const { tools } = translate("responses", "messages", tool(`{"anyOf":[{"properties":{"a":${own}}}]}`));
    expect(tools).toMatchObject([{ input_schema: { properties: { a: JSON.parse(own) } } }]);
  });

  test.each(["12345678901234567890", "1", "null", "{}", "[]"])(
    "with the reference %s keeps the branch",
    (reference) => {
      const branch = `{"$ref":${reference},"properties":{"a":{"type":"string"}}}`;
      const { tools } = translate("responses", "messages", tool(`{"anyOf":[${branch}]}`));
      expect(tools).toMatchObject([{ input_schema: { properties: { a: { type: "string" } } } }]);
    },
  );

  test("that is a long number is no schema", () => {
    const { tools } = translate("responses", "messages", tool("12345678901234567890"));
    expect(tools).toEqual([{ name: "f", input_schema: { type: "object" } }]);
  });
});

test("a namespace with a long name is rejected, because each of its tools has the name upstream", () => {
  const named = (chars: number) =>
    `{"input":"hi","tools":[{"type":"namespace","name":"${"n".repeat(chars)}","tools":[{"type":"function","name":"f"}]}]}`;
  expect(translate("responses", "chat", named(namespaceCharsMax)).tools).toBeArrayOfSize(1);
  expect(rejection(() => translate("responses", "chat", named(namespaceCharsMax + 1)))).toMatchObject({
    code: "invalid_value",
    param: "tools[0].name",
  });
});

test("a Gemini output belongs to the open call with its id, or else to the first open call of its name", () => {
  const name = fc.constantFrom("a", "b");
  const id = fc.option(fc.constantFrom("1", "2", "3"), { nil: undefined });
  fc.assert(
    fc.property(fc.array(fc.tuple(name, id)), fc.array(fc.tuple(name, id)), (calls, outputs) => {
      const contents = [
        { role: "model", parts: calls.map(([of, callId]) => ({ functionCall: { name: of, id: callId } })) },
        {
          role: "user",
          parts: outputs.map(([of, callId]) => ({
            functionResponse: { name: of, id: callId, response: {} },
          })),
        },
      ];
      const read = () =>
        lookUpCodec("gemini")
          .readRequest({ contents }, { publicModel: "public", stream: false })
          .items.flatMap((item: HubItem) => (item.kind === "call_output" ? [item.callId] : []));
      const wanted = pairSlowly(calls, outputs);
      if (wanted === null) expect(rejection(read).code).toBe("invalid_value");
      else expect(read()).toEqual(wanted);
    }),
  );
});

type NamedCall = readonly [name: string, id: string | undefined];

/** The rule itself. Null if an output has no call. */
function pairSlowly(calls: readonly NamedCall[], outputs: readonly NamedCall[]): string[] | null {
  const open = calls.map(([name, id], at) => ({ name, id: id ?? `call_${at}` }));
  const paired: string[] = [];
  for (const [name, id] of outputs) {
    const byId = open.findIndex((call) => call.id === id);
    const at = byId === -1 ? open.findIndex((call) => call.name === name) : byId;
    const [call] = at === -1 ? [] : open.splice(at, 1);
    if (call === undefined) return null;
    paired.push(call.id);
  }
  return paired;
}
