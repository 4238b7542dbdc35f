import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { errorRows } from "./error-table.ts";

test("the errors page lists every code with the text of the error guide", () => {
  const page = readFileSync(join(import.meta.dir, "../../docs/errors.md"), "utf8");
  expect(page.split("\n").filter((line) => /^\| \d/.test(line))).toEqual(errorRows());
});
