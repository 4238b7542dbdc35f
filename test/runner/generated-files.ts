/** The checked-in files that commands generate, and which of them differ from what their commands would write. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type LastRun, withMeasuredTable } from "../../bench/last-run.ts";
import { buildFiles } from "../../deploy/monitoring/files.ts";
import { buildGeneratedFiles } from "../../release/chart/files.ts";
import { buildOutline } from "../../src/config/reference/outline.ts";
import { withReference } from "../../src/config/reference/reference.ts";
import { gatewayFile } from "../../src/config/schema/schema.ts";
import { withLayersTable } from "../architecture/layers-table.ts";
import { listPages, withValues } from "../documentation/values.ts";
import { withVendorTables } from "../vendors/vendors-page.ts";

export interface Generator {
  /** The command that writes the files. */
  readonly command: string;
  /** The files by their paths. `read` returns the present text of one. */
  build(read: (path: string) => string): Readonly<Record<string, string>>;
}

/** A generator of a part of a page, from the whole page. */
function page(command: string, path: string, update: (text: string) => string): Generator {
  return { command, build: (read) => ({ [path]: update(read(path)) }) };
}

export const GENERATORS: readonly Generator[] = [
  page("npm run docs:configuration", "docs/configuration.md", (text) =>
    withReference(text, buildOutline(gatewayFile)),
  ),
  page("npm run docs:architecture", "ARCHITECTURE.md", withLayersTable),
  page("npm run docs:vendors", "docs/vendors.md", withVendorTables),
  {
    command: "npm run docs:values",
    build: (read) => Object.fromEntries(listPages().map((path) => [path, withValues(read(path))])),
  },
  {
    command: "npm run docs:performance",
    build: (read) => {
      const lastRun: LastRun = JSON.parse(read("bench/last-run.json"));
      return { "docs/performance.md": withMeasuredTable(read("docs/performance.md"), lastRun) };
    },
  },
  {
    command: "npm run deploy:monitoring",
    build: () => Object.fromEntries([...buildFiles()].map(([path, text]) => [join("deploy", path), text])),
  },
  { command: "npm run docs:chart", build: () => buildGeneratedFiles() },
];

/** One line for each file that differs, with the command that writes it. */
export function findStaleFiles(generators: readonly Generator[], root: string): string[] {
  const read = (path: string) => readFileSync(join(root, path), "utf8");
  return generators.flatMap(({ command, build }) =>
    Object.entries(build(read))
      .filter(([path, text]) => !existsSync(join(root, path)) || read(path) !== text)
      .map(([path]) => `${path} is out of date. Run: ${command}`),
  );
}
