import { expect, test } from "bun:test";
import { parse } from "yaml";
import { substituteVariables } from "./substitute-variables.ts";
import { readTree } from "./yaml-tree.ts";

const ENVIRONMENT = {
  KEY: 'a "quoted": #value',
  LINES: "one\ntwo",
  TRICK: `\${KEY}`,
  "file:./x": "from a file",
};

const TEXT = `# \${KEY} in a comment
plain: \${KEY}
quoted: "before \${KEY} after"
single: '\${LINES}'
escaped: $\${KEY}
trick: \${TRICK}
file: \${file:./x}
flow: { inner: "\${KEY}", list: ["\${KEY}"] }
block: |
  first \${KEY}
  second
anchored: &name \${KEY}
again: *name
last: 1
`;

function readValue(text: string, environment: Readonly<Record<string, string>>): unknown {
  const read = readTree(text, environment);
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  expect(read.tree.problems).toEqual([]);
  return read.tree.value;
}

test("a gateway without the variables reads the same values", () => {
  const replaced = substituteVariables(TEXT, ENVIRONMENT);
  expect(readValue(replaced, {})).toEqual(readValue(TEXT, ENVIRONMENT));
});

test("fields stay on their lines, and comments as they are", () => {
  const text = `a: 1\nb: \${KEY}\nc: '\${LINES}'\nd: 2 # \${KEY}\n`;
  const lines = substituteVariables(text, ENVIRONMENT).split("\n");
  expect(lines[3]).toBe(`d: 2 # \${KEY}`);
  expect(parse(lines[2] ?? "")).toEqual({ c: "one\ntwo" });
});
