/** The pages of `docs/`: read, rendered, and cut into sections for the search. */

import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { plainText } from "./html.ts";
import { type RenderedMarkdown, renderMarkdown } from "./markdown.ts";

export interface DocsPage extends RenderedMarkdown {
  /** The address of the page is `/docs/<slug>`. */
  slug: string;
  title: string;
  /** The text of the page, cut at its headings. */
  sections: Section[];
}

export interface Section {
  /** With the id of the heading, if there is one. */
  address: string;
  page: string;
  heading: string;
  text: string;
}

export const DOCS = join(import.meta.dir, "../../docs");

/** In the order of the table of contents. A page that is not in it is not on the site. */
export function readPages(dir: string = DOCS): DocsPage[] {
  const contents = readFileSync(join(dir, "README.md"), "utf8");
  const files = [...contents.matchAll(/^\| \[[^\]]+\]\(([\w-]+\.md)\)/gm)].map(([, file = ""]) => file);
  return files.map((file) => {
    const slug = basename(file, ".md");
    const rendered = renderMarkdown(readFileSync(join(dir, file), "utf8"), dir);
    const page = { ...rendered, slug, title: rendered.title ?? slug };
    return { ...page, sections: cutSections(page) };
  });
}

function cutSections({ slug, title, html, headings }: Omit<DocsPage, "sections">): Section[] {
  return html.split(/(?=<h[23] id=")/).map((part) => {
    const [, id] = /^<h[23] id="([^"]*)"/.exec(part) ?? [];
    const heading = headings.find((one) => one.id === id);
    return {
      address: heading ? `/docs/${slug}#${heading.id}` : `/docs/${slug}`,
      page: title,
      heading: heading?.text ?? title,
      text: plainText(part.replaceAll(/<a class="anchor".*?<\/a>/g, "")),
    };
  });
}
