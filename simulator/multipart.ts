/**
 * Reads a multipart body as it streams by. Files are counted, never held: 800 MB pass through a few kilobytes.
 */
export interface MultipartPart {
  name: string;
  filename: string | null;
  contentType: string | null;
  bytes: number;
}

export interface MultipartForm {
  /** Text fields by name; the last of a name counts. */
  texts: Map<string, string>;
  files: MultipartPart[];
}

export interface MultipartReader {
  push(chunk: Uint8Array): void;
  /** Null when the body was not well formed. */
  end(): MultipartForm | null;
}

const TEXT_BYTES_MAX = 256 * 1024;
const HEADER_BYTES_MAX = 16 * 1024;
const PARTS_MAX = 256;

export function boundaryOf(contentType: string | null): string | null {
  const match = /^multipart\/form-data\s*;.*?boundary=(?:"([^"]{1,70})"|([^\s;]{1,70}))/i.exec(
    contentType ?? "",
  );
  return match?.[1] ?? match?.[2] ?? null;
}

export function createMultipartReader(boundary: string): MultipartReader {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  const form: MultipartForm = { texts: new Map(), files: [] };
  let state: "before" | "after-boundary" | "headers" | "content" | "finished" | "broken" = "before";
  let part: MultipartPart | null = null;
  let text: Buffer[] = [];
  // The first delimiter has no line end before it, so one is put there.
  let held: Buffer = Buffer.from("\r\n");

  const content = (bytes: Buffer): void => {
    if (part === null || bytes.length === 0) return;
    part.bytes += bytes.length;
    if (part.filename === null && part.bytes <= TEXT_BYTES_MAX) text.push(Buffer.from(bytes));
  };

  const closePart = (): void => {
    if (part === null) return;
    if (part.filename === null) form.texts.set(part.name, Buffer.concat(text).toString());
    else form.files.push(part);
    part = null;
    text = [];
  };

  /** Takes one step through `held`; false when it needs more bytes. */
  const step = (): boolean => {
    switch (state) {
      case "before":
      case "content": {
        const at = held.indexOf(delimiter);
        if (at < 0) {
          const safe = Math.max(0, held.length - delimiter.length + 1);
          content(held.subarray(0, safe));
          held = held.subarray(safe);
          return false;
        }
        content(held.subarray(0, at));
        closePart();
        held = held.subarray(at + delimiter.length);
        state = "after-boundary";
        return true;
      }
      case "after-boundary": {
        if (held.length < 2) return false;
        const mark = held.toString("latin1", 0, 2);
        state = mark === "--" ? "finished" : mark === "\r\n" ? "headers" : "broken";
        // The line end stays: a part without headers begins with the blank line at once.
        held = held.subarray(mark === "--" ? 2 : 0);
        return true;
      }
      case "headers": {
        const end = held.indexOf("\r\n\r\n");
        if (end < 0) {
          if (held.length > HEADER_BYTES_MAX) state = "broken";
          return false;
        }
        part = partOf(held.toString("utf8", 2, end));
        held = held.subarray(end + 4);
        state = part === null || form.files.length + form.texts.size >= PARTS_MAX ? "broken" : "content";
        return true;
      }
      default:
        held = Buffer.alloc(0);
        return false;
    }
  };

  return {
    push(chunk) {
      if (state === "finished" || state === "broken") return;
      held = held.length === 0 ? Buffer.from(chunk) : Buffer.concat([held, chunk]);
      while (step()) {
        // each step consumes what it has understood
      }
    },
    end: () => (state === "finished" ? form : null),
  };
}

function partOf(headers: string): MultipartPart | null {
  const disposition = /^content-disposition:\s*form-data\s*;(.*)$/im.exec(headers)?.[1];
  const name = /(?:^|[;\s])name="((?:[^"\\]|\\.)*)"/i.exec(disposition ?? "")?.[1];
  if (name === undefined) return null;
  const filename = /(?:^|[;\s])filename="((?:[^"\\]|\\.)*)"/i.exec(disposition ?? "")?.[1] ?? null;
  const contentType = /^content-type:\s*(.*)$/im.exec(headers)?.[1]?.trim() ?? null;
  return { name, filename, contentType, bytes: 0 };
}
