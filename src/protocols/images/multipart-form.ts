/**
 * Scans an image edit that is sent as a multipart form: finds the wanted text fields and their byte positions, and
 * counts the files, with at most one field in memory.
 */

import { foldCase } from "../../json/name.ts";
import {
  type MultipartFault,
  type MultipartHandler,
  type MultipartLimits,
  MultipartParser,
  type MultipartPart,
} from "../../net/wire/multipart.ts";

export interface FormLimits extends MultipartLimits {
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

export type MultipartResult = { ok: true; form: MultipartForm } | { ok: false; fault: FormFault };

export interface MultipartForm {
  fields: ReadonlyMap<string, MultipartField>;
  files: readonly MultipartFile[];
}

interface MultipartField {
  value: string;
  /** The byte range of the value in the whole body. */
  start: number;
  end: number;
}

interface MultipartFile {
  name: string;
  bytes: number;
}

export interface FormFault {
  reason: FormFaultReason;
  /** A sentence for the client. */
  message: string;
  param: string | null;
}

type FormFaultReason =
  | MultipartFault["reason"]
  | "repeated_field"
  | "case_variant"
  | "field_too_large"
  | "file_too_large"
  | "too_many_files"
  | "not_text";

interface OpenPart {
  name: string;
  isFile: boolean;
  start: number;
  bytes: number;
  /** The value of a wanted field so far; null for other parts. */
  value: Uint8Array[] | null;
  watcher: PartWatcher | null;
}

const VALUE_PIECES_MAX = 256;

export class MultipartFormScanner {
  readonly #collector: FormCollector;
  readonly #parser: MultipartParser<FormFault>;

  constructor(boundary: string, limits: FormLimits) {
    this.#collector = new FormCollector(limits);
    this.#parser = new MultipartParser(boundary, limits, this.#collector);
  }

  /** Returns false once the form is rejected: reading on is useless. The chunk is not used after the call. */
  push(chunk: Uint8Array): boolean {
    return this.#parser.push(chunk);
  }

  end(): MultipartResult {
    const fault = this.#parser.end();
    const { fields, files } = this.#collector;
    return fault === null ? { ok: true, form: { fields, files } } : { ok: false, fault };
  }
}

/** Applies the limits of a form to its parts, and collects the fields and files that they are. */
class FormCollector implements MultipartHandler<FormFault> {
  readonly fields = new Map<string, MultipartField>();
  readonly files: MultipartFile[] = [];
  readonly #limits: FormLimits;
  readonly #wantedByFold: ReadonlyMap<string, string>;
  readonly #filesByName = new Map<string, number>();
  #part: OpenPart | null = null;

  constructor(limits: FormLimits) {
    this.#limits = limits;
    this.#wantedByFold = new Map(limits.wanted.map((name) => [foldCase(name), name]));
  }

  startPart({ name, isFile, start }: MultipartPart): FormFault | null {
    const isWanted = this.#limits.wanted.includes(name);
    const fault =
      (isWanted ? this.#checkWanted(name, isFile) : this.#checkCase(name)) ??
      (isFile ? this.#countFile(name) : null);
    if (fault !== null) return fault;
    const watcher = this.#limits.watch?.(name) ?? null;
    this.#part = { name, isFile, start, bytes: 0, value: isWanted ? [] : null, watcher };
    return null;
  }

  addContent(content: Uint8Array): FormFault | null {
    const part = this.#part;
    if (part === null) return null;
    part.bytes += content.length;
    part.watcher?.add(content);
    const { fileBytesMax, fieldBytesMax } = this.#limits;
    const bytesMax = part.isFile ? fileBytesMax : fieldBytesMax;
    if (part.bytes > bytesMax) {
      const reason = part.isFile ? "file_too_large" : "field_too_large";
      return { reason, message: `\`${part.name}\` is larger than ${bytesMax} bytes.`, param: part.name };
    }
    if (part.value !== null) {
      // Joined from time to time: a value sent byte by byte must not become one object per byte.
      if (part.value.length === VALUE_PIECES_MAX) part.value = [Buffer.concat(part.value)];
      part.value.push(Uint8Array.from(content));
    }
    return null;
  }

  endPart(): FormFault | null {
    const part = this.#part;
    if (part === null) return null;
    const { name, start, bytes } = part;
    part.watcher?.end();
    if (part.isFile) this.files.push({ name, bytes });
    if (part.value === null) return null;
    const value = decodeText(part.value);
    if (value === null)
      return { reason: "not_text", message: `\`${name}\` is not valid UTF-8.`, param: name };
    this.fields.set(name, { value, start, end: start + bytes });
    return null;
  }

  #checkWanted(name: string, isFile: boolean): FormFault | null {
    if (isFile) {
      return { reason: "malformed", message: `\`${name}\` must be a text field, not a file.`, param: name };
    }
    if (this.fields.has(name)) {
      return { reason: "repeated_field", message: `\`${name}\` appears more than once.`, param: name };
    }
    return null;
  }

  #checkCase(name: string): FormFault | null {
    const variant = this.#wantedByFold.get(foldCase(name));
    if (variant === undefined) return null;
    return {
      reason: "case_variant",
      message: `A field differs from \`${variant}\` only in upper and lower case. Write the name exactly, or remove the field.`,
      param: variant,
    };
  }

  #countFile(name: string): FormFault | null {
    const { filesMax } = this.#limits;
    const family = name.replace(/\[[^[\]]*\]$/, "");
    const count = (this.#filesByName.get(family) ?? 0) + 1;
    this.#filesByName.set(family, count);
    if (count <= filesMax) return null;
    return {
      reason: "too_many_files",
      message: `\`${family}\` has more than ${filesMax} files.`,
      param: family,
    };
  }
}

function decodeText(chunks: readonly Uint8Array[]): string | null {
  try {
    // A byte order mark is kept: the upstream sees it too.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch {
    return null;
  }
}
