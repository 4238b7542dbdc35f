/** The script of a documentation page: search, light and dark theme, copying code. */

import "../style/tokens.css";
import "../style/base.css";
import "../style/code.css";
import "./docs.css";
import MiniSearch, { type SearchResult } from "minisearch";
import { chooseTheme, chosenTheme } from "../theme.ts";
import type { Section } from "./pages.ts";
import { SEARCH_OPTIONS } from "./search-options.ts";

const FOUND_MAX = 8;
const EXCERPT_CHARS = 120;

function element<Kind extends HTMLElement>(id: string, kind: new () => Kind): Kind {
  const found = document.getElementById(id);
  if (found instanceof kind) return found;
  throw new Error(`The page has no #${id}.`);
}

const input = element("search", HTMLInputElement);
const list = element("found", HTMLUListElement);
let loading: Promise<MiniSearch<Section & { id: number }>> | null = null;
let chosen = -1;

/** Fetched when the first search begins, and cached. */
function loadIndex() {
  loading ??= fetch("/docs/search.json")
    .then((response) => response.text())
    .then((text) => MiniSearch.loadJSON(text, SEARCH_OPTIONS));
  return loading;
}

async function search(): Promise<void> {
  const query = input.value.trim();
  const index = await loadIndex();
  // The input has changed meanwhile.
  if (query !== input.value.trim()) return;
  show(query === "" ? [] : index.search(query).slice(0, FOUND_MAX), query);
}

function show(results: readonly SearchResult[], query: string): void {
  chosen = -1;
  list.replaceChildren(...(results.length === 0 && query !== "" ? [nothing(query)] : results.map(toItem)));
  const isOpen = query !== "";
  list.hidden = !isOpen;
  input.setAttribute("aria-expanded", String(isOpen));
  input.removeAttribute("aria-activedescendant");
}

function nothing(query: string): HTMLLIElement {
  const item = document.createElement("li");
  item.className = "docs-nothing";
  item.textContent = `No results for “${query}”.`;
  return item;
}

function toItem(result: SearchResult, i: number): HTMLLIElement {
  const item = document.createElement("li");
  item.id = `found-${i}`;
  item.role = "option";
  const link = document.createElement("a");
  link.href = result.address;
  link.tabIndex = -1;
  const title = document.createElement("strong");
  title.textContent = result.heading === result.page ? result.page : `${result.page}: ${result.heading}`;
  const excerpt = document.createElement("span");
  excerpt.textContent = buildExcerpt(result);
  link.append(title, excerpt);
  item.append(link);
  return item;
}

/** The text around the first match. */
function buildExcerpt({ text, terms }: SearchResult): string {
  const lower = String(text).toLowerCase();
  const at = Math.max(
    0,
    Math.min(...terms.map((term) => (lower.includes(term) ? lower.indexOf(term) : 0))) - 40,
  );
  return `${at > 0 ? "…" : ""}${String(text).slice(at, at + EXCERPT_CHARS)}…`;
}

function choose(step: number): void {
  const items = [...list.querySelectorAll("li[role=option]")];
  if (items.length === 0) return;
  chosen = (chosen + step + items.length) % items.length;
  for (const [i, item] of items.entries()) item.setAttribute("aria-selected", String(i === chosen));
  input.setAttribute("aria-activedescendant", `found-${chosen}`);
}

function close(): void {
  list.hidden = true;
  input.setAttribute("aria-expanded", "false");
}

input.addEventListener("focus", () => void loadIndex());
input.addEventListener("input", () => void search());
input.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    choose(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Escape") close();
});
input.form?.addEventListener("submit", (event) => {
  event.preventDefault();
  const links = list.querySelectorAll<HTMLAnchorElement>("li[role=option] a");
  links[Math.max(0, chosen)]?.click();
});
document.addEventListener("click", (event) => {
  if (event.target instanceof Node && !input.form?.contains(event.target)) close();
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  input.focus();
});

const themeButton = element("theme", HTMLButtonElement);
const isDark = () => {
  const theme = chosenTheme();
  return theme === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
};
themeButton.addEventListener("click", () => chooseTheme(isDark() ? "light" : "dark"));

for (const block of document.querySelectorAll<HTMLElement>(".code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code")?.textContent ?? "");
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1_500);
  });
  block.append(button);
}

// On a phone the list of pages is closed until the user opens it.
const pagesList = document.querySelector<HTMLDetailsElement>(".docs-pages details");
if (pagesList !== null && matchMedia("(max-width: 900px)").matches) pagesList.open = false;
