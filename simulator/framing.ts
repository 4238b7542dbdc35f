/** How events are written on the wire: as server-sent events, or in the frames of another API. */

import type { Frame } from "./reply.ts";

export interface EventFraming {
  readonly contentType: string;
  write(one: Frame): Buffer;
  /** A message without meaning, which makes the server send the headers. */
  readonly flush: Buffer;
  readonly ping: Buffer;
}

export const SERVER_EVENTS: EventFraming = {
  contentType: "text/event-stream; charset=utf-8",
  write: (one) => Buffer.from(formatEventText(one)),
  flush: Buffer.from(":\n\n"),
  ping: Buffer.from(": ping\n\n"),
};

export function formatEventText(one: Frame): string {
  return one.event === null ? `data: ${one.data}\n\n` : `event: ${one.event}\ndata: ${one.data}\n\n`;
}
