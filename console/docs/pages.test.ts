import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { addressOf, brokenLinks, idOf, readPages } from "./pages.ts";

const pages = readPages();

test("every link and picture of the documentation leads somewhere", () => {
  expect(pages.length).toBeGreaterThan(8);
  expect(brokenLinks(pages)).toEqual([]);
});

test("a link to a page that is not there is found", () => {
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

test("pages link to each other by address, and to everything else as written", () => {
  expect(addressOf("billing.md#what-is-held")).toBe("/docs/billing#what-is-held");
  expect(addressOf("https://example.com/a.md")).toBe("https://example.com/a.md");
  expect(addressOf("#here")).toBe("#here");
});

test("two headings with the same words have ids of their own", () => {
  const taken = new Map<string, number>();
  expect([idOf("GET /v1/usage", taken), idOf("Limits", taken), idOf("Limits", taken)]).toEqual([
    "get-v1usage",
    "limits",
    "limits-1",
  ]);
});

/** A page of this text alone, as HTML. */
function shown(markdown: string): string | undefined {
  const dir = mkdtempSync(join(tmpdir(), "model-gateway-docs-"));
  try {
    writeFileSync(join(dir, "README.md"), "| [Page](page.md) |\n");
    writeFileSync(join(dir, "page.md"), markdown);
    return readPages(dir)[0]?.html;
  } finally {
    rmSync(dir, { recursive: true });
  }
}

test("comments are for those who write a page, and other HTML is shown as it stands", () => {
  expect(shown("# Page\n\n<!-- a\nmark -->\n\nText <!-- here --> and <b>there</b>.\n")).toBe(
    "<h1>Page</h1>\n<p>Text  and &lt;b&gt;there&lt;/b&gt;.</p>\n",
  );
});

test("a cell knows the words above its column, and a table of many columns may be stacked", () => {
  const wide = shown("| A | B | C | D |\n|---|---|---|---|\n| 1 | 2 | 3 | 4 |\n");
  expect(wide).toContain('<div class="table stacks"');
  expect(wide).toContain('<td role="cell" data-label="D">4</td>');
  expect(shown("| A | B |\n|---|---|\n| 1 | 2 |\n")).toContain('<div class="table"');
});

test("every page has a title, and its sections hold its text", () => {
  for (const { title, sections } of pages) {
    expect(title.length).toBeGreaterThan(2);
    expect(sections.map(({ text }) => text).join("").length).toBeGreaterThan(200);
  }
});
