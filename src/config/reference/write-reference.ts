/** Regenerates the tables of docs/configuration.md after a change of the schema: `npm run docs:configuration`. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gatewayFile } from "../schema/schema.ts";
import { buildOutline } from "./outline.ts";
import { withReference } from "./reference.ts";

const PAGE = join(import.meta.dir, "../../../docs/configuration.md");

writeFileSync(PAGE, withReference(readFileSync(PAGE, "utf8"), buildOutline(gatewayFile)));
