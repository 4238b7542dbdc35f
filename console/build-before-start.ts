/**
 * Before `npm start` in a clone: builds the pages if their sources are newer. Without the development packages
 * (`npm ci --omit=dev`) the last build is served, and the start reports an error if there is none.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";

/** Packages that only the build needs. */
const BUILD_PACKAGES = ["marked", "react-dom"];
const BUILT = ["console", "explorer", "docs"].map((name) =>
  join(import.meta.dir, "../dist", name, "index.html"),
);

if (BUILD_PACKAGES.every(isInstalled)) {
  const build = [process.execPath, join(import.meta.dir, "build.ts"), "--if-stale"];
  process.exitCode = Bun.spawnSync(build, { stdout: "inherit", stderr: "inherit" }).exitCode;
} else if (!BUILT.every(existsSync)) {
  console.error(
    "The console, the explorer and /docs are not built, because the development packages are missing. Run `npm ci && npm run build`, or install a release, which contains them.",
  );
}

function isInstalled(name: string): boolean {
  return existsSync(join(import.meta.dir, "../node_modules", name));
}
