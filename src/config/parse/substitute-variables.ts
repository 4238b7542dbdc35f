/** Replaces the variables of a configuration file, for a gateway on another machine that must not read them. */

import { parseDocument, visit } from "yaml";
import { interpolate } from "./yaml-tree.ts";

/**
 * The text with the value of each `${…}`, and with its lines where they were. The file must be valid: a variable that
 * does not exist stays as it is.
 */
export function substituteVariables(
  text: string,
  environment: Readonly<Record<string, string | undefined>>,
): string {
  const replaced: { start: number; end: number; value: string }[] = [];
  visit(parseDocument(text, { schema: "core", uniqueKeys: false, logLevel: "silent" }), {
    Scalar(position, node) {
      const { value, range } = node;
      if (position === "key" || typeof value !== "string" || !value.includes("${")) return;
      if (range === null || range === undefined) return;
      const [start, end] = range;
      // A block ends with its line break.
      const ending = text.slice(start, end).endsWith("\n") ? "\n" : "";
      replaced.push({ start, end, value: quote(interpolate(value, environment).text) + ending });
    },
  });
  return replaced
    .sort((a, b) => b.start - a.start)
    .reduce((whole, { start, end, value }) => whole.slice(0, start) + value + whole.slice(end), text);
}

/** A JSON string is a YAML string. A `${` in a value is text, not a variable. */
function quote(value: string): string {
  return JSON.stringify(value.replaceAll("${", () => "$${"));
}
