/** What a connection keeps of its upgrade's headers: those that a turn needs, which for most clients are none. */

import { FORWARDED_UP } from "../accounts/headers.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import { SESSION_HEADERS } from "../protocols/shared/conversation.ts";
import type { FrameMetadata } from "./client-frame.ts";

const KEPT = ["originator", "x-client-request-id", ...SESSION_HEADERS, ...FORWARDED_UP] as const;
const NONE = new Headers();

export function keptHeaders(from: HeaderReader): Headers {
  let kept: Headers | null = null;
  const keep = (name: string, value: string) => {
    kept ??= new Headers();
    kept.set(name, value);
  };
  for (const name of KEPT) {
    const given = from.get(name) ?? "";
    const value = name === "openai-beta" ? betasOf(given) : given;
    if (value !== "") keep(name, value);
  }
  const agent = from.get("user-agent");
  if (agent?.startsWith("codex")) keep("user-agent", agent);
  return kept ?? NONE;
}

/** Without the one that asks for the socket itself: upstream it may be HTTP. */
function betasOf(list: string): string {
  const betas = list.split(",").map((beta) => beta.trim());
  return betas.filter((beta) => !beta.startsWith("responses_websockets=")).join(",");
}

/** Headers of one turn, where its frame says what others say in a header. */
export function turnHeaders(kept: Headers, metadata: FrameMetadata | null): Headers {
  if (metadata === null) return kept;
  const { conversation, isLite } = metadata;
  if (conversation === null && !isLite) return kept;
  const headers = new Headers(kept);
  if (conversation !== null) headers.set("session-id", conversation);
  if (isLite) headers.set("x-openai-internal-codex-responses-lite", "true");
  return headers;
}
