/** Codex counts data events only, and takes a few that no other client knows. */

import type { HeaderReader } from "../../net/wire/http-fields.ts";
export function isCodex(headers: HeaderReader): boolean {
  return (headers.get("originator") ?? headers.get("user-agent") ?? "").startsWith("codex");
}
