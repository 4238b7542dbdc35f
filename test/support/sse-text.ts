/** Reads a stream as a strict client does, for tests that check every event. */

export interface SentEvent {
  type: string | null;
  data: string;
}

export interface SentStream {
  events: SentEvent[];
  comments: string[];
}

/** Throws if the text ends inside an event or contains an unexpected line. */
export function readStream(text: string): SentStream {
  const events: SentEvent[] = [];
  const comments: string[] = [];
  if (text !== "" && !text.endsWith("\n\n"))
    throw new Error(`the stream ends inside an event: ${tail(text)}`);
  for (const block of text.split("\n\n").slice(0, -1)) {
    let type: string | null = null;
    const data: string[] = [];
    for (const line of block.split("\n")) {
      if (line.startsWith(":")) comments.push(line.slice(1).trim());
      else if (line.startsWith("event: ")) type = line.slice("event: ".length);
      else if (line.startsWith("data: ")) data.push(line.slice("data: ".length));
      else throw new Error(`not a line of an event: ${JSON.stringify(line.slice(0, 200))}`);
    }
    if (data.length > 0) events.push({ type, data: data.join("\n") });
    else if (type !== null) throw new Error(`an event without data: ${type}`);
  }
  return { events, comments };
}

export function eventsIn(text: string): SentEvent[] {
  return readStream(text).events;
}

/** The JSON of an event's data. */
export function payload(event: SentEvent | undefined): Record<string, unknown> {
  return asRecord(event === undefined ? undefined : JSON.parse(event.data));
}

export function asRecord(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error(`not an object: ${JSON.stringify(value)}`);
  }
  return { ...value };
}

function tail(text: string): string {
  return JSON.stringify(text.slice(-200));
}
