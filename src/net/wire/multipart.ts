/**
 * Parses a multipart form (RFC 7578) while it arrives, with at most one header block in memory. Forms that parsers are
 * known to read differently (a preamble, an epilogue, an escaped or repeated name, a boundary in the middle of a line)
 * are rejected: a server and the server behind it must never read different fields from one body.
 */

export interface MultipartPart {
  readonly name: string;
  readonly isFile: boolean;
  /** As it stands between the quotes; null if the part has none, or only an extended one. */
  readonly filename: string | null;
  readonly contentType: string | null;
  /** The offset of its content in the whole body. */
  readonly start: number;
}

/** Each method returns null, or a fault that rejects the form. */
export interface MultipartHandler<Fault> {
  startPart(part: MultipartPart): Fault | null;
  /** Called any number of times for a part. The bytes are valid only during the call. */
  addContent(bytes: Uint8Array): Fault | null;
  endPart(): Fault | null;
}

export interface MultipartLimits {
  readonly partsMax: number;
  /** The maximum of one part's header block. */
  readonly headerBytesMax: number;
}

export interface MultipartFault {
  readonly reason: "malformed" | "truncated" | "headers_too_large" | "too_many_parts";
  /** A sentence for the client. */
  readonly message: string;
  /** The name of the part; null if it is unknown. */
  readonly param: string | null;
}

/** `boundary`: the bytes after a boundary, which decide whether another part follows. */
type Phase = "start" | "boundary" | "headers" | "content" | "epilogue" | "rejected";

const LINE_END = Buffer.from("\r\n");
const BLANK_LINE = Buffer.from("\r\n\r\n");

export class MultipartParser<Fault> {
  readonly #handler: MultipartHandler<Fault>;
  readonly #limits: MultipartLimits;
  /** `--` and the boundary. In a form, it stands only at the start of a line. */
  readonly #mark: Buffer;
  #phase: Phase = "start";
  #fault: Fault | MultipartFault | null = null;
  #partCount = 0;
  #partName = "";

  /** The bytes that are parsed, the offset of the first in the whole body, and the first that is not parsed yet. */
  #data: Buffer = LINE_END;
  #dataStart = -LINE_END.length;
  #at = 0;
  /** How many bytes after `#at` contain no blank line, so that a header block is searched once. */
  #searchedBytes = 0;

  /** Bytes that wait for the next chunk: a part of a header block, or a possible part of a boundary. */
  readonly #rest: Buffer;
  #restBytes: number;
  /** How many bytes of a chunk are joined with the rest at a time: enough to complete a boundary. */
  readonly #joinBytes: number;

  constructor(boundary: string, limits: MultipartLimits, handler: MultipartHandler<Fault>) {
    this.#handler = handler;
    this.#limits = limits;
    this.#mark = Buffer.from(`--${boundary}`, "latin1");
    this.#joinBytes = this.#mark.length + BLANK_LINE.length;
    this.#rest = Buffer.allocUnsafe(limits.headerBytesMax + BLANK_LINE.length + this.#joinBytes);
    // A boundary starts with a line break. The first one in a body has none, so one is inserted.
    this.#restBytes = LINE_END.copy(this.#rest);
  }

  /** Returns false once the form is rejected: reading on is useless. The chunk is not used after the call. */
  push(chunk: Uint8Array): boolean {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let from = 0;
    while (this.#restBytes > 0 && from < bytes.length && this.#phase !== "rejected") {
      from += this.#parseRest(bytes.subarray(from, from + this.#joinBytes));
    }
    if (from < bytes.length && this.#phase !== "rejected") {
      this.#parse(bytes.subarray(from));
      this.#restBytes = this.#data.copy(this.#rest, 0, this.#at);
    }
    // A view of the chunk would keep it in memory.
    this.#data = this.#rest;
    return this.#phase !== "rejected";
  }

  /** Returns null if the form is complete and was not rejected. */
  end(): Fault | MultipartFault | null {
    if (this.#phase !== "rejected" && (this.#phase !== "epilogue" || this.#restBytes === 1)) {
      this.#reject("truncated", "The form ends before its last boundary.");
    }
    return this.#fault;
  }

  /** Parses the rest joined with the start of a chunk. Returns how many bytes of the chunk are dealt with. */
  #parseRest(added: Buffer): number {
    const before = this.#restBytes;
    added.copy(this.#rest, before);
    const joinedBytes = before + added.length;
    this.#parse(this.#rest.subarray(0, joinedBytes));
    if (this.#at >= before) {
      this.#restBytes = 0;
      return this.#at - before;
    }
    this.#rest.copyWithin(0, this.#at, joinedBytes);
    this.#restBytes = joinedBytes - this.#at;
    return added.length;
  }

  /** Parses as far as possible; `#at` is the first byte that is needed again. */
  #parse(data: Buffer): void {
    this.#dataStart += this.#at;
    this.#data = data;
    this.#at = 0;
    while (this.#step()) {}
  }

  /** Returns false if it needs more bytes, or if the form is rejected. */
  #step(): boolean {
    switch (this.#phase) {
      case "start":
        return this.#readStart();
      case "boundary":
        return this.#readBoundaryEnd();
      case "headers":
        return this.#readHeaders();
      case "content":
        return this.#readContent();
      case "epilogue":
        if (LINE_END.indexOf(this.#data.subarray(this.#at)) === 0) return false;
        return this.#reject("malformed", "The form has extra content after its last boundary.");
      case "rejected":
        return false;
    }
  }

  #readStart(): boolean {
    const end = LINE_END.length + this.#mark.length;
    if (this.#data.length < end) return false;
    if (!this.#data.subarray(LINE_END.length, end).equals(this.#mark)) {
      return this.#reject("malformed", "The form does not start with its boundary.");
    }
    this.#at = end;
    this.#phase = "boundary";
    return true;
  }

  #readBoundaryEnd(): boolean {
    if (this.#data.length < this.#at + 2) return false;
    const next = this.#data.toString("latin1", this.#at, this.#at + 2);
    if (next !== "\r\n" && next !== "--") {
      return this.#reject("malformed", "A line of the form has extra characters after the boundary.");
    }
    this.#at += 2;
    this.#searchedBytes = 0;
    this.#phase = next === "--" ? "epilogue" : "headers";
    return true;
  }

  #readHeaders(): boolean {
    const { headerBytesMax } = this.#limits;
    const available = this.#data.subarray(this.#at, this.#at + headerBytesMax + BLANK_LINE.length);
    const headEnd = available.indexOf(BLANK_LINE, this.#searchedBytes);
    if (headEnd === -1) {
      this.#searchedBytes = Math.max(0, available.length - BLANK_LINE.length + 1);
      if (this.#searchedBytes <= headerBytesMax) return false;
      return this.#reject("headers_too_large", `A part's headers are longer than ${headerBytesMax} bytes.`);
    }
    const block = available.subarray(0, headEnd);
    const headers = block.includes(this.#mark) ? null : readPartHeaders(block.toString("utf8"));
    if (headers === null) {
      return this.#reject(
        "malformed",
        "The headers of a part are malformed, or do not have exactly one plain name.",
      );
    }
    this.#at += headEnd + BLANK_LINE.length;
    return this.#openPart(headers);
  }

  #openPart(headers: PartHeaders): boolean {
    const { partsMax } = this.#limits;
    if (++this.#partCount > partsMax) {
      return this.#reject("too_many_parts", `The form has more than ${partsMax} parts.`);
    }
    this.#partName = headers.name;
    this.#phase = "content";
    return this.#accept(this.#handler.startPart({ ...headers, start: this.#dataStart + this.#at }));
  }

  #readContent(): boolean {
    const markAt = this.#data.indexOf(this.#mark, this.#at);
    // The last bytes may be the start of a boundary: they wait for the next chunk.
    const end = (markAt === -1 ? this.#data.length + 1 - this.#mark.length : markAt) - LINE_END.length;
    if (markAt !== -1 && (end < this.#at || !this.#data.subarray(end, markAt).equals(LINE_END))) {
      const message = `\`${this.#partName}\` has the boundary inside its content.`;
      return this.#reject("malformed", message, this.#partName);
    }
    if (end > this.#at) {
      const content = this.#data.subarray(this.#at, end);
      this.#at = end;
      if (!this.#accept(this.#handler.addContent(content))) return false;
    }
    if (markAt === -1) return false;
    this.#at = markAt + this.#mark.length;
    this.#phase = "boundary";
    return this.#accept(this.#handler.endPart());
  }

  #accept(fault: Fault | null): boolean {
    if (fault === null) return true;
    this.#fault = fault;
    this.#phase = "rejected";
    return false;
  }

  #reject(reason: MultipartFault["reason"], message: string, param: string | null = null): false {
    this.#fault = { reason, message, param };
    this.#phase = "rejected";
    return false;
  }
}

type PartHeaders = Omit<MultipartPart, "start">;

const HEADER = /^([!#$%&'*+\-.^_`|~\w]+):[ \t]*(.*)$/s;
const PARAMETER = /;[ \t]*([!#$%&'*+\-.^_`|~\w]+)=(?:([!#$%&'*+\-.^_`|~\w]+)|"((?:[^"\\]|\\.)*)")[ \t]*/sy;
const CONTROL = /[^\P{Cc}\t]/u;

function readPartHeaders(block: string): PartHeaders | null {
  let disposition: string | null = null;
  let contentType: string | null = null;
  for (const line of block.split("\r\n")) {
    const [, name = "", value = ""] = HEADER.exec(line) ?? [];
    if (name === "" || CONTROL.test(line)) return null;
    switch (name.toLowerCase()) {
      case "content-disposition":
        if (disposition !== null) return null;
        disposition = value;
        break;
      case "content-type":
        contentType = value.trimEnd();
        break;
      case "content-transfer-encoding":
        // Other encodings would have to be decoded, and RFC 7578 deprecates them.
        if (!/^(?:7bit|8bit|binary)[ \t]*$/i.test(value)) return null;
    }
  }
  return disposition === null ? null : readDisposition(disposition, contentType);
}

function readDisposition(value: string, contentType: string | null): PartHeaders | null {
  const type = /^form-data[ \t]*/i.exec(value)?.[0];
  const parameters = type === undefined ? null : readParameters(value, type.length);
  const name = parameters?.get("name");
  // Parsers disagree on whether a backslash in a quoted name is an escape. The extended form is forbidden.
  if (!parameters || name === undefined || name.includes("\\") || parameters.has("name*")) return null;
  const filename = parameters.get("filename") ?? null;
  return { name, isFile: filename !== null || parameters.has("filename*"), filename, contentType };
}

/** Quoted values are as between their quotes. Null if text is left over or a parameter is repeated. */
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
