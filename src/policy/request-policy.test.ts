import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  EFFORTS,
  type RequestPolicyRecord,
  type RequestRules,
  TOOL_KINDS,
} from "../records/request-policy.ts";
import {
  allowsModel,
  compileRequestPolicy,
  intersectPolicies,
  type RequestPolicy,
} from "./request-policy.ts";

function compile(rules: RequestRules | null, name = "p"): RequestPolicy {
  const record: RequestPolicyRecord = { name, selfService: false, rules, createdAtMs: 1 };
  return compileRequestPolicy(new Map([[name, record]]), name);
}

test("of two policies the stricter rule counts", () => {
  const group = compile({
    models: ["a*", "b"],
    output_tokens: { max: 100 },
    effort: { max: "high" },
    service_tiers: ["auto", "flex"],
    tools: { deny: ["web_search"] },
    inputs: { images: 5 },
  });
  const key = compile({
    models: ["ab*"],
    output_tokens: { max: 50, over: "reject" },
    effort: { max: "low" },
    service_tiers: ["auto", "default"],
    tools: { deny: ["mcp"], over: "reject" },
    inputs: { images: "deny", files: 2 },
    force: { store: false },
  });
  const both = intersectPolicies(group, key);
  expect(both?.body).toEqual({
    inputTokensMax: null,
    outputTokens: { max: 50, over: "reject" },
    effort: { max: "low", over: "lower" },
    serviceTiers: ["auto"],
    tools: { deny: ["web_search", "mcp"], over: "reject" },
    inputsMax: { images: 0, files: 2 },
    forced: ["store"],
  });
  expect(["abc", "a", "b"].map((model) => both !== null && allowsModel(both, model))).toEqual([
    true,
    false,
    false,
  ]);
});

test("a policy that does not exist, or has unknown rules, is unusable, also together with another", () => {
  expect(compileRequestPolicy(new Map(), "gone").unusable).toBe("gone");
  expect(intersectPolicies(compile({}), compile(null, "later"))?.unusable).toBe("later");
});

const rulesArbitrary = fc.record(
  {
    output_tokens: fc.record({
      max: fc.integer({ min: 16, max: 1_000 }),
      over: fc.constantFrom("lower", "reject"),
    }),
    effort: fc.record({ max: fc.constantFrom(...EFFORTS), over: fc.constantFrom("lower", "reject") }),
    service_tiers: fc.uniqueArray(fc.constantFrom("auto", "flex", "default"), { minLength: 1 }),
    tools: fc.record({ deny: fc.uniqueArray(fc.constantFrom(...TOOL_KINDS), { minLength: 1 }) }),
    inputs: fc.record({ images: fc.integer({ min: 0, max: 9 }) }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
);

test("an intersection is never looser than one of its policies, and their order does not matter", () => {
  fc.assert(
    fc.property(rulesArbitrary, rulesArbitrary, (first, second) => {
      const a = compile(first as RequestRules);
      const b = compile(second as RequestRules);
      const both = intersectPolicies(a, b);
      const reverse = intersectPolicies(b, a);
      for (const { body } of [a, b]) {
        if (body === null) continue;
        const { outputTokens, effort, serviceTiers, tools, inputsMax } = body;
        if (outputTokens !== null)
          expect(both?.body?.outputTokens?.max).toBeLessThanOrEqual(outputTokens.max);
        if (effort !== null)
          expect(EFFORTS.indexOf(both?.body?.effort?.max ?? "max")).toBeLessThanOrEqual(
            EFFORTS.indexOf(effort.max),
          );
        if (serviceTiers !== null)
          expect(serviceTiers).toEqual(expect.arrayContaining([...(both?.body?.serviceTiers ?? ["none"])]));
        if (tools !== null) expect(both?.body?.tools?.deny).toEqual(expect.arrayContaining([...tools.deny]));
        if (inputsMax.images !== undefined)
          expect(both?.body?.inputsMax.images).toBeLessThanOrEqual(inputsMax.images);
      }
      const sorted = (policy: RequestPolicy | null) =>
        JSON.stringify({
          ...policy?.body,
          serviceTiers: policy?.body?.serviceTiers?.toSorted(),
          tools: policy?.body?.tools?.deny.toSorted(),
        });
      expect(sorted(both)).toBe(sorted(reverse));
    }),
  );
});
