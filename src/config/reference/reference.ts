/** Generates the tables of docs/configuration.md. The text around them is written by hand. */

import { stringify } from "yaml";
import type { DefaultRule, OutlineField, OutlineValue } from "./outline.ts";

const GENERATED_BLOCK = /<!-- fields: ([\w-]+) -->\n(?:(?!<!-- fields:)[\s\S])*?<!-- end of fields -->/g;

/** Regenerates the blocks between the marks of the page. Every section must have marks, and every mark a section. */
export function withReference(page: string, outline: readonly OutlineField[]): string {
  const blocks = buildBlocks(outline);
  const missing = new Set(blocks.keys());
  const regenerated = page.replaceAll(GENERATED_BLOCK, (_, name: string) => {
    if (!missing.delete(name)) throw new Error(`Section "${name}" does not exist, or is marked twice.`);
    return `<!-- fields: ${name} -->\n\n${blocks.get(name)}\n\n<!-- end of fields -->`;
  });
  if (missing.size > 0)
    throw new Error(`The page has no marks for these sections: ${[...missing].join(", ")}.`);
  return regenerated;
}

/** One block for each section of the file, and for each map of fields that several sections share. */
function buildBlocks(outline: readonly OutlineField[]): ReadonlyMap<string, string> {
  const sections = outline.map((section): [string, string] => {
    const fields = findInlineFields(section.value);
    return [
      section.name,
      fields === null ? table([section]) : `${introduction(section)}\n\n${table(fields)}`,
    ];
  });
  return new Map([
    ...sections,
    ...findShared(outline).map(([name, fields]) => [name, table(fields)] as const),
  ]);
}

function findShared(fields: readonly OutlineField[]): [name: string, fields: readonly OutlineField[]][] {
  return fields.flatMap(({ value }) => {
    const map = findMap(value);
    if (map === null) return [];
    return map.heading === null
      ? findShared(map.fields)
      : [[map.heading, map.fields], ...findShared(map.fields)];
  });
}

function introduction({ description: means, whenOmitted: leftOut }: OutlineField): string {
  const without = leftOut.kind === "words" ? ` If omitted, ${leftOut.words}.` : "";
  return `${sentence(means)}${without}`;
}

export function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

function table(fields: readonly OutlineField[]): string {
  const rows = buildRows(fields, "").map((cells) => cells.map((cell) => cell.replaceAll("|", "\\|")));
  return [
    "| Field | Meaning | Default | Allowed |",
    "|---|---|---|---|",
    ...rows.map((cells) => `| ${cells.join(" | ")} |`),
  ].join("\n");
}

function buildRows(fields: readonly OutlineField[], prefix: string): string[][] {
  return fields.flatMap((field) => {
    const path = `${prefix}${field.name}`;
    const inner = findInlineFields(field.value);
    return [
      [code(path), field.description, omittedText(field.whenOmitted), allowedTexts(field).join("; ")],
      ...(inner === null ? [] : buildRows(inner, field.value.kind === "list" ? `${path}[].` : `${path}.`)),
    ];
  });
}

type FieldMap = Extract<OutlineValue, { kind: "map" }>;

function findMap(value: OutlineValue): FieldMap | null {
  if (value.kind === "map") return value;
  return value.kind === "list" || value.kind === "names" ? findMap(value.of) : null;
}

/** The fields that follow in the same table. Fields with their own heading are linked instead. */
function findInlineFields(value: OutlineValue): readonly OutlineField[] | null {
  const map = findMap(value);
  return map === null || map.heading !== null ? null : map.fields;
}

function omittedText(leftOut: DefaultRule): string {
  if (leftOut.kind === "rejected") return "required";
  if (leftOut.kind === "words") return leftOut.words;
  const { value, words } = leftOut;
  if (Array.isArray(value) && value.length === 0) return words ?? "none";
  return words === null ? code(formatValue(value)) : `${code(formatValue(value))}: ${words}`;
}

/** The value in the syntax of the file, on one line. */
export function formatValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(formatValue).join(", ")}]`;
  return stringify(value, { collectionStyle: "flow", lineWidth: 0 }).trim();
}

/** In Markdown: the constraints of the value itself, then those that involve other fields. */
export function allowedTexts({
  value,
  mapRules: within,
  constraints: also,
}: OutlineField): [own: string, ...beside: string[]] {
  return [valueText(value), ...within.map(withExamples), ...(also === null ? [] : [also])];
}

function valueText(value: OutlineValue): string {
  switch (value.kind) {
    case "map":
      return value.heading === null
        ? rulesText(value.rules)
        : rulesText(value.rules.slice(1), `[${value.heading}](#${value.heading})`);
    case "list":
      return listText(value);
    case "names":
      return `${valueText(value.names)} → ${valueText(value.of)}`;
    case "words":
      return value.words.map(code).join(", ");
    case "switch":
      return "`true`, `false`";
    case "number":
    case "text":
      return rulesText(value.rules);
  }
}

function listText({ rules, of }: Extract<OutlineValue, { kind: "list" }>): string {
  // "a list" is redundant beside "a list of at most 10".
  const list = rulesText(rules.length > 1 ? rules.slice(1) : rules);
  if (of.kind === "words") return `${list}: ${valueText(of)}`;
  if (of.kind !== "map") return `${list}; each ${valueText(of)}`;
  // So is "a map of fields" if the fields follow.
  return of.rules.length > 1 ? `${list}; each ${rulesText(of.rules.slice(1))}` : list;
}

function rulesText(rules: readonly string[], ...before: string[]): string {
  return [...before, ...rules.map(withExamples)].join("; ");
}

/** Examples and names in a rule are file text and must not become links or emphasis. */
const EXAMPLE = new RegExp(
  [
    /\{[^}]*\}/, // { input: "0.15" }
    /\w+ <[^>\s]+>/, // Gateway <gateway@example.com>
    /"[^"]*"/,
    /[^\s,;]*[/@*_][^\s,;]*/, // https://…, ops@example.com, Europe/Berlin, gwk_, *
    /\d+[A-Za-z:-][\w:.-]*/, // 30s, 2027-01-31, 1024x1024
    /\w+(?:\.\w+)+/, // smtp.example.com
  ]
    .map(({ source }) => source)
    .join("|"),
  "g",
);

function withExamples(rule: string): string {
  return rule.replaceAll(EXAMPLE, code);
}

function code(text: string): string {
  return `\`${text}\``;
}
