/** Updates the table of layers in ARCHITECTURE.md after a change of `layers.ts`: `npm run docs:architecture`. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withLayersTable } from "./layers-table.ts";
import { ROOT } from "./source-graph.ts";

const PAGE = join(ROOT, "ARCHITECTURE.md");

writeFileSync(PAGE, withLayersTable(readFileSync(PAGE, "utf8")));
