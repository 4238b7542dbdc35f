/** The names of records in a coordinator, and on the wire. */

import type { Scope } from "../limiter-types.ts";
import type { RecordId } from "./protocol.ts";

/** Ids may contain any character: scope and length contain no colon. */
export function nameRecord({ scope, id, perMs }: RecordId): string {
  return `${scope}:${id}:${perMs ?? ""}`;
}

/** Null if the text is not a name. */
export function parseRecordName(name: string): RecordId | null {
  const [, scope, id, per] = NAME.exec(name) ?? [];
  if (scope === undefined || id === undefined || per === undefined) return null;
  return { scope: scope as Scope, id, perMs: per === "" ? null : Number(per) };
}

const NAME = /^(key|user|group|account):(.*):(\d{0,12})$/s;
