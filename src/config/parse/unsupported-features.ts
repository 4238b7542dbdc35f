/**
 * Rejects valid fields that this version does not support yet. Ignoring them would make an operator believe in
 * a limit that is not enforced. Supporting a feature removes its line here.
 */

import type { FieldProblem, Path } from "../state/problem.ts";

interface UnsupportedFeature {
  /** `[]` stands for every entry of a list. */
  field: string;
  /** True for values that need the missing feature. If omitted, every value does. */
  asks?: (value: unknown) => boolean;
  says: string;
}

const UNSUPPORTED_FEATURES: readonly UnsupportedFeature[] = [
  {
    field: "accounts[].kind",
    asks: (value) => value === "anthropic" || value === "gemini",
    says: "this kind of account is not part of this version yet. Kinds that work now: openai, azure, simulator.",
  },
];

export function findUnsupportedFeatures(tree: unknown): FieldProblem[] {
  return UNSUPPORTED_FEATURES.flatMap(({ field, asks, says }) =>
    occurrences(tree, field.split(/(?=\[\])|\./), [])
      .filter(({ value }) => asks === undefined || asks(value))
      .map(({ path }) => ({ path, message: says, onKey: true })),
  );
}

function occurrences(value: unknown, steps: string[], path: Path): { path: Path; value: unknown }[] {
  const [step, ...rest] = steps;
  if (step === undefined) return [{ path, value }];
  if (step === "[]") {
    return Array.isArray(value) ? value.flatMap((item, i) => occurrences(item, rest, [...path, i])) : [];
  }
  if (typeof value !== "object" || value === null || Array.isArray(value) || !Object.hasOwn(value, step))
    return [];
  return occurrences((value as Record<string, unknown>)[step], rest, [...path, step]);
}
