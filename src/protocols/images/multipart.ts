/**
 * Scans a multipart form while it arrives: finds the wanted text fields and their byte positions and counts the files,
 * with at most one header or field in memory. Forms that parsers are known to read differently (a preamble, an
 * epilogue, an escaped or repeated name, a boundary in the middle of a line) are rejected: the gateway and the upstream
 * must never read different models from one body.
 */

import { foldCase } from "../../json/name.ts";

export interface MultipartLimits {
  partsMax: number;
  /** The maximum of one part's header block. */
  headerBytesMax: number;
  /** The maximum of one text field's value. */
  fieldBytesMax: number;
  /** The maximum number of files under one name; `image`, `image[]` and `image[3]` are one name. */
  filesMax: number;
  fileBytesMax: number;
  /** Text fields to report; each may occur once. */
  wanted: readonly string[];
  /** Called for every part as it arrives. */
  watch?(name: string): PartWatcher;
}

export interface PartWatcher {
  add(content: Uint8Array): void;
  end(): void;
}

export interface MultipartScanner {
  /** Returns false once the form is rejected: reading on is useless. The chunk is not used after the call. */
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
  /** The byte range of the value in the whole body. */
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
  | "case_variant"
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
  /** The offset of its content in the whole body. */
  start: number;
  bytes: number;
  /** The value of a wanted field so far; null for other parts. */
  kept: Uint8Array[] | null;
  watcher: PartWatcher | null;
}

const LINE_END = Buffer.from("\r\n");
const VALUE_PIECES_MAX = 256;
const BLANK_LINE = Buffer.from("\r\n\r\n");

export function openMultipartScanner(boundary: string, limits: MultipartLimits): MultipartScanner {
  const mark = Buffer.from(`--${boundary}`, "latin1");
  const delimiter = Buffer.concat([LINE_END, mark]);
  const wantedByFold = new Map(limits.wanted.map((name) => [foldCase(name), name]));
  const fields = new Map<string, MultipartField>();
  const files: MultipartFile[] = [];
  const filesByName = new Map<string, number>();
  let partCount = 0;
  let fault: MultipartFault | null = null;
  let part: Part | null = null;
  /** Continues from `at`. Returns false if it needs more bytes or is finished. */
  let step: () => boolean = readStart;

  // A delimiter starts with a line break. The first one in a body has none, so one is inserted.
  let data: Buffer = LINE_END;
  let at = 0;
  let dataStart = -LINE_END.length;

  function push(chunk: Uint8Array): boolean {
    const fresh = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    data = data.length === 0 ? fresh : Buffer.concat([data, fresh]);
    while (fault === null && step()) {}
    // The rest is short (a header, or a possible half of a delimiter). Copying it frees the chunk.
    dataStart += at;
    data = Buffer.from(data.subarray(at));
    at = 0;
    return fault === null;
  }

  function end(): MultipartResult {
    if (fault === null && (step !== readEpilogue || data.length === 1)) {
      refuse("truncated", "The form ends before its last boundary.");
    }
    return fault === null ? { ok: true, form: { fields, files } } : { ok: false, fault };
  }

  function refuse(reason: MultipartFaultReason, message: string, param: string | null = null): false {
    fault = { reason, message, param };
    return false;
  }

  function readStart(): boolean {
    if (data.length < delimiter.length) return false;
    if (!data.subarray(0, delimiter.length).equals(delimiter)) {
      return refuse("malformed", "The form does not start with its boundary.");
    }
    at = delimiter.length;
    step = readAfterDelimiter;
    return true;
  }

  function readAfterDelimiter(): boolean {
    if (data.length < at + 2) return false;
    const next = data.toString("latin1", at, at + 2);
    if (next !== "\r\n" && next !== "--") {
      return refuse("malformed", "A line of the form starts with the boundary and then goes on.");
    }
    at += 2;
    step = next === "--" ? readEpilogue : readHeaders;
    return true;
  }

  function readHeaders(): boolean {
    const headEnd = data.indexOf(BLANK_LINE, at);
    const headBytes = headEnd === -1 ? data.length - at - BLANK_LINE.length + 1 : headEnd - at;
    if (headBytes > limits.headerBytesMax) {
      return refuse("headers_too_large", `A part's headers are longer than ${limits.headerBytesMax} bytes.`);
    }
    if (headEnd === -1) return false;
    const block = data.subarray(at, headEnd);
    const headers = block.includes(mark) ? null : readPartHeaders(block.toString("utf8"));
    if (headers === null) {
      return refuse("malformed", "The headers of a part are malformed, or do not give it one plain name.");
    }
    // The line break of the blank line stays in the buffer: a boundary directly after it is not a delimiter of an empty
    // part.
    at = headEnd + LINE_END.length;
    return openPart(headers, dataStart + headEnd + BLANK_LINE.length);
  }

  function openPart({ name, isFile }: PartHeaders, start: number): boolean {
    const wanted = limits.wanted.includes(name);
    if (++partCount > limits.partsMax) {
      return refuse("too_many_parts", `The form has more than ${limits.partsMax} parts.`);
    }
    const variant = wanted ? undefined : wantedByFold.get(foldCase(name));
    if (variant !== undefined) {
      return refuse(
        "case_variant",
        `A field differs from \`${variant}\` only in upper and lower case. Write the name exactly, or remove the field.`,
        variant,
      );
    }
    if (wanted && isFile) return refuse("malformed", `\`${name}\` must be a text field, not a file.`, name);
    if (wanted && fields.has(name))
      return refuse("repeated_field", `\`${name}\` is given more than once.`, name);
    if (isFile) {
      const family = name.replace(/\[[^[\]]*\]$/, "");
      const count = (filesByName.get(family) ?? 0) + 1;
      filesByName.set(family, count);
      if (count > limits.filesMax) {
        return refuse("too_many_files", `\`${family}\` has more than ${limits.filesMax} files.`, family);
      }
    }
    const watcher = limits.watch?.(name) ?? null;
    part = { name, isFile, start, bytes: 0, kept: wanted ? [] : null, watcher };
    step = readContent;
    return true;
  }

  function readContent(): boolean {
    if (part === null) return false;
    const boundaryAt = data.indexOf(mark, at);
    // The last bytes may be the start of a delimiter: they wait for the next chunk.
    const to = (boundaryAt === -1 ? data.length + 1 - mark.length : boundaryAt) - LINE_END.length;
    const from = Math.max(at, part.start - dataStart);
    if (boundaryAt !== -1 && (to < from || !data.subarray(to, boundaryAt).equals(LINE_END))) {
      return refuse("malformed", `\`${part.name}\` has the boundary inside its content.`, part.name);
    }
    if (to > from && !takeContent(part, data.subarray(from, to))) return false;
    if (boundaryAt === -1) {
      at = Math.max(at, to);
      return false;
    }
    at = boundaryAt + mark.length;
    step = readAfterDelimiter;
    return closePart(part);
  }

  function takeContent(to: Part, content: Uint8Array): boolean {
    to.bytes += content.length;
    to.watcher?.add(content);
    if (to.isFile && to.bytes > limits.fileBytesMax) {
      return refuse("file_too_large", `\`${to.name}\` is larger than ${limits.fileBytesMax} bytes.`, to.name);
    }
    if (!to.isFile && to.bytes > limits.fieldBytesMax) {
      return refuse(
        "field_too_large",
        `\`${to.name}\` is larger than ${limits.fieldBytesMax} bytes.`,
        to.name,
      );
    }
    if (to.kept !== null) {
      // Joined from time to time: a value sent byte by byte must not become one object per byte.
      if (to.kept.length === VALUE_PIECES_MAX) to.kept = [Buffer.concat(to.kept)];
      to.kept.push(Uint8Array.from(content));
    }
    return true;
  }

  function closePart({ name, isFile, start, bytes, kept, watcher }: Part): boolean {
    watcher?.end();
    if (isFile) files.push({ name, bytes });
    if (kept === null) return true;
    const value = decodeText(kept);
    if (value === null) return refuse("not_text", `\`${name}\` is not valid UTF-8.`, name);
    fields.set(name, { value, start, end: start + bytes });
    return true;
  }

  function readEpilogue(): boolean {
    if (LINE_END.indexOf(data.subarray(at)) === 0) return false;
    return refuse("malformed", "The form goes on after its last boundary.");
  }

  return { push, end };
}

function decodeText(chunks: readonly Uint8Array[]): string | null {
  try {
    // A byte order mark is kept: the upstream sees it too.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch {
    return null;
  }
}

interface PartHeaders {
  name: string;
  isFile: boolean;
}

const HEADER = /^([!#$%&'*+\-.^_`|~\w]+):[ \t]*(.*)$/s;
const PARAMETER = /;[ \t]*([!#$%&'*+\-.^_`|~\w]+)=(?:([!#$%&'*+\-.^_`|~\w]+)|"((?:[^"\\]|\\.)*)")[ \t]*/sy;
const CONTROL = /[^\P{Cc}\t]/u;

function readPartHeaders(block: string): PartHeaders | null {
  let disposition: string | null = null;
  for (const line of block.split("\r\n")) {
    const [, name = "", value = ""] = HEADER.exec(line) ?? [];
    if (name === "" || CONTROL.test(line)) return null;
    switch (name.toLowerCase()) {
      case "content-disposition":
        if (disposition !== null) return null;
        disposition = value;
        break;
      case "content-transfer-encoding":
        // Other encodings would have to be decoded, and RFC 7578 deprecates them.
        if (!/^(?:7bit|8bit|binary)[ \t]*$/i.test(value)) return null;
    }
  }
  return disposition === null ? null : readDisposition(disposition);
}

function readDisposition(value: string): PartHeaders | null {
  const type = /^form-data[ \t]*/i.exec(value)?.[0];
  const parameters = type === undefined ? null : readParameters(value, type.length);
  const name = parameters?.get("name");
  // Parsers disagree on whether a backslash in a quoted name is an escape. The extended form is forbidden.
  if (!parameters || name === undefined || name.includes("\\") || parameters.has("name*")) return null;
  return { name, isFile: parameters.has("filename") || parameters.has("filename*") };
}

/**
 * Returns quoted values as they are between the quotes. Returns null if text is left over or a parameter is repeated.
 */
function readParameters(text: string, from: number): Map<string, string> | null {
  const parameters = new Map<string, string>();
  PARAMETER.lastIndex = from;
  for (let at = from; at < text.length; at = PARAMETER.lastIndex) {
    const match = PARAMETER.exec(text);
    const name = match?.[1]?.toLowerCase();
    if (!match || name === undefined || parameters.has(name)) return null;
    parameters.set(name, match[2] ?? match[3] ?? "");
  }
  return parameters;
}

/** The boundary of a `multipart/form-data` type; null for other types or if the boundary violates RFC 2046. */
export function readBoundary(contentType: string): string | null {
  const type = /^multipart\/form-data[ \t]*/i.exec(contentType)?.[0];
  const parameters = type === undefined ? null : readParameters(contentType, type.length);
  const boundary = parameters?.get("boundary");
  const valid = boundary !== undefined && /^[\w'()+,\-./:=? ]{0,69}[\w'()+,\-./:=?]$/.test(boundary);
  return valid ? boundary : null;
}
