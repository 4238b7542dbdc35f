/** The next version of the program: a copy of this one with one additional migration. */

import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type MigrationPhase, SCHEMA_KNOWN } from "../../src/store/migrations/index.ts";

const PROGRAM = resolve(import.meta.dir, "../..");
/** Only adds, so that programs of this version run on. */
const ADDS = `
ALTER TABLE wallet ADD COLUMN next_note TEXT;
ALTER TABLE usage_row ADD COLUMN next_note TEXT;
CREATE TABLE next_version (id TEXT PRIMARY KEY);
`;

export interface NextVersion {
  /** Its root folder. */
  readonly program: string;
  readonly schema: number;
  remove(): void;
}

export function buildNextVersion(phase: MigrationPhase = { kind: "expand" }): NextVersion {
  const program = mkdtempSync(join(tmpdir(), "model-gateway-next-"));
  for (const part of ["src", "simulator", "bin", "package.json"])
    cpSync(join(PROGRAM, part), join(program, part), { recursive: true });
  symlinkSync(join(PROGRAM, "node_modules"), join(program, "node_modules"));
  const schema = SCHEMA_KNOWN + 1;
  writeFileSync(join(program, "src/store/migrations/next.sql"), ADDS);
  const index = join(program, "src/store/migrations/index.ts");
  const source = readFileSync(index, "utf8");
  const added = `{ version: ${schema}, name: "next", sql: next, phase: ${JSON.stringify(phase)} }`;
  const extended = source
    .replace("export interface Migration", 'import next from "./next.sql" with { type: "text" };\n$&')
    .replace(/,?\s*\];(?=\s+export const SCHEMA_KNOWN)/, `, ${added}];`);
  if (!extended.includes(added)) throw new Error("The list of migrations has another form.");
  writeFileSync(index, extended);
  return { program, schema, remove: () => rmSync(program, { recursive: true, force: true }) };
}
