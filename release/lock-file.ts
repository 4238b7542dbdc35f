/** Reads package-lock.json. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { ROOT } from "./source.ts";

const names = z.record(z.string(), z.string()).optional();

const lockedPackage = z.looseObject({
  version: z.string(),
  integrity: z.string().optional(),
  license: z.string().optional(),
  dev: z.boolean().optional(),
  optional: z.boolean().optional(),
  dependencies: names,
  optionalDependencies: names,
});
export type LockedPackage = z.output<typeof lockedPackage>;

const lockFile = z.looseObject({ packages: z.record(z.string(), lockedPackage) });

export interface Lock {
  /** By their folder: `node_modules/zod`. The project itself is not among them. */
  readonly packages: ReadonlyMap<string, LockedPackage>;
}

export function readLock(): Lock {
  const { packages } = lockFile.parse(JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")));
  return { packages: new Map(Object.entries(packages).filter(([folder]) => folder !== "")) };
}
