/** Writes the dashboard and the alert rules: `npm run deploy:monitoring`. */

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { buildFiles } from "./files.ts";

for (const [path, text] of buildFiles()) {
  const file = join(import.meta.dir, "..", path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
