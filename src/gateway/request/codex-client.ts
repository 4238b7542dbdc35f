/** Detects the Codex client, which counts only data events and accepts a few events that no other client knows. */

import type { HeaderReader } from "../../net/wire/http-fields.ts";
export function isCodex(headers: HeaderReader): boolean {
  return (headers.get("originator") ?? headers.get("user-agent") ?? "").startsWith("codex");
}
