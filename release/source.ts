/** The source that a release is built from: its folder, its version and the time of its commit. */

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import manifest from "../package.json" with { type: "json" };

export const ROOT = join(import.meta.dir, "..");

export interface ReleaseSource {
  readonly version: string;
  readonly description: string;
  /** The time of every file of a release, in seconds since 1970. */
  readonly timeSeconds: number;
  /** Null outside a repository. */
  readonly commit: string | null;
}

/**
 * The time is that of the commit, so that one commit gives the same bytes at any time. SOURCE_DATE_EPOCH overrides it
 * (reproducible-builds.org).
 */
export function readSource(environment: Readonly<Record<string, string | undefined>>): ReleaseSource {
  const { exitCode, stdout } = Bun.spawnSync(["git", "log", "-1", "--format=%ct %H"], {
    cwd: ROOT,
    stderr: "ignore",
  });
  const [seconds, commit = null] = exitCode === 0 ? stdout.toString().trim().split(" ") : [];
  return {
    version: manifest.version,
    description: manifest.description,
    timeSeconds: z.coerce
      .number()
      .int()
      .min(0)
      .parse(environment.SOURCE_DATE_EPOCH ?? seconds ?? 0),
    commit,
  };
}

export function readText(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** The files below a folder of the source, with paths relative to the root, sorted. */
export function listFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .map((name) => `${folder}/${name}`)
    .filter((path) => statSync(join(ROOT, path)).isFile())
    .toSorted();
}
