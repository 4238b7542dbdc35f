/** `npm run docs:values`: writes the numbers of the code into the documents that repeat them. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../architecture/source-graph.ts";
import { listPages, readPage, withValues } from "./values.ts";

for (const path of listPages()) {
  const page = readPage(path);
  const written = withValues(page);
  if (written !== page) writeFileSync(join(ROOT, path), written);
}
