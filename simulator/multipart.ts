/**
 * Reads a multipart body while it streams. Files are counted and never held in memory: 800 MB pass through a few
 * kilobytes.
 */

import { type MultipartHandler, MultipartParser, type MultipartPart } from "../src/net/wire/multipart.ts";

export interface UploadedFile {
  name: string;
  filename: string | null;
  contentType: string | null;
  bytes: number;
}

export interface MultipartForm {
  /** Text fields by name; the last one of a name counts. */
  texts: Map<string, string>;
  files: UploadedFile[];
}

const TEXT_BYTES_MAX = 256 * 1024;
const LIMITS = { partsMax: 256, headerBytesMax: 16 * 1024 };

export class MultipartReader {
  readonly #collector = new FormCollector();
  readonly #parser: MultipartParser<never>;

  constructor(boundary: string) {
    this.#parser = new MultipartParser<never>(boundary, LIMITS, this.#collector);
  }

  push(chunk: Uint8Array): void {
    this.#parser.push(chunk);
  }

  /** Returns null for a malformed body. */
  end(): MultipartForm | null {
    const { texts, files } = this.#collector;
    return this.#parser.end() === null ? { texts, files } : null;
  }
}

class FormCollector implements MultipartHandler<never> {
  readonly texts = new Map<string, string>();
  readonly files: UploadedFile[] = [];
  #part: UploadedFile & { isFile: boolean } = {
    name: "",
    filename: null,
    contentType: null,
    bytes: 0,
    isFile: false,
  };
  #text: Uint8Array[] = [];

  startPart({ name, isFile, filename, contentType }: MultipartPart): null {
    this.#part = { name, isFile, filename, contentType, bytes: 0 };
    this.#text = [];
    return null;
  }

  addContent(bytes: Uint8Array): null {
    this.#part.bytes += bytes.length;
    if (!this.#part.isFile && this.#part.bytes <= TEXT_BYTES_MAX) this.#text.push(Uint8Array.from(bytes));
    return null;
  }

  endPart(): null {
    const { isFile, ...file } = this.#part;
    if (isFile) this.files.push(file);
    else this.texts.set(file.name, Buffer.concat(this.#text).toString());
    return null;
  }
}
