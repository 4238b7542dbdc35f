/** A page of the documentation as HTML: navigation at the left, the page, its headings at the right. */

import { escapeHtml } from "./html.ts";
import type { DocsPage } from "./pages.ts";

export interface Assets {
  theme: string;
  script: string;
  style: string;
  icon: string;
}

export function pageHtml(page: DocsPage, pages: readonly DocsPage[], assets: Assets): string {
  const at = pages.findIndex(({ slug }) => slug === page.slug);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(page.title)} · Model Gateway</title>
<link rel="icon" href="${assets.icon}">
<script src="${assets.theme}"></script>
<link rel="stylesheet" href="${assets.style}">
<script type="module" src="${assets.script}"></script>
</head>
<body class="docs">
<a class="skip-link" href="#content">Skip to content</a>
<header class="docs-bar">
<a class="docs-brand" href="/docs/">Model Gateway <span>Documentation</span></a>
<form class="docs-search" role="search" action="/docs/">
<label class="docs-label" for="search">Search the documentation</label>
<input id="search" type="search" placeholder="Search  /" autocomplete="off" role="combobox" aria-expanded="false" aria-controls="found" aria-autocomplete="list">
<ul id="found" role="listbox" aria-label="Search results" hidden></ul>
</form>
<nav class="docs-places" aria-label="Links"><a href="/explorer">API explorer</a><a href="/console/">Console</a></nav>
<button type="button" class="docs-theme" id="theme" aria-label="Toggle theme"></button>
</header>
<div class="docs-frame">
<nav class="docs-pages" aria-label="Pages"><details open><summary>Pages</summary><ul>
${pages.map((other) => pageLink(other, other.slug === page.slug)).join("\n")}
</ul></details></nav>
<main id="content" tabindex="-1">
${page.html}
<nav class="docs-next" aria-label="Previous and next page">
${neighbour(pages[at - 1], "previous")}${neighbour(pages[at + 1], "next")}
</nav>
</main>
${renderHeadings(page)}
</div>
</body>
</html>
`;
}

function pageLink({ slug, title }: DocsPage, isThis: boolean): string {
  return `<li><a href="/docs/${slug}"${isThis ? ' aria-current="page"' : ""}>${escapeHtml(title)}</a></li>`;
}

function neighbour(page: DocsPage | undefined, kind: "previous" | "next"): string {
  if (page === undefined) return "";
  const word = kind === "previous" ? "← Previous" : "Next →";
  return `<a class="docs-${kind}-page" href="/docs/${page.slug}"><span>${word}</span>${escapeHtml(page.title)}</a>`;
}

function renderHeadings({ headings }: DocsPage): string {
  const shown = headings.filter(({ depth }) => depth <= 3);
  if (shown.length < 2) return "";
  const items = shown.map(
    ({ id, depth, text }) => `<li class="depth-${depth}"><a href="#${id}">${escapeHtml(text)}</a></li>`,
  );
  return `<nav class="docs-headings" aria-label="On this page"><p>On this page</p><ul>${items.join("")}</ul></nav>`;
}
