/**
 * Builds the console, the explorer and the documentation, each into a folder of `dist`: `npm run build`. With
 * `--if-stale` it builds only if a source is newer than the last build, with `--watch` after every change.
 * The new build is complete before it replaces the last one.
 */

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from "node:fs";
import { basename, extname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { writeDocs } from "./docs/build.ts";

const HERE = import.meta.dir;
const ROOT = join(HERE, "..");
const DIST = {
  console: join(ROOT, "dist", "console"),
  explorer: join(ROOT, "dist", "explorer"),
  docs: join(ROOT, "dist", "docs"),
};
/** What the build reads. */
const SOURCES = [
  "console",
  "docs",
  "src/console-api",
  "src/public-api",
  "src/errors.ts",
  "package-lock.json",
].map((name) => join(ROOT, name));
const PACKED_ALREADY = new Set([".png", ".webp", ".woff2"]);
/** For shorter files the headers outweigh the saved bytes. */
const COMPRESS_FROM_BYTES = 1_024;

export interface BuiltApp {
  dir: string;
  /** What the browser loads before it can open a page: each file, with its compressed size. */
  firstLoad: { file: string; bytes: number }[];
  /** The chunk of each page, script and style, by its source. */
  pages: { source: string; bytes: number }[];
}

export async function buildConsole(dir = DIST.console): Promise<BuiltApp> {
  const table = await routeTable();
  return buildApp({ entry: "main.tsx", base: "/console/", table, loadedAtOnce: ["text/en.ts"] }, dir);
}

/** All of it is part of the first load: the editor is a separate chunk, but the page shows it at once. */
export async function buildExplorer(dir = DIST.explorer): Promise<BuiltApp> {
  const loadedAtOnce = ["text/en-explorer.ts", "explorer/editor/json-editor.tsx"];
  return buildApp({ entry: "explorer/main.tsx", base: "/explorer/", table: "{}", loadedAtOnce }, dir);
}

interface App {
  entry: string;
  /** The path at which the app is served. */
  base: string;
  /** The operations of the console's API. */
  table: string;
  /** Sources of the chunks that the first page imports dynamically. */
  loadedAtOnce: readonly string[];
}

async function buildApp(app: App, dir: string): Promise<BuiltApp> {
  const fresh = freshFolder(dir);
  const { outputs } = await bundle(app, fresh, "esm");
  // Runs before the page is drawn, so it cannot be a module.
  const themeFirst: App = { ...app, entry: "theme-first.ts" };
  const { outputs: themeOutputs } = await bundle(themeFirst, fresh, "iife");
  const main = findEntry(outputs, `console/${app.entry}`);
  const theme = findEntry(themeOutputs, "console/theme-first.ts");
  const style = outputs[main]?.cssBundle;
  if (style === undefined) throw new Error("The build produced no style sheet.");
  writeFileSync(join(fresh, "index.html"), page(app.base, { theme, main, style }));
  compressAll(fresh);
  const entries = [main, ...app.loadedAtOnce.map((source) => findEntry(outputs, `console/${source}`))];
  const first = new Set([
    "index.html",
    theme,
    style,
    ...entries.flatMap((file) => [...needs(outputs, file)]),
  ]);
  const built: BuiltApp = {
    dir,
    firstLoad: [...first].map((file) => ({ file: basename(file), bytes: travels(join(fresh, file)) })),
    pages: listPages(outputs, fresh),
  };
  put(fresh, dir);
  return built;
}

async function buildDocs(dir = DIST.docs): Promise<void> {
  const fresh = freshFolder(dir);
  await writeDocs(fresh, ICON);
  compressAll(fresh);
  put(fresh, dir);
}

type Outputs = Bun.BuildMetafile["outputs"];

async function bundle({ entry, base, table }: App, outdir: string, format: "esm" | "iife") {
  const name = "assets/[name]-[hash].[ext]";
  const { metafile } = await Bun.build({
    entrypoints: [join(HERE, entry)],
    root: HERE,
    outdir,
    target: "browser",
    format,
    splitting: format === "esm",
    minify: true,
    metafile: true,
    naming: { entry: name, chunk: name, asset: name },
    publicPath: base,
    define: { "process.env.NODE_ENV": '"production"', ROUTE_TABLE: table },
  });
  if (metafile === undefined) throw new Error("The build did not report its outputs.");
  return metafile;
}

/** The method and path of each operation, so that the console does not contain the table itself. */
async function routeTable(): Promise<string> {
  const { ROUTES } = await import("../src/console-api/routes.ts");
  const places = Object.entries(ROUTES).map(([name, { method, path }]) => [name, `${method} ${path}`]);
  return JSON.stringify(Object.fromEntries(places));
}

function findEntry(outputs: Outputs, source: string): string {
  const found = Object.entries(outputs).find(
    ([file, { entryPoint }]) => entryPoint === source && file.endsWith(".js"),
  );
  if (found === undefined) throw new Error(`The build produced no output for ${source}.`);
  return found[0];
}

/** The file and its static imports. */
function needs(outputs: Outputs, file: string, seen: Set<string> = new Set()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const { path, kind } of outputs[file]?.imports ?? []) {
    if (kind === "import-statement") needs(outputs, path, seen);
  }
  return seen;
}

function listPages(outputs: Outputs, dir: string): BuiltApp["pages"] {
  const files = Object.entries(outputs).map(([file, { entryPoint: source = "" }]) => ({ file, source }));
  const bySource = Map.groupBy(files, ({ source }) => source);
  return [...bySource]
    .filter(([source]) => source.startsWith("console/pages/"))
    .map(([source, own]) => ({
      source,
      bytes: own.reduce((sum, { file }) => sum + travels(join(dir, file)), 0),
    }));
}

const MARK = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#4c78f0" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"><path d="M4 21V9a8 8 0 0 1 16 0v12M9 21v-9a3 3 0 0 1 6 0v9M4 21h16"/></svg>`;

const ICON = `data:image/svg+xml,${encodeURIComponent(MARK)}`;

function page(base: string, files: { theme: string; main: string; style: string }): string {
  const at = (file: string) => `${base}${file.replace(/^\.\//, "")}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>Model Gateway</title>
<link rel="icon" href="${ICON}">
<script src="${at(files.theme)}"></script>
<link rel="stylesheet" href="${at(files.style)}">
<script type="module" src="${at(files.main)}"></script>
</head>
<body><div id="root"></div></body>
</html>
`;
}

function compressAll(dir: string): void {
  for (const file of listFiles(dir)) {
    const bytes = readFileSync(file);
    if (bytes.length < COMPRESS_FROM_BYTES || PACKED_ALREADY.has(extname(file))) continue;
    const params = {
      [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    };
    writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params }));
    writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
  }
}

/** The larger of the two encodings: no browser receives more. */
function travels(file: string): number {
  return statSync(existsSync(`${file}.gz`) ? `${file}.gz` : file).size;
}

function freshFolder(dir: string): string {
  const fresh = `${dir}.new-${process.pid}`;
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true });
  return fresh;
}

function put(fresh: string, dir: string): void {
  const old = `${dir}.old-${process.pid}`;
  if (existsSync(dir)) renameSync(dir, old);
  renameSync(fresh, dir);
  rmSync(old, { recursive: true, force: true });
}

function listFiles(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => listFiles(join(path, name)));
}

function isStale(): boolean {
  const built = Object.values(DIST).map((dir) => join(dir, "index.html"));
  if (!built.every(existsSync)) return true;
  const builtMs = Math.min(...built.map((file) => statSync(file).mtimeMs));
  return SOURCES.flatMap(listFiles).some((file) => statSync(file).mtimeMs > builtMs);
}

if (import.meta.main) {
  const asked = new Set(Bun.argv.slice(2));
  if (asked.has("--watch")) watchAndBuild();
  else if (!asked.has("--if-stale") || isStale()) {
    await buildDocs();
    printSizes("explorer", await buildExplorer());
    printSizes("console", await buildConsole());
  }
}

function printSizes(name: string, { firstLoad, pages }: BuiltApp): void {
  const kilobytes = (files: readonly { bytes: number }[]) =>
    (files.reduce((sum, { bytes }) => sum + bytes, 0) / 1_000).toFixed(1);
  const later = pages.length === 0 ? "" : `, ${pages.length} pages ${kilobytes(pages)} kB`;
  console.log(`${name}: first load ${kilobytes(firstLoad)} kB${later}, compressed`);
}

/** Each build runs in a new process, so that the route table is read again. */
function watchAndBuild(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const build = () => {
    clearTimeout(timer);
    timer = setTimeout(
      () => Bun.spawn([process.execPath, import.meta.path], { stdio: ["ignore", "inherit", "inherit"] }),
      80,
    );
  };
  for (const source of SOURCES) watch(source, { recursive: true }, build);
  build();
}
