/**
 * `npm run docs:performance`: writes the table of docs/performance.md from budget.json and last-run.json. Files of
 * `results/` that are named as arguments are added to last-run.json first.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { addRun, type LastRun, type RunFile, withMeasuredTable } from "./last-run.ts";

const LAST_RUN = join(import.meta.dir, "last-run.json");
const PAGE = join(import.meta.dir, "../docs/performance.md");

let last: LastRun = JSON.parse(readFileSync(LAST_RUN, "utf8"));
for (const path of process.argv.slice(2)) {
  const run: RunFile = JSON.parse(readFileSync(path, "utf8"));
  last = addRun(last, run);
}
writeFileSync(LAST_RUN, `${JSON.stringify(last, null, 2)}\n`);
writeFileSync(PAGE, withMeasuredTable(readFileSync(PAGE, "utf8"), last));
