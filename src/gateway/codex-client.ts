/** Codex counts data events only, and takes a few that no other client knows. */
export function isCodex(headers: Headers): boolean {
  return (headers.get("originator") ?? headers.get("user-agent") ?? "").startsWith("codex");
}
