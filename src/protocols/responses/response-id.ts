/** The response id of an event: lifecycle events contain their response, which begins with it. */

import { JSON_DEPTH_MAX } from "../../count-limits.ts";
import { memberStart } from "../../json/member.ts";
import { type JsonField, scanObject, stringValue, wantedFields } from "../../json/scan.ts";
import { QUOTE, stringEnd } from "../../json/walk.ts";
import { findEventFault, PARSED_EVENT } from "../shared/event-bounds.ts";

const utf8 = new TextEncoder();
const RESPONSE = utf8.encode("response");
const ID = utf8.encode("id");
const EVENT_FIELDS = wantedFields(["response"]);
const RESPONSE_FIELDS = wantedFields(["id"]);
/** As of the ids that requests may continue from. Each lane of a WebSocket remembers one, which no budget counts. */
const ID_BYTES_MAX = 4_096;

/** Returns null if the event has no id, or one that is too long to be used. */
export function findResponseId(bytes: Uint8Array, start: number, end: number): string | null {
  const id = readNearId(bytes, start, end) ?? scanForId(bytes, start, end);
  return id === null || id.end - id.start > ID_BYTES_MAX ? null : stringValue(bytes, id);
}

/** In the usual layout the id is among the first bytes: an id may be 4 KiB long, and few members precede it. */
const NEAR_BYTES = 16 * 1024;

/** Handles the usual layout without walking the rest of the event, which contains the whole output. */
function readNearId(bytes: Uint8Array, start: number, eventEnd: number): JsonField | null {
  const end = Math.min(eventEnd, start + NEAR_BYTES);
  const response = memberStart(bytes, start, end, RESPONSE);
  const id = response < 0 ? response : memberStart(bytes, response, end, ID);
  if (id < 0 || bytes[id] !== QUOTE) return null;
  const idEnd = stringEnd(bytes, id + 1, end, id);
  return idEnd < 0 ? null : { keyStart: id, start: id, end: idEnd, kind: "string", values: 0 };
}

/** Not in an event that is too long: it is walked twice, and a WebSocket's message before its bounds are checked. */
function scanForId(bytes: Uint8Array, start: number, end: number): JsonField | null {
  if (findEventFault({ bytes, start, end }, PARSED_EVENT) !== null) return null;
  const event = scanObject(bytes, start, end, EVENT_FIELDS, { depthMax: JSON_DEPTH_MAX });
  const response = event.ok ? event.fields.response : undefined;
  if (response?.kind !== "object") return null;
  const inner = scanObject(bytes, response.start, response.end, RESPONSE_FIELDS, {
    depthMax: JSON_DEPTH_MAX,
  });
  return (inner.ok && inner.fields.id) || null;
}
