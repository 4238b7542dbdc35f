import { expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHeadingId, siteAddress } from "./markdown.ts";
import { DOCS, type DocsPage, readPages } from "./pages.ts";

const pages = readPages();

/** Links to a page, a heading or a picture that does not exist. */
function brokenLinks(pages: readonly DocsPage[]): string[] {
  const known = new Set(
    pages.flatMap(({ slug, headings }) => [
      `/docs/${slug}`,
      ...headings.map(({ id }) => `/docs/${slug}#${id}`),
    ]),
  );
  return pages.flatMap(({ slug, html }) => {
    const links = [...html.matchAll(/<a href="([^"]+)"/g)].map(([, href = ""]) => href);
    const pictures = [...html.matchAll(/<img src="\/docs\/([^"]+)"/g)].map(([, file = ""]) => file);
    const toPages = links
      .map((href) => (href.startsWith("#") ? `/docs/${slug}${href}` : href))
      .filter((href) => !/^(https?|mailto):/.test(href) && !known.has(href));
    return [
      ...toPages.map((href) => `${slug}: ${href}`),
      ...pictures.filter((file) => !existsSync(join(DOCS, file))).map((file) => `${slug}: ${file}`),
    ];
  });
}

test("every link and image of the documentation resolves", () => {
  expect(pages.length).toBeGreaterThan(8);
  expect(brokenLinks(pages)).toEqual([]);
});

test("a link to a missing page is reported", () => {
  const [page] = pages;
  if (page === undefined) throw new Error("There are no pages.");
  const html =
    '<p><a href="/docs/nowhere">a</a><a href="#nothing">b</a><img src="/docs/pictures/none.svg"></p>';
  expect(brokenLinks([{ ...page, slug: "page", html }])).toEqual([
    "page: /docs/nowhere",
    "page: /docs/page#nothing",
    "page: pictures/none.svg",
  ]);
});

test("links between pages become addresses, and all other links are unchanged", () => {
  expect(siteAddress("billing.md#what-is-held")).toBe("/docs/billing#what-is-held");
  expect(siteAddress("https://example.com/a.md")).toBe("https://example.com/a.md");
  expect(siteAddress("#here")).toBe("#here");
});

test("two headings with the same text get different ids", () => {
  const taken = new Map<string, number>();
  expect([
    createHeadingId("GET /v1/usage", taken),
    createHeadingId("Limits", taken),
    createHeadingId("Limits", taken),
  ]).toEqual(["get-v1usage", "limits", "limits-1"]);
});

/** A page of this text alone, as HTML, beside files of these names. */
function shown(markdown: string, files: readonly string[] = []): string | undefined {
  const dir = mkdtempSync(join(tmpdir(), "model-gateway-docs-"));
  try {
    for (const file of files) writeFileSync(join(dir, file), "");
    writeFileSync(join(dir, "README.md"), "| [Page](page.md) |\n");
    writeFileSync(join(dir, "page.md"), markdown);
    return readPages(dir)[0]?.html;
  } finally {
    rmSync(dir, { recursive: true });
  }
}

test("HTML comments are removed, and other HTML is escaped", () => {
  expect(shown("# Page\n\n<!-- a\nmark -->\n\nText <!-- here --> and <b>there</b>.\n")).toBe(
    "<h1>Page</h1>\n<p>Text  and &lt;b&gt;there&lt;/b&gt;.</p>\n",
  );
});

test("a cell carries the label of its column, and a table with many columns can be stacked", () => {
  const wide = shown("| A | B | C | D |\n|---|---|---|---|\n| 1 | 2 | 3 | 4 |\n");
  expect(wide).toContain('<div class="table stacks"');
  expect(wide).toContain('<td role="cell" data-label="D">4</td>');
  expect(shown("| A | B |\n|---|---|\n| 1 | 2 |\n")).toContain('<div class="table"');
});

test("code is highlighted in the language of its block", () => {
  expect(shown('```json\n{ "a": 1 }\n```\n')).toBe(
    '<div class="code" data-language="json"><pre tabindex="0"><code>{ <span class="syntax-name">&quot;a&quot;</span>: <span class="syntax-number">1</span> }</code></pre></div>\n',
  );
});

test("a picture of the light theme has its counterpart of the dark theme", () => {
  const both = shown("![A](a-light.webp)", ["a-light.webp", "a-dark.webp"]);
  expect(both).toContain('src="/docs/a-light.webp" alt="A" class="light-only"');
  expect(both).toContain('src="/docs/a-dark.webp" alt="A" class="dark-only"');
  expect(shown("![A](a-light.webp)", ["a-light.webp"])).toBe(
    '<p><img src="/docs/a-light.webp" alt="A"></p>\n',
  );
});

test("every page has a title, and its sections contain its text", () => {
  for (const { title, sections } of pages) {
    expect(title.length).toBeGreaterThan(2);
    expect(sections.map(({ text }) => text).join("").length).toBeGreaterThan(200);
  }
});
