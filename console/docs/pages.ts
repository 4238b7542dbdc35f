/** The Markdown of `docs/` → pages with their headings, links that work on the site, and sections to search in. */

import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { Marked, type Tokens } from "marked";

export interface Heading {
  id: string;
  depth: number;
  text: string;
}

export interface DocsPage {
  /** Its address is `/docs/<slug>`. */
  slug: string;
  title: string;
  html: string;
  headings: Heading[];
  /** A page's text, cut at its headings. */
  sections: Section[];
}

export interface Section {
  /** With the heading's id, if it has one. */
  address: string;
  page: string;
  heading: string;
  text: string;
}

export const DOCS = join(import.meta.dir, "../../docs");

/** On a phone so many columns would be three words wide each. */
const STACKED_FROM_COLUMNS = 4;
const COMMENT = /^<!--(?:(?!-->)[\s\S])*-->\s*$/;

/** In the order of the table of contents: a page that is not in it is not on the site. */
export function readPages(dir: string = DOCS): DocsPage[] {
  const contents = readFileSync(join(dir, "README.md"), "utf8");
  const files = [...contents.matchAll(/^\| \[[^\]]+\]\(([\w-]+\.md)\)/gm)].map(([, file = ""]) => file);
  return files.map((file) => toPage(basename(file, ".md"), readFileSync(join(dir, file), "utf8")));
}

function toPage(slug: string, markdown: string): DocsPage {
  const headings: Heading[] = [];
  const sections: Section[] = [];
  const taken = new Map<string, number>();
  const marked = new Marked({ gfm: true });
  let title = slug;

  marked.use({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        const html = this.parser.parseInline(tokens);
        const text = plain(html);
        if (depth === 1) {
          title = text;
          return `<h1>${html}</h1>\n`;
        }
        const id = idOf(text, taken);
        headings.push({ id, depth, text });
        return `<h${depth} id="${id}">${html}<a class="anchor" href="#${id}" aria-label="${escapeHtml(text)}">#</a></h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const text = this.parser.parseInline(tokens);
        const outside = /^https?:/.test(href);
        return `<a href="${escapeHtml(addressOf(href))}"${outside ? ' rel="noopener noreferrer"' : ""}>${text}</a>`;
      },
      image({ href, text }: Tokens.Image) {
        return `<img src="/docs/${escapeHtml(href)}" alt="${escapeHtml(text)}">`;
      },
      code({ text, lang }: Tokens.Code) {
        const label = lang === undefined || lang === "" ? "" : ` data-language="${escapeHtml(lang)}"`;
        return `<div class="code"${label}><pre tabindex="0"><code>${escapeHtml(text)}</code></pre></div>\n`;
      },
      table({ header, rows }: Tokens.Table) {
        const names = header.map(({ tokens }) => this.parser.parseInline(tokens));
        // Stands before the cell where a phone shows the cells of a row below each other.
        const labels = names.map((name) => (name === "" ? "" : ` data-label="${escapeHtml(plain(name))}"`));
        // The roles say what the elements say, and stay when the style makes blocks of them.
        const head = names
          .map((name) => (name === "" ? `<td role="cell"></td>` : `<th role="columnheader">${name}</th>`))
          .join("");
        const body = rows.map((row) => {
          const cells = row.map(({ tokens }, i) => {
            return `<td role="cell"${labels[i] ?? ""}>${this.parser.parseInline(tokens)}</td>`;
          });
          return `<tr role="row">${cells.join("")}</tr>`;
        });
        // A table without words above its columns has no head worth showing.
        const isNamed = names.some((name) => name !== "");
        const thead = isNamed ? `<thead role="rowgroup"><tr role="row">${head}</tr></thead>` : "";
        const tbody = `<tbody role="rowgroup">${body.join("")}</tbody>`;
        const kind = header.length >= STACKED_FROM_COLUMNS ? "table stacks" : "table";
        return `<div class="${kind}" tabindex="0" role="group"><table role="table">${thead}${tbody}</table></div>\n`;
      },
      // What stands as HTML in a page is shown, never run; but for comments, which are for those who write it.
      html: ({ text }: Tokens.HTML | Tokens.Tag) => (COMMENT.test(text) ? "" : escapeHtml(text)),
    },
  });

  const html = marked.parse(markdown, { async: false });
  for (const [i, part] of html.split(/(?=<h[23] id=")/).entries()) {
    const heading =
      i === 0
        ? null
        : headings.find(({ id }) => part.startsWith(`<h2 id="${id}"`) || part.startsWith(`<h3 id="${id}"`));
    sections.push({
      address: heading ? `/docs/${slug}#${heading.id}` : `/docs/${slug}`,
      page: title,
      heading: heading?.text ?? title,
      text: plain(part.replaceAll(/<a class="anchor".*?<\/a>/g, "")),
    });
  }
  return { slug, title, html, headings, sections };
}

/** Between pages by their file names, as the repository reads them too; what is no page stays what it is. */
export function addressOf(href: string): string {
  const [, file, anchor = ""] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? [];
  return file === undefined ? href : `/docs/${file}${anchor}`;
}

/** As GitHub makes them, so that links work in both places. */
export function idOf(text: string, taken: Map<string, number>): string {
  const plainId = text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(/\s/g, "-");
  const times = taken.get(plainId) ?? 0;
  taken.set(plainId, times + 1);
  return times === 0 ? plainId : `${plainId}-${times}`;
}

export function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

function plain(html: string): string {
  return html
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&")
    .replaceAll(/\s+/g, " ")
    .trim();
}

/** Links of a page that lead nowhere: to a page, a heading or a picture that is not there. */
export function brokenLinks(pages: readonly DocsPage[], dir: string = DOCS): string[] {
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
      ...pictures.filter((file) => !existsSync(join(dir, file))).map((file) => `${slug}: ${file}`),
    ];
  });
}
