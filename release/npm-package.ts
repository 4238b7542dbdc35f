/**
 * Builds the npm package: the sources, the built pages, and a manifest without development packages. The runtime is a
 * package for the platform, so no install script runs.
 */

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import manifest from "../package.json" with { type: "json" };
import { gzip } from "./archive/compress.ts";
import { type TarEntry, writeTar } from "./archive/tar.ts";
import { type LockedPackage, readLock } from "./lock-file.ts";
import { listFiles, type ReleaseSource, ROOT } from "./source.ts";

const FOLDERS = ["bin", "src", "simulator", "dist/console", "dist/explorer", "dist/docs"];
const FILES = ["LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"];
/** Documents that name the fields and give examples. The other pages are in `dist/docs`. */
const DOCUMENTS = ["docs/configuration.md", "docs/install.md", "docs/deployment.md"];
const NOT_SHIPPED =
  /\.test\.ts$|\.test-support\.ts$|\/tsconfig\.json$|^src\/config\/reference\/write-reference\.ts$/;

/** The package that only downloads one of the packages for a platform, by a script at installation. */
const RUNTIME = "bun";

export function buildNpmPackage({ timeSeconds }: ReleaseSource): Buffer {
  const paths = [...FOLDERS.flatMap(listFiles), ...FILES, ...DOCUMENTS].filter(
    (path) => !NOT_SHIPPED.test(path),
  );
  const entries = paths.map(
    (path): TarEntry => ({
      kind: "file",
      path,
      mode: (statSync(join(ROOT, path)).mode & 0o111) === 0 ? 0o644 : 0o755,
      content: readFileSync(join(ROOT, path)),
    }),
  );
  const generated = { "package.json": buildManifest(), "npm-shrinkwrap.json": buildShrinkwrap() };
  for (const [path, value] of Object.entries(generated)) {
    const content = Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
    entries.push({ kind: "file", path, mode: 0o644, content });
  }
  return gzip(writeTar(entries, { timeSeconds, prefix: "package/" }));
}

export function buildManifest() {
  const { name, version, description, license, type, bin, engines } = manifest;
  return {
    name,
    version,
    description,
    license,
    type,
    bin,
    engines,
    scripts: { start: manifest.scripts.start },
    ...listDependencies(),
  };
}

function listDependencies() {
  const { [RUNTIME]: _, ...dependencies } = manifest.dependencies;
  const runtime = readLock().packages.get(`node_modules/${RUNTIME}`);
  return { dependencies, optionalDependencies: runtime?.optionalDependencies ?? {} };
}

/** Pins the packages that a user installs, as package-lock.json pins those of developers. */
export function buildShrinkwrap() {
  const { name, version, license, engines, bin } = manifest;
  const root = { name, version, license, ...listDependencies(), bin, engines };
  return {
    name,
    version,
    lockfileVersion: 3,
    requires: true,
    packages: { "": root, ...Object.fromEntries(listShipped()) },
  };
}

/** The packages of a production install, by their folder. */
export function listShipped(): [folder: string, locked: LockedPackage][] {
  return [...readLock().packages].filter(
    ([folder, { dev }]) => dev !== true && folder !== `node_modules/${RUNTIME}`,
  );
}
