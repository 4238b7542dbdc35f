import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ApiErrorCode, ERROR_CODES, errorStatus, UPSTREAM_CODES } from "../errors.ts";
import { ERROR_GUIDE } from "./error-guide.ts";
import { type Advice, UPSTREAM_GUIDE } from "./upstream-codes.ts";

const formatRow = (code: ApiErrorCode, { why, todo, retry }: Advice) =>
  `| ${errorStatus(code)} | \`${code}\` | ${why} | ${todo} | ${retry} |`;

test("the errors page lists every code with the text of the error guide", () => {
  const page = readFileSync(join(import.meta.dir, "../../docs/errors.md"), "utf8");
  expect(page.split("\n").filter((line) => /^\| \d/.test(line))).toEqual([
    ...ERROR_CODES.map((code) => formatRow(code, ERROR_GUIDE[code])),
    ...UPSTREAM_CODES.map((code) => formatRow(code, UPSTREAM_GUIDE[code])),
  ]);
});
