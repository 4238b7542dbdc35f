/**
 * Writes and reads tar archives (ustar). An archive depends on nothing but its entries: they are sorted, and every entry
 * has the same time, so that equal contents give equal bytes.
 */

export type TarEntry = {
  /** Relative, without a leading slash. */
  readonly path: string;
  readonly mode: number;
  /** Numeric owner and group; root by default. */
  readonly owner?: number;
} & (
  | { readonly kind: "file"; readonly content: Uint8Array }
  | { readonly kind: "folder" }
  | { readonly kind: "link"; readonly target: string }
);

export interface TarOptions {
  /** The time of every entry, in seconds since 1970. */
  readonly timeSeconds: number;
  /** What paths begin with, such as `./` or `package/`. */
  readonly prefix?: string;
}

const BLOCK_BYTES = 512;
/** The end of an archive: two empty blocks, filled up to a record, as other programs write it. */
const RECORD_BYTES = 20 * BLOCK_BYTES;
const TYPE_FLAGS = { file: "0", link: "2", folder: "5" } as const;

export function writeTar(entries: readonly TarEntry[], { timeSeconds, prefix = "" }: TarOptions): Buffer {
  const sorted = entries.toSorted((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  const duplicate = sorted.find(({ path }, index) => path === sorted[index + 1]?.path);
  if (duplicate !== undefined) throw new Error(`The archive would have ${duplicate.path} twice.`);
  const parts = sorted.flatMap((entry) => {
    const path = `${prefix}${entry.path}${entry.kind === "folder" ? "/" : ""}`;
    const header = encodeHeader(entry, path, timeSeconds);
    if (entry.kind !== "file") return [header];
    return [header, entry.content, Buffer.alloc(padding(entry.content.length, BLOCK_BYTES))];
  });
  const bytes = parts.reduce((sum, { length }) => sum + length, 0) + 2 * BLOCK_BYTES;
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK_BYTES + padding(bytes, RECORD_BYTES))]);
}

function padding(bytes: number, unit: number): number {
  return (unit - (bytes % unit)) % unit;
}

function encodeHeader(entry: TarEntry, path: string, timeSeconds: number): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES);
  const { name, prefix } = splitPath(path);
  const owner = entry.owner ?? 0;
  header.write(name, 0);
  header.write(octal(entry.mode, 7), 100);
  header.write(octal(owner, 7), 108);
  header.write(octal(owner, 7), 116);
  header.write(octal(entry.kind === "file" ? entry.content.length : 0, 11), 124);
  header.write(octal(timeSeconds, 11), 136);
  header.write(" ".repeat(8), 148);
  header.write(TYPE_FLAGS[entry.kind], 156);
  if (entry.kind === "link") {
    if (Buffer.byteLength(entry.target) > 100) throw new Error(`The target of ${path} is too long for tar.`);
    header.write(entry.target, 157);
  }
  header.write("ustar\0" + "00", 257);
  header.write(prefix, 345);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${octal(sum, 6)}\0 `, 148);
  return header;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, "0");
}

/** ustar has 100 bytes for the name and 155 for the folders before it. */
function splitPath(path: string): { name: string; prefix: string } {
  if (Buffer.byteLength(path) <= 100) return { name: path, prefix: "" };
  for (let slash = path.indexOf("/"); slash !== -1; slash = path.indexOf("/", slash + 1)) {
    const prefix = path.slice(0, slash);
    const name = path.slice(slash + 1);
    if (name !== "" && Buffer.byteLength(name) <= 100 && Buffer.byteLength(prefix) <= 155)
      return { name, prefix };
  }
  throw new Error(`The path ${path} is too long for tar.`);
}

/** Adds the folders that the entries are in and that are not among them. */
export function addFolders(entries: readonly TarEntry[]): TarEntry[] {
  const folders = new Set(entries.flatMap(({ path }) => listParents(path)));
  for (const { path } of entries) folders.delete(path);
  return [...entries, ...[...folders].map((path): TarEntry => ({ kind: "folder", path, mode: 0o755 }))];
}

/** `usr/share/doc` → `usr`, `usr/share`. */
function listParents(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

/** Reads an archive that another program wrote. Kinds of entries other than files, folders and links are skipped. */
export function readTar(bytes: Buffer): TarEntry[] {
  const entries: TarEntry[] = [];
  let longPath: string | null = null;
  for (let at = 0; at + BLOCK_BYTES <= bytes.length; ) {
    const header = bytes.subarray(at, at + BLOCK_BYTES);
    if (header[0] === 0) break;
    const size = Number.parseInt(text(header, 124, 12), 8) || 0;
    const content = bytes.subarray(at + BLOCK_BYTES, at + BLOCK_BYTES + size);
    at += BLOCK_BYTES + size + padding(size, BLOCK_BYTES);
    const flag = text(header, 156, 1);
    // GNU tar writes a path that is too long as a separate entry.
    if (flag === "L") {
      longPath = text(content, 0, content.length);
      continue;
    }
    const folders = text(header, 257, 5) === "ustar" ? text(header, 345, 155) : "";
    const name = longPath ?? (folders === "" ? text(header, 0, 100) : `${folders}/${text(header, 0, 100)}`);
    longPath = null;
    const path = name.replace(/^(?:\.?\/)+/, "").replace(/\/$/, "");
    const base = { path, mode: Number.parseInt(text(header, 100, 8), 8) & 0o7777 };
    if (path === "" || path === ".") continue;
    if (flag === "0" || flag === "") entries.push({ ...base, kind: "file", content });
    else if (flag === "5") entries.push({ ...base, kind: "folder" });
    else if (flag === "2") entries.push({ ...base, kind: "link", target: text(header, 157, 100) });
  }
  return entries;
}

function text(bytes: Buffer, start: number, length: number): string {
  const field = bytes.subarray(start, start + length);
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end === -1 ? length : end).trimEnd();
}

/** The file with this path. Throws if the archive has none. */
export function findFile(entries: readonly TarEntry[], path: string): Uint8Array {
  const entry = entries.find((one) => one.path === path);
  if (entry?.kind === "link") return findFile(entries, resolveLink(path, entry.target));
  if (entry?.kind !== "file") throw new Error(`The archive has no file ${path}.`);
  return entry.content;
}

function resolveLink(path: string, target: string): string {
  if (target.startsWith("/")) return target.slice(1);
  return [...path.split("/").slice(0, -1), target].join("/");
}
