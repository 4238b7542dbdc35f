/** Fails if a generated file is out of date, and names the command that writes it. */

import { join } from "node:path";
import { findStaleFiles, GENERATORS } from "./generated-files.ts";

const stale = findStaleFiles(GENERATORS, join(import.meta.dir, "../.."));
for (const line of stale) console.log(line);
process.exit(stale.length === 0 ? 0 : 1);
