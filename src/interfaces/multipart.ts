/**
 * Reads a form while it passes: finds the wanted text fields and where their values stand in the body, and counts
 * the files, keeping no more than a header or a field in memory. Where parsers are known to disagree (a preamble,
 * an epilogue, an escaped or repeated name, text behind a boundary) the form is refused: the gateway and the
 * upstream must never read two different models out of one body.
 */

import { formPartOf } from "./multipart-part.ts";

export interface MultipartLimits {
  partsMax: number;
  /** Of one part's header block. */
  headerBytesMax: number;
  /** Of any one text field. */
  fieldBytesMax: number;
  /** Of one name; `image`, `image[]` and `image[3]` are one name. */
  filesMax: number;
  fileBytesMax: number;
  /** Text fields to report; each may come once. */
  wanted: readonly string[];
}

export interface MultipartScanner {
  /** False once the form is refused: there is no need to read on. Never looks at the chunk again. */
  push(chunk: Uint8Array): boolean;
  end(): MultipartResult;
}

export type MultipartResult = { ok: true; form: MultipartForm } | { ok: false; fault: MultipartFault };

export interface MultipartForm {
  fields: ReadonlyMap<string, MultipartField>;
  files: readonly MultipartFile[];
}

export interface MultipartField {
  value: string;
  /** The value's bytes in the whole body. */
  start: number;
  end: number;
}

export interface MultipartFile {
  name: string;
  bytes: number;
}

export interface MultipartFault {
  reason: MultipartFaultReason;
  /** A sentence for the client. */
  message: string;
  param: string | null;
}

export type MultipartFaultReason =
  | "malformed"
  | "truncated"
  | "repeated_field"
  | "too_many_parts"
  | "headers_too_large"
  | "field_too_large"
  | "file_too_large"
  | "too_many_files"
  | "not_text";

/** The part being read. */
interface Part {
  name: string;
  isFile: boolean;
  start: number;
  bytes: number;
  /** The value of a wanted field; null for anything else. */
  kept: Uint8Array[] | null;
}

type State =
  | { at: "start" | "after_boundary" | "headers" | "epilogue" }
  | { at: "content"; part: Part }
  | { at: "refused"; fault: MultipartFault };

const LINE_END = Buffer.from("\r\n");
const BLANK_LINE = Buffer.from("\r\n\r\n");

export function openMultipartScanner(boundary: string, limits: MultipartLimits): MultipartScanner {
  const delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  const fields = new Map<string, MultipartField>();
  const files: MultipartFile[] = [];
  const filesOf = new Map<string, number>();
  const seen = new Set<string>();
  let parts = 0;
  let state: State = { at: "start" };
  // A delimiter starts with the line end before it. The first has none, so one is put there.
  let rest: Buffer = LINE_END;
  let restAt = -LINE_END.length;

  /** Takes one step into `data`; returns how far it came, or -1 when it needs more bytes. */
  function step(data: Buffer, from: number): number {
    switch (state.at) {
      case "start": {
        if (data.length < delimiter.length) return -1;
        if (data.indexOf(delimiter) !== 0) return refuse("malformed", "The form does not start with its boundary.");
        state = { at: "after_boundary" };
        return delimiter.length;
      }
      case "after_boundary": {
        if (data.length < from + 2) return -1;
        const next = data.toString("latin1", from, from + 2);
        if (next !== "\r\n" && next !== "--") {
          return refuse("malformed", "A line of the form starts with the boundary and goes on.");
        }
        state = { at: next === "--" ? "epilogue" : "headers" };
        return from + 2;
      }
      case "headers":
        return readHeaders(data, from);
      case "content":
        return readContent(data, from, state.part);
      case "epilogue":
        if (data.length > from + 2 || !isLineEnd(data.subarray(from))) {
          return refuse("malformed", "The form goes on after its last boundary.");
        }
        return -1;
      case "refused":
        return -1;
    }
  }

  function readHeaders(data: Buffer, from: number): number {
    const end = data.indexOf(BLANK_LINE, from);
    const bytes = end === -1 ? data.length - from - BLANK_LINE.length + 1 : end - from;
    if (bytes > limits.headerBytesMax) {
      return refuse("headers_too_large", `A part's headers are longer than ${limits.headerBytesMax} bytes.`);
    }
    if (end === -1) return -1;
    const described = formPartOf(data.toString("utf8", from, end));
    if (described === null) {
      return refuse("malformed", "A part's headers are malformed, or do not name it once in the plain form.");
    }
    const part = open(described.name, described.isFile, restAt + end + BLANK_LINE.length);
    if (part === null) return -1;
    state = { at: "content", part };
    // The blank line's end may be the start of the delimiter; readContent looks for that.
    return end + LINE_END.length;
  }

  function open(name: string, isFile: boolean, start: number): Part | null {
    const wanted = limits.wanted.includes(name);
    parts++;
    if (parts > limits.partsMax) {
      refuse("too_many_parts", `The form has more than ${limits.partsMax} parts.`);
      return null;
    }
    if (wanted && isFile) {
      refuse("malformed", `\`${name}\` must be a text field, not a file.`, name);
      return null;
    }
    if (wanted && seen.has(name)) {
      refuse("repeated_field", `\`${name}\` is given more than once.`, name);
      return null;
    }
    seen.add(name);
    if (isFile) {
      const family = name.replace(/\[[^\]]*\]$/, "");
      const count = (filesOf.get(family) ?? 0) + 1;
      filesOf.set(family, count);
      if (count > limits.filesMax) {
        refuse("too_many_files", `\`${family}\` has more than ${limits.filesMax} files.`, family);
        return null;
      }
    }
    return { name, isFile, start, bytes: 0, kept: wanted ? [] : null };
  }

  function readContent(data: Buffer, from: number, part: Part): number {
    const found = data.indexOf(delimiter, from);
    // What could be the start of a delimiter waits for the next chunk.
    const end = found === -1 ? data.length - delimiter.length + 1 : found;
    const start = Math.max(from, part.start - restAt);
    if (found !== -1 && found < start) return refuse("malformed", "A part has no content.", part.name);
    if (end > start) {
      part.bytes += end - start;
      part.kept?.push(data.subarray(start, end).slice());
      const bytesMax = part.isFile ? limits.fileBytesMax : limits.fieldBytesMax;
      if (part.bytes > bytesMax) {
        const reason = part.isFile ? "file_too_large" : "field_too_large";
        return refuse(reason, `\`${part.name}\` is larger than ${bytesMax} bytes.`, part.name);
      }
    }
    if (found === -1) return -1;
    return close(part, restAt + found) ? found + delimiter.length : -1;
  }

  return { push, end };
}
