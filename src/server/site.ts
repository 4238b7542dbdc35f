/**
 * Pages and what belongs to them, as `npm run build` made them. Files with a hash in their name never change, and
 * browsers keep them for ever; everything else is asked for anew each time.
 */

import { readdirSync, statSync } from "node:fs";
import { extname, join } from "node:path";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import { SharedAnswer } from "../net/wire/http-message.ts";
import { StaticDocument } from "../net/wire/static-document.ts";

export interface Site {
  /** `path` begins with the base. */
  answer(headers: HeaderReader, path: string): Promise<SharedAnswer>;
}

export interface SiteOptions {
  /** Where it is: `/console/`. */
  base: string;
  folder: string;
  /** Its one document finds every address by itself; else each address is a document of its own. */
  isOnePage: boolean;
  /** Of its files, so many bytes stay in memory; what is beyond is read from the disk each time. */
  keptBytesMax: number;
}

/** Nothing from elsewhere, nothing inline, and in nobody's frame. */
const SAFETY: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  // Not "no-referrer": browsers would then hide from us that a change comes from our own page.
  "referrer-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
};

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".map": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".webp": "image/webp",
  ".woff2": "font/woff2",
};

/** Smallest first. */
const PACKED = [
  { encoding: "br", suffix: ".br" },
  { encoding: "gzip", suffix: ".gz" },
] as const;

const FOR_EVER = "public, max-age=31536000, immutable";

export function openSite({ base, folder, isOnePage, keptBytesMax }: SiteOptions): Site {
  let names: ReadonlySet<string> = new Set();
  let builtMs: number | null = null;
  /** Files by their names, as they were when the site was built. */
  const kept = new Map<string, StaticDocument>();
  let keptBytes = 0;

  /** Names of what is there, so that no address can lead out of the folder. Read again when it was built again. */
  function filesOf(): ReadonlySet<string> | null {
    const presentMs = statSync(join(folder, "index.html"), { throwIfNoEntry: false })?.mtimeMs ?? null;
    if (presentMs !== null && presentMs !== builtMs) {
      names = new Set(readdirSync(folder, { recursive: true, encoding: "utf8" }));
      builtMs = presentMs;
      kept.clear();
      keptBytes = 0;
    }
    return presentMs === null ? null : names;
  }

  function nameOf(address: string, all: ReadonlySet<string>): string | null {
    if (address === "" || (isOnePage && !address.startsWith("assets/"))) return "index.html";
    const name = extname(address) === "" ? `${address}.html` : address;
    return all.has(name) ? name : null;
  }

  async function load(file: string, name: string, encoding: string | null): Promise<StaticDocument> {
    const readMs = builtMs;
    const document = new StaticDocument(await Bun.file(join(folder, file)).bytes(), {
      ...SAFETY,
      "content-type": TYPES[extname(name)] ?? "application/octet-stream",
      "cache-control": name.startsWith("assets/") ? FOR_EVER : "no-cache",
      vary: "accept-encoding",
      ...(encoding === null ? {} : { "content-encoding": encoding }),
    });
    const { length } = document.bytes;
    // Another request may have kept the same file meanwhile, or the site may have been built again.
    if (readMs === builtMs && !kept.has(file) && keptBytes + length <= keptBytesMax) {
      keptBytes += length;
      kept.set(file, document);
    }
    return document;
  }

  return {
    async answer(asked, path) {
      const all = filesOf();
      if (all === null) return page(503, NOT_BUILT);
      const name = nameOf(path.slice(base.length), all);
      if (name === null)
        return page(404, `<h1>Not found</h1><p><a href="${base}">Go to the first page</a></p>`);
      const packed = packedAs(asked, name, all);
      const file = name + (packed?.suffix ?? "");
      const document = kept.get(file) ?? (await load(file, name, packed?.encoding ?? null));
      return document.respond(asked);
    },
  };
}

function packedAs(headers: HeaderReader, name: string, all: ReadonlySet<string>) {
  const accepted = new Set(
    headers
      .get("accept-encoding")
      ?.split(",")
      .filter((one) => !/;\s*q=0(?:\.0*)?\s*$/.test(one))
      .map((one) => one.split(";")[0]?.trim()),
  );
  return PACKED.find(({ encoding, suffix }) => accepted.has(encoding) && all.has(name + suffix)) ?? null;
}

const NOT_BUILT =
  "<h1>These pages are not built</h1><p>Run <code>npm run build</code> in the gateway's folder and load this page again. The API works without them.</p>";

/** For people whose browser asked for a page that is refused. */
export function errorPage(status: number, message: string): SharedAnswer {
  return page(status, `<h1>Model Gateway</h1><p>${Bun.escapeHTML(message)}</p>`);
}

function page(status: number, body: string): SharedAnswer {
  return new SharedAnswer(
    status,
    { ...SAFETY, "content-type": "text/html; charset=utf-8", "cache-control": "no-store" },
    Buffer.from(`<!doctype html><html lang="en"><title>Model Gateway</title>${body}`),
  );
}
