import type { FieldProblem, Path } from "../state/problem.ts";

/**
 * What the file may say, correctly, and this version does not do yet. Ignoring it would leave an operator
 * believing in a limit that nobody keeps, so the file is refused. A feature that arrives deletes its line.
 */

interface Unbuilt {
  /** `[]` stands for every entry of a list. */
  field: string;
  /** The value that asks for the missing feature; any value when left out. */
  asks?: (value: unknown) => boolean;
  says: string;
}

const UNBUILT: readonly Unbuilt[] = [
  {
    field: "accounts[].kind",
    asks: (value) => value === "anthropic" || value === "gemini",
    says: "this kind of account is not part of this version yet. Kinds that work now: openai, azure, simulator.",
  },
];

export function findUnsupportedFeatures(tree: unknown): FieldProblem[] {
  return UNBUILT.flatMap(({ field, asks, says }) =>
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
