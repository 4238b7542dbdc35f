/** Media of messages: data URLs, and the hints to cache a prompt up to a part. */

import type { CacheHint, MediaSource } from "./hub-request.ts";
import { readObject } from "./json-values.ts";

const BASE64_MARK = ";base64";

/** Reads a URL of any kind. A data URL becomes its content. */
export function readMediaUrl(url: string): MediaSource {
  if (!url.startsWith("data:")) return { kind: "url", url, mediaType: null };
  const comma = url.indexOf(",");
  const head = url.slice("data:".length, comma);
  if (comma === -1 || !head.endsWith(BASE64_MARK)) return { kind: "url", url, mediaType: null };
  const [mediaType = ""] = head.slice(0, -BASE64_MARK.length).split(";", 1);
  return { kind: "base64", mediaType, base64: url.slice(comma + 1) };
}

/** Null for a file that a vendor stores. */
export function formatMediaUrl(source: MediaSource): string | null {
  switch (source.kind) {
    case "base64":
      return `data:${source.mediaType};base64,${source.base64}`;
    case "url":
      return source.url;
    case "file_id":
      return null;
  }
}

/** `cache_control`, which Chat and Responses clients send for upstreams behind gateways. */
export function readCacheHint(value: unknown): CacheHint | null {
  const control = readObject(value);
  if (control?.type !== "ephemeral") return null;
  return { ttl: control.ttl === "1h" ? "1h" : "5m" };
}

export function formatCacheControl({ ttl }: CacheHint): Record<string, unknown> {
  return ttl === "1h" ? { type: "ephemeral", ttl } : { type: "ephemeral" };
}
