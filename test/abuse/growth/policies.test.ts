/** The work of a request policy grows no faster than the request, wherever and however deep the request grows. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { listGrowthCases } from "./grow.ts";
import { buildRequest, DIALECTS, type Dialect, json, RULED_KEY } from "./lab.ts";
import { type GrowthRun, judgeAll } from "./measure.ts";
import { CPU_MS_PER_MIB, useWarmLab } from "./routes.ts";
import { SAMPLES } from "./samples.ts";

setDefaultTimeout(600_000);

const lab = useWarmLab();

describe("the work of a request policy grows linearly", () => {
  test.each(DIALECTS)("with each place of %s", async (dialect) => {
    const runs = SAMPLES[dialect].requests.flatMap((sample) =>
      listGrowthCases(sample.json).map(({ place, variant, build }) =>
        growthRun(dialect, `${sample.name}: ${place === "" ? "the document" : place}, ${variant}`, build),
      ),
    );
    expect(await judgeAll(`policies on ${dialect}`, runs)).toEqual([]);
  });

  test.each(DIALECTS)("with nested lists of %s", async (dialect) => {
    const runs = Object.entries(NESTED[dialect]).map(([name, write]) =>
      growthRun(dialect, name, (bytes) => write(bytes)),
    );
    expect(await judgeAll(`policies on nested ${dialect}`, runs)).toEqual([]);
  });
});

function growthRun(dialect: Dialect, name: string, build: (bytes: number) => string): GrowthRun {
  const response = json(JSON.stringify(SAMPLES[dialect].responses[0]?.json));
  return {
    name,
    msPerMib: CPU_MS_PER_MIB.ruled,
    send: (bytes) =>
      lab().run(
        {
          ...buildRequest(dialect, { model: lab().model(dialect), stream: false, body: build(bytes) }),
          key: RULED_KEY,
        },
        response,
      ),
  };
}

/** Two levels of JSON each, below the greatest depth of a request. */
const LEVELS = 20;

/** A list of small elements inside of many lists: work at each level would be work for the whole list. */
function nest(bytes: number, element: string, wrap: (inner: string) => string): string {
  const count = Math.ceil(bytes / (element.length + 1));
  let list = `[${`${element},`.repeat(count).slice(0, -1)}]`;
  for (let level = 0; level < LEVELS; level++) list = wrap(list);
  return list;
}

const TOOL = '{"type":"function","name":"a"}';
const TEXT = '{"type":"text","text":"a"}';

const NESTED: Readonly<Record<Dialect, Readonly<Record<string, (bytes: number) => string>>>> = {
  responses: {
    "tools of a choice": (bytes) =>
      `{"input":"a","tools":[${TOOL}],"tool_choice":${nest(bytes, TOOL, (list) => `{"type":"x","tools":[${list}]}`)}}`,
    "tools of namespaces": (bytes) =>
      `{"input":"a","tools":${nest(bytes, TOOL, (list) => `[{"type":"namespace","name":"n","tools":${list}}]`)}}`,
    "content of items": (bytes) => `{"input":${nest(bytes, TEXT, (list) => `[{"content":${list}}]`)}}`,
  },
  chat: {
    "allowed tools of a choice": (bytes) =>
      `{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":${nest(bytes, TOOL, (list) => `{"type":"allowed_tools","allowed_tools":{"tools":[${list}]}}`)}}`,
    "content of messages": (bytes) =>
      `{"messages":[{"role":"user","content":${nest(bytes, TEXT, (list) => `[{"content":${list}}]`)}}]}`,
  },
  messages: {
    "documents of sources": (bytes) =>
      `{"max_tokens":9,"messages":[{"role":"user","content":${nest(
        bytes,
        TEXT,
        (list) => `[{"type":"document","source":{"type":"content","content":${list}}}]`,
      )}}]}`,
    "tools of a choice": (bytes) =>
      `{"max_tokens":9,"messages":[{"role":"user","content":"a"}],"tool_choice":${nest(bytes, TOOL, (list) => `{"type":"x","tools":[${list}]}`)}}`,
  },
  gemini: {
    "parts of responses": (bytes) =>
      `{"contents":[{"role":"user","parts":${nest(bytes, '{"text":"a"}', (list) => `[{"functionResponse":{"parts":${list}}}]`)}}]}`,
    "members of tools": (bytes) =>
      `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":${nest(bytes, '{"name":"a"}', (list) => `[{"functionDeclarations":${list}}]`)}}`,
  },
};
