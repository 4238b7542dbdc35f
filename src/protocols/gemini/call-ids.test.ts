/** The ids of function calls, which Vertex AI rejects. */

import { expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { ENDPOINTS } from "../endpoints.ts";
import { readModelRequest } from "../read-request.ts";

const LIMITS = { depthMax: 64, modelNameCharsMax: 64 };
const endpoint = ENDPOINTS.find(({ name }) => name === "gemini.generate_content");

function forVertex(text: string): unknown {
  if (endpoint === undefined) throw new Error("no endpoint");
  const request = readModelRequest(wholeBytesPart(Buffer.from(text)), { ...endpoint, model: "m" }, LIMITS);
  const body = request.body.forUpstream("up", { api: "gemini" });
  if ("open" in body) throw new Error("expected parts");
  return JSON.parse(new TextDecoder().decode(joinParts(body)));
}

type Json = Record<string, unknown>;

/** The same by parsing. */
function withoutIds(contents: readonly { role: string; parts: readonly Json[] }[]): unknown {
  return contents.map(({ role, parts }) => ({
    role,
    parts: parts.map((part) =>
      Object.fromEntries(
        Object.entries(part).map(([name, value]) => {
          if (!/^function_?(?:call|response)$/i.test(name)) return [name, value];
          const { id: _, ...rest } = value as Json;
          return [name, rest];
        }),
      ),
    ),
  }));
}

const value = fc.oneof(
  fc.string(),
  fc.constant({ id: "inner", functionCall: { id: "x" } }),
  fc.constant('"functionCall":{"id":"text"}'),
);
const call = fc.record({ id: fc.string(), name: fc.string(), args: value }, { requiredKeys: ["name"] });
const part = fc.oneof(
  fc.record({ text: fc.string() }),
  fc.record(
    { functionCall: call, thoughtSignature: fc.constant("c2ln") },
    { requiredKeys: ["functionCall"] },
  ),
  fc.record({ functionResponse: call }),
  fc.record({ function_call: call }),
);
const contents = fc.array(fc.record({ role: fc.constantFrom("user", "model"), parts: fc.array(part) }));

test("only the ids of calls and responses are removed", () => {
  fc.assert(
    fc.property(contents, fc.constantFrom(0, 2), (list, indent) => {
      const tools = [
        { functionDeclarations: [{ name: "functionCall", parameters: { functionCall: { id: 1 } } }] },
      ];
      const body = forVertex(JSON.stringify({ tools, contents: list }, null, indent));
      expect(body).toEqual({ tools, contents: withoutIds(list) });
    }),
  );
});
