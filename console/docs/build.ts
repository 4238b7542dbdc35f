/** Builds the documentation as a site of static files: `dist/docs`. */

import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import MiniSearch from "minisearch";
import { DOCS, readPages, type Section } from "./pages.ts";
import { SEARCH_OPTIONS } from "./search-options.ts";
import { pageHtml } from "./template.ts";

/** Writes into a folder that exists and is empty. `icon` is the address of the icon. */
export async function writeDocs(dir: string, icon: string): Promise<void> {
  const pages = readPages();
  const [script, style] = await bundle(dir, "docs.ts", "esm");
  const [theme] = await bundle(dir, "../theme-first.ts", "iife");
  if (script === undefined || style === undefined || theme === undefined) {
    throw new Error("The script or style of the documentation was not built.");
  }
  for (const page of pages) {
    writeFileSync(join(dir, `${page.slug}.html`), pageHtml(page, pages, { theme, script, style, icon }));
  }
  const [first] = pages;
  if (first === undefined) throw new Error("The documentation has no pages.");
  writeFileSync(join(dir, "index.html"), pageHtml(first, pages, { theme, script, style, icon }));
  writeFileSync(join(dir, "search.json"), searchIndex(pages.flatMap(({ sections }) => sections)));
  mkdirSync(join(dir, "pictures"), { recursive: true });
  cpSync(join(DOCS, "pictures"), join(dir, "pictures"), { recursive: true });
}

/** The script first, then its style sheet. */
async function bundle(dir: string, entry: string, format: "esm" | "iife"): Promise<string[]> {
  const { outputs } = await Bun.build({
    entrypoints: [join(import.meta.dir, entry)],
    outdir: join(dir, "assets"),
    target: "browser",
    format,
    minify: true,
    naming: "[name]-[hash].[ext]",
  });
  const address = (ending: string) =>
    outputs.filter(({ path }) => path.endsWith(ending)).map(({ path }) => `/docs/assets/${basename(path)}`);
  return [...address(".js"), ...address(".css")];
}

function searchIndex(sections: readonly Section[]): string {
  const index = new MiniSearch<Section & { id: number }>(SEARCH_OPTIONS);
  index.addAll(sections.map((section, id) => ({ ...section, id })));
  return JSON.stringify(index);
}
