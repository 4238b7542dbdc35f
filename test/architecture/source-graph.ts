/** Source files and their imports, for the tests of the project's structure. */

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";

export const ROOT = join(import.meta.dir, "../..");
export const SRC = join(ROOT, "src");

export interface SourceFile {
  readonly path: string;
  readonly text: string;
  readonly imports: readonly string[];
  readonly isTest: boolean;
}

export function readSources(folder: string): SourceFile[] {
  return listFiles(join(ROOT, folder)).map((path) => {
    const text = readFileSync(path, "utf8");
    return { path, text, imports: readImports(path, text), isTest: /\.test(-support)?\.tsx?$/.test(path) };
  });
}

function listFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "node_modules" ? [] : listFiles(path);
    return /\.tsx?$/.test(path) && !path.endsWith(".d.ts") ? [path] : [];
  });
}

/** Type imports count: a type in the wrong place ties two folders together as firmly as a call. */
function readImports(file: string, text: string): string[] {
  const pattern =
    /(?:^|\n)\s*(?:import|export)\s[^"']*?from\s*["'](\.[^"']+)["']|import\(\s*["'](\.[^"']+)["']\s*\)/g;
  return [...text.matchAll(pattern)]
    .map((match) => match[1] ?? match[2] ?? "")
    .map((specifier) => normalize(join(dirname(file), specifier)))
    .filter((path) => /\.tsx?$/.test(path));
}

/** The first part of a path below `src/`: a folder, or a root file without its extension. */
export function layerName(path: string): string {
  const [first = ""] = relative(SRC, path).split("/");
  return first.replace(/(?:\.test(?:-support)?)?\.ts$/, "");
}

/** The folder of a file; a file beside subfolders is a separate node, because it may compose them. */
export function createNodeName(files: readonly SourceFile[]): (path: string) => string {
  const parents = new Set(files.map(({ path }) => dirname(dirname(path))));
  return (path) => relative(SRC, parents.has(dirname(path)) ? path : dirname(path));
}
