/** Markdown to HTML, with headings that have addresses, links that work on the site, and highlighted code. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Marked, Renderer, type Tokens } from "marked";
import { highlight, tokenClass } from "../ui/highlight.ts";
import { escapeHtml, plainText } from "./html.ts";

export interface Heading {
  id: string;
  depth: number;
  text: string;
}

export interface RenderedMarkdown {
  /** The first heading; null if there is none. */
  title: string | null;
  html: string;
  /** All other headings. */
  headings: Heading[];
}

/** `dir` is the folder of the page, from which pictures are read. */
export function renderMarkdown(markdown: string, dir: string): RenderedMarkdown {
  const renderer = new PageRenderer(dir);
  const html = new Marked({ gfm: true }).parse(markdown, { async: false, renderer });
  return { title: renderer.title, html, headings: renderer.headings };
}

/** On a phone, each of so many columns would be three words wide. */
const STACKED_FROM_COLUMNS = 4;
const COMMENT = /^<!--(?:(?!-->)[\s\S])*-->\s*$/;

class PageRenderer extends Renderer {
  title: string | null = null;
  readonly headings: Heading[] = [];
  readonly #ids = new Map<string, number>();
  readonly #dir: string;

  constructor(dir: string) {
    super();
    this.#dir = dir;
  }

  override heading({ tokens, depth }: Tokens.Heading): string {
    const html = this.parser.parseInline(tokens);
    const text = plainText(html);
    if (depth === 1) {
      this.title = text;
      return `<h1>${html}</h1>\n`;
    }
    const id = createHeadingId(text, this.#ids);
    this.headings.push({ id, depth, text });
    return `<h${depth} id="${id}">${html}<a class="anchor" href="#${id}" aria-label="${escapeHtml(text)}">#</a></h${depth}>\n`;
  }

  override link({ href, tokens }: Tokens.Link): string {
    const text = this.parser.parseInline(tokens);
    const isExternal = /^https?:/.test(href);
    return `<a href="${escapeHtml(siteAddress(href))}"${isExternal ? ' rel="noopener noreferrer"' : ""}>${text}</a>`;
  }

  /** A picture `name-light.*` is shown in the light theme; its counterpart `name-dark.*`, if there is one, in the dark. */
  override image({ href, text }: Tokens.Image): string {
    const dark = href.replace(/-light(?=\.\w+$)/, "-dark");
    if (dark === href || !existsSync(join(this.#dir, dark))) return imageElement(href, text);
    const size = webpSize(join(this.#dir, href));
    return [
      imageElement(href, text, ` class="light-only" loading="lazy"${size}`),
      imageElement(dark, text, ` class="dark-only" loading="lazy"${size}`),
    ].join("");
  }

  override code({ text, lang = "" }: Tokens.Code): string {
    const label = lang === "" ? "" : ` data-language="${escapeHtml(lang)}"`;
    return `<div class="code"${label}><pre tabindex="0"><code>${highlightedHtml(text, lang)}</code></pre></div>\n`;
  }

  override table({ header, rows }: Tokens.Table): string {
    const names = header.map(({ tokens }) => this.parser.parseInline(tokens));
    // Precedes the cell on a phone, where the cells of a row stand below each other.
    const labels = names.map((name) => (name === "" ? "" : ` data-label="${escapeHtml(plainText(name))}"`));
    const body = rows.map((row) => {
      const cells = row.map(
        ({ tokens }, i) => `<td role="cell"${labels[i] ?? ""}>${this.parser.parseInline(tokens)}</td>`,
      );
      return `<tr role="row">${cells.join("")}</tr>`;
    });
    const tbody = `<tbody role="rowgroup">${body.join("")}</tbody>`;
    const kind = header.length >= STACKED_FROM_COLUMNS ? "table stacks" : "table";
    return `<div class="${kind}" tabindex="0" role="group"><table role="table">${tableHead(names)}${tbody}</table></div>\n`;
  }

  /** HTML in a page is shown as text and never runs. Comments are for the writers of the page. */
  override html({ text }: Tokens.HTML | Tokens.Tag): string {
    return COMMENT.test(text) ? "" : escapeHtml(text);
  }
}

/** The roles repeat what the elements mean, and remain when the style displays them as blocks. */
function tableHead(names: readonly string[]): string {
  if (names.every((name) => name === "")) return "";
  const cells = names.map((name) =>
    name === "" ? `<td role="cell"></td>` : `<th role="columnheader">${name}</th>`,
  );
  return `<thead role="rowgroup"><tr role="row">${cells.join("")}</tr></thead>`;
}

function imageElement(href: string, text: string, attributes = ""): string {
  return `<img src="/docs/${escapeHtml(href)}" alt="${escapeHtml(text)}"${attributes}>`;
}

/** The attributes that reserve the space of a picture before it is loaded: otherwise a link to a heading below misses. */
function webpSize(path: string): string {
  const file = readFileSync(path);
  // The extended format has the size at a fixed place, less one, in three bytes each.
  if (file.toString("latin1", 12, 16) !== "VP8X") return "";
  return ` width="${file.readUIntLE(24, 3) + 1}" height="${file.readUIntLE(27, 3) + 1}"`;
}

function highlightedHtml(code: string, language: string): string {
  return highlight(code, language)
    .map(({ kind, text }) => {
      const name = tokenClass(kind);
      return name === undefined ? escapeHtml(text) : `<span class="${name}">${escapeHtml(text)}</span>`;
    })
    .join("");
}

/** Links between pages are file names, so that they work in the repository too. All other links stay as they are. */
export function siteAddress(href: string): string {
  const [, file, anchor = ""] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? [];
  return file === undefined ? href : `/docs/${file}${anchor}`;
}

/** The id that GitHub makes of a heading, so that links work in both places. `taken` counts the ids of the page. */
export function createHeadingId(text: string, taken: Map<string, number>): string {
  const id = text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(/\s/g, "-");
  const times = taken.get(id) ?? 0;
  taken.set(id, times + 1);
  return times === 0 ? id : `${id}-${times}`;
}
