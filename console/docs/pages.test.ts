import { expect, test } from "bun:test";
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

test("every page has a title, and its sections hold its text", () => {
  for (const { title, sections } of pages) {
    expect(title.length).toBeGreaterThan(2);
    expect(sections.map(({ text }) => text).join("").length).toBeGreaterThan(200);
  }
});
