/** The headers of the upgrade request that turns need. Most clients send none of them. */

import { FORWARDED_REQUEST_HEADERS } from "../accounts/headers.ts";
import { FALLBACK_HEADERS } from "../gateway/fallback/read-fallback-headers.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import { SESSION_HEADERS } from "../protocols/shared/conversation-name.ts";
import type { FrameMetadata } from "./client-frame.ts";

const FORWARDED_HEADERS = [
  "originator",
  "x-client-request-id",
  "traceparent",
  "tracestate",
  ...FALLBACK_HEADERS,
  ...SESSION_HEADERS,
  ...FORWARDED_REQUEST_HEADERS,
] as const;
const NO_HEADERS = new Headers();

export function selectUpgradeHeaders(from: HeaderReader): Headers {
  let selected: Headers | null = null;
  const keep = (name: string, value: string) => {
    selected ??= new Headers();
    selected.set(name, value);
  };
  for (const name of FORWARDED_HEADERS) {
    const received = from.get(name) ?? "";
    const value = name === "openai-beta" ? filterBetas(received) : received;
    if (value !== "") keep(name, value);
  }
  const agent = from.get("user-agent");
  if (agent?.startsWith("codex")) keep("user-agent", agent);
  return selected ?? NO_HEADERS;
}

/** Removes the value that requests the WebSocket itself, because the upstream connection may be HTTP. */
function filterBetas(list: string): string {
  const betas = list.split(",").map((beta) => beta.trim());
  return betas.filter((beta) => !beta.startsWith("responses_websockets=")).join(",");
}

/** The headers of one turn, with values from its frame that other clients send as headers. */
export function turnHeaders(upgradeHeaders: Headers, metadata: FrameMetadata | null): Headers {
  if (metadata === null) return upgradeHeaders;
  const { conversationName, isLite, traceparent } = metadata;
  if (conversationName === null && !isLite && traceparent === null) return upgradeHeaders;
  const headers = new Headers(upgradeHeaders);
  if (conversationName !== null) headers.set("session-id", conversationName);
  if (traceparent !== null) headers.set("traceparent", traceparent);
  if (isLite) headers.set("x-openai-internal-codex-responses-lite", "true");
  return headers;
}
