/**
 * Parses a multipart body while it streams. Files are counted and never held in memory: 800 MB pass through a few
 * kilobytes.
 */
export interface MultipartPart {
  name: string;
  filename: string | null;
  contentType: string | null;
  bytes: number;
}

export interface MultipartForm {
  /** Text fields by name; the last one of a name counts. */
  texts: Map<string, string>;
  files: MultipartPart[];
}

export interface MultipartReader {
  push(chunk: Uint8Array): void;
  /** Returns null for a malformed body. */
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
  // The first delimiter has no line end before it, so one is inserted.
  let buffered: Buffer = Buffer.from("\r\n");

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

  /** Performs one step on the buffered bytes; false when it needs more bytes. */
  const step = (): boolean => {
    switch (state) {
      case "before":
      case "content": {
        const at = buffered.indexOf(delimiter);
        if (at < 0) {
          const safe = Math.max(0, buffered.length - delimiter.length + 1);
          content(buffered.subarray(0, safe));
          buffered = buffered.subarray(safe);
          return false;
        }
        content(buffered.subarray(0, at));
        closePart();
        buffered = buffered.subarray(at + delimiter.length);
        state = "after-boundary";
        return true;
      }
      case "after-boundary": {
        if (buffered.length < 2) return false;
        const suffix = buffered.toString("latin1", 0, 2);
        state = suffix === "--" ? "finished" : suffix === "\r\n" ? "headers" : "broken";
        // The line end stays, because a part without headers begins with the blank line.
        buffered = buffered.subarray(suffix === "--" ? 2 : 0);
        return true;
      }
      case "headers": {
        const end = buffered.indexOf("\r\n\r\n");
        if (end < 0) {
          if (buffered.length > HEADER_BYTES_MAX) state = "broken";
          return false;
        }
        part = parsePart(buffered.toString("utf8", 2, end));
        buffered = buffered.subarray(end + 4);
        state = part === null || form.files.length + form.texts.size >= PARTS_MAX ? "broken" : "content";
        return true;
      }
      default:
        buffered = Buffer.alloc(0);
        return false;
    }
  };

  return {
    push(chunk) {
      if (state === "finished" || state === "broken") return;
      buffered = buffered.length === 0 ? Buffer.from(chunk) : Buffer.concat([buffered, chunk]);
      while (step()) {
        // Each step consumes the bytes that it has parsed.
      }
    },
    end: () => (state === "finished" ? form : null),
  };
}

function parsePart(headers: string): MultipartPart | null {
  const disposition = /^content-disposition:\s*form-data\s*;(.*)$/im.exec(headers)?.[1];
  const name = /(?:^|[;\s])name="((?:[^"\\]|\\.)*)"/i.exec(disposition ?? "")?.[1];
  if (name === undefined) return null;
  const filename = /(?:^|[;\s])filename="((?:[^"\\]|\\.)*)"/i.exec(disposition ?? "")?.[1] ?? null;
  const contentType = /^content-type:\s*(.*)$/im.exec(headers)?.[1]?.trim() ?? null;
  return { name, filename, contentType, bytes: 0 };
}
