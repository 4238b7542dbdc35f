import type { HeaderReader } from "../../net/wire/http-fields.ts";

const CHARS_MAX = 128;

/** What the client itself calls its request, for the log lines that tell of it: cut short, and plain text alone. */
export function clientRequestId(headers: HeaderReader): string | null {
  const given = headers.get("x-client-request-id")?.replace(/[^\x20-\x7e]/g, "") ?? "";
  return given === "" ? null : given.slice(0, CHARS_MAX);
}
