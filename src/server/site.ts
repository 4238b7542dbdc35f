/**
 * Serves the built pages and their assets (`npm run build`). Browsers cache files with a hash in their name forever;
 * all other files are revalidated each time.
 */

import { readdirSync, statSync } from "node:fs";
import { extname, join } from "node:path";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import { SharedResponse } from "../net/wire/http-message.ts";
import { StaticDocument } from "../net/wire/static-document.ts";

export interface Site {
  /** `path` starts with the base. */
  respond(headers: HeaderReader, path: string): Promise<SharedResponse>;
}

interface SiteOptions {
  /** The base path, for example `/console/`. */
  base: string;
  folder: string;
  /** One document handles every path of the site; otherwise each path is a separate document. */
  isOnePage: boolean;
  /** Maximum number of bytes of files that are cached in memory. Further files are read from disk each time. */
  cachedBytesMax: number;
}

/** No external content, no inline scripts, no embedding in frames. */
const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  // Not "no-referrer": browsers would then omit the origin of requests from the gateway's own pages.
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

/** In order of preference, smallest first. */
const COMPRESSED = [
  { encoding: "br", suffix: ".br" },
  { encoding: "gzip", suffix: ".gz" },
] as const;

const CACHE_FOREVER = "public, max-age=31536000, immutable";

export function openSite({ base, folder, isOnePage, cachedBytesMax }: SiteOptions): Site {
  let names: ReadonlySet<string> = new Set();
  let builtMs: number | null = null;
  /** Cached files by name, as of the last build. */
  const cached = new Map<string, StaticDocument>();
  let cachedBytes = 0;

  /** Lists the files, so that no path leads out of the folder. Refreshed after a new build. */
  function listFiles(): ReadonlySet<string> | null {
    const presentMs = statSync(join(folder, "index.html"), { throwIfNoEntry: false })?.mtimeMs ?? null;
    if (presentMs !== null && presentMs !== builtMs) {
      names = new Set(readdirSync(folder, { recursive: true, encoding: "utf8" }));
      builtMs = presentMs;
      cached.clear();
      cachedBytes = 0;
    }
    return presentMs === null ? null : names;
  }

  function resolveName(address: string, files: ReadonlySet<string>): string | null {
    if (address === "" || (isOnePage && !address.startsWith("assets/"))) return "index.html";
    const name = extname(address) === "" ? `${address}.html` : address;
    return files.has(name) ? name : null;
  }

  async function load(file: string, name: string, encoding: string | null): Promise<StaticDocument> {
    const readMs = builtMs;
    const document = new StaticDocument(await Bun.file(join(folder, file)).bytes(), {
      ...SECURITY_HEADERS,
      "content-type": TYPES[extname(name)] ?? "application/octet-stream",
      "cache-control": name.startsWith("assets/") ? CACHE_FOREVER : "no-cache",
      vary: "accept-encoding",
      ...(encoding === null ? {} : { "content-encoding": encoding }),
    });
    const { length } = document.bytes;
    // Another request may have cached the same file, or the site may have been rebuilt.
    if (readMs === builtMs && !cached.has(file) && cachedBytes + length <= cachedBytesMax) {
      cachedBytes += length;
      cached.set(file, document);
    }
    return document;
  }

  return {
    async respond(headers, path) {
      const files = listFiles();
      if (files === null) return page(503, NOT_BUILT);
      const name = resolveName(path.slice(base.length), files);
      if (name === null)
        return page(404, `<h1>Not found</h1><p><a href="${base}">Go to the home page</a></p>`);
      const compressed = chooseCompressed(headers, name, files);
      const file = name + (compressed?.suffix ?? "");
      const document = cached.get(file) ?? (await load(file, name, compressed?.encoding ?? null));
      return document.respond(headers);
    },
  };
}

function chooseCompressed(headers: HeaderReader, name: string, all: ReadonlySet<string>) {
  const accepted = new Set(
    headers
      .get("accept-encoding")
      ?.split(",")
      .filter((one) => !/;\s*q=0(?:\.0*)?\s*$/.test(one))
      .map((one) => one.split(";")[0]?.trim()),
  );
  return COMPRESSED.find(({ encoding, suffix }) => accepted.has(encoding) && all.has(name + suffix)) ?? null;
}

const NOT_BUILT =
  "<h1>The console is not built</h1><p>Run <code>npm run build</code> in the folder of the gateway and reload this page. The API works without the console.</p>";

export function errorPage(status: number, message: string): SharedResponse {
  return page(status, `<h1>Model Gateway</h1><p>${Bun.escapeHTML(message)}</p>`);
}

function page(status: number, body: string): SharedResponse {
  return new SharedResponse(
    status,
    { ...SECURITY_HEADERS, "content-type": "text/html; charset=utf-8", "cache-control": "no-store" },
    Buffer.from(`<!doctype html><html lang="en"><title>Model Gateway</title>${body}`),
  );
}
