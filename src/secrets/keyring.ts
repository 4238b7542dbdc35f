/**
 * The master keys. They are stored outside the database, so that a stolen dump reveals no secret. One key per line,
 * `kid:base64(32 bytes)`: the first one seals, all of them unseal.
 */

import { createHash, randomBytes as cryptoRandomBytes, hkdfSync } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { hasErrorCode } from "../base/error-code.ts";
import { openPrivateFile } from "../base/private-file.ts";

const KEY_BYTES = 32;
const KID = /^[A-Za-z0-9-]{1,32}$/;

export type RandomBytes = (count: number) => Uint8Array;

export interface Keyring {
  /** The id of the key that seals. Read at every use: a key rotation may have happened while the server runs. */
  readonly activeKid: string;
  get(kid: string): Uint8Array | null;
}

interface KeyringOptions {
  file: string;
  /** MODEL_GATEWAY_MASTER_KEY: `kid:base64` pairs or bare keys. It replaces the file. */
  fromEnv: string | undefined;
  randomBytes?: RandomBytes;
}

export type KeyringErrorReason = "malformed" | "permissions" | "busy";

export class KeyringError extends Error {
  override readonly name = "KeyringError";
  readonly reason: KeyringErrorReason;
  constructor(reason: KeyringErrorReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

interface MasterKey {
  kid: string;
  bytes: Uint8Array;
}

type MasterKeys = readonly [MasterKey, ...MasterKey[]];

export function openKeyring(options: KeyringOptions): Keyring {
  if (options.fromEnv !== undefined) return createFixedKeyring(parseEnv(options.fromEnv));
  if (!existsSync(options.file)) createFile(options.file, options.randomBytes ?? cryptoRandomBytes);
  return createFileKeyring(options.file);
}

/** A keyring with one key that is never stored, for temporary data. */
export function openTemporaryKeyring(randomBytes: RandomBytes = cryptoRandomBytes): Keyring {
  return createFixedKeyring([createKey(randomBytes)]);
}

/**
 * A keyring for content that is too large to be sealed again when the master key is rotated. Its key is derived from the
 * pepper, which never changes and is itself sealed with the master key.
 */
export function deriveContentKeyring(pepper: Uint8Array): Keyring {
  const key = hkdfSync("sha256", pepper, "", "model-gateway content v1", KEY_BYTES);
  return createFixedKeyring([{ kid: "content", bytes: new Uint8Array(key) }]);
}

/** Prepends a new key, which seals from now on. Returns its id. */
export function addMasterKey(file: string, randomBytes: RandomBytes = cryptoRandomBytes): string {
  const added = createKey(randomBytes);
  rewriteFile(file, (keys) => [added, ...keys]);
  return added.kid;
}

/** Call it only after all secrets have been sealed again: values sealed by a dropped key cannot be unsealed. */
export function dropOldMasterKeys(file: string): number {
  let dropped = 0;
  rewriteFile(file, ([active, ...old]) => {
    dropped = old.length;
    return [active];
  });
  return dropped;
}

function createFixedKeyring(keys: MasterKeys): Keyring {
  return { activeKid: keys[0].kid, get: (kid) => findKey(keys, kid) };
}

function createFileKeyring(file: string): Keyring {
  let stamp = fileStamp(file);
  let keys = readKeys(file);

  function reload(): void {
    const current = fileStamp(file);
    if (current === stamp) return;
    keys = readKeys(file);
    stamp = current;
  }

  return {
    get activeKid() {
      reload();
      return keys[0].kid;
    },
    get(kid) {
      const loaded = findKey(keys, kid);
      if (loaded !== null) return loaded;
      reload();
      return findKey(keys, kid);
    },
  };
}

function findKey(keys: MasterKeys, kid: string): Uint8Array | null {
  return keys.find((key) => key.kid === kid)?.bytes ?? null;
}

/** A rewritten file has a new inode, so two rewrites within one clock tick still differ. */
function fileStamp(file: string): string {
  const { ino, mtimeMs, size } = statSync(file);
  return `${ino}:${mtimeMs}:${size}`;
}

function readKeys(file: string): MasterKeys {
  const mode = statSync(file).mode & 0o777;
  if (process.platform !== "win32" && (mode & 0o077) !== 0) {
    throw new KeyringError(
      "permissions",
      `${file} is readable by other users (mode 0${mode.toString(8)}). Run: chmod 600 ${file}`,
    );
  }
  return parseLines(readFileSync(file, "utf8").split("\n"), file);
}

/** Lines as in the file, or bare keys. Commas separate them too. */
function parseEnv(text: string): MasterKeys {
  const source = "MODEL_GATEWAY_MASTER_KEY";
  return parseLines(text.split(/[,\n]/), source, (line) =>
    line.includes(":") ? parseLine(line, source) : parseBareKey(line, source),
  );
}

function parseBareKey(line: string, source: string): MasterKey {
  const bytes = decodeKey(line, source);
  const kid = createHash("sha256").update("kid").update(bytes).digest("hex").slice(0, 8);
  return { kid, bytes };
}

function parseLines(
  lines: readonly string[],
  source: string,
  parse: (line: string, source: string) => MasterKey = parseLine,
): MasterKeys {
  const keys = lines
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .map((line) => parse(line, source));
  const [active, ...old] = keys;
  if (active === undefined) throw new KeyringError("malformed", `${source} contains no master key.`);
  if (new Set(keys.map((key) => key.kid)).size !== keys.length) {
    throw new KeyringError("malformed", `${source} contains a key id twice.`);
  }
  return [active, ...old];
}

function parseLine(line: string, source: string): MasterKey {
  const colon = line.indexOf(":");
  const kid = line.slice(0, colon);
  if (colon < 0 || !KID.test(kid)) {
    throw new KeyringError(
      "malformed",
      `${source} must contain lines of the form <key id>:<base64 of 32 bytes>.`,
    );
  }
  return { kid, bytes: decodeKey(line.slice(colon + 1), source) };
}

function decodeKey(text: string, source: string): Uint8Array {
  const bytes = Buffer.from(text, "base64");
  // Buffer skips characters that are not base64. A mistyped key must not be accepted as another key.
  const canonical = bytes.toString("base64").replace(/=+$/, "");
  if (bytes.length !== KEY_BYTES || canonical !== text.replace(/=+$/, "")) {
    throw new KeyringError(
      "malformed",
      `${source} must contain master keys of ${KEY_BYTES} bytes in base64.`,
    );
  }
  return new Uint8Array(bytes);
}

function createKey(randomBytes: RandomBytes): MasterKey {
  return { kid: Buffer.from(randomBytes(4)).toString("hex"), bytes: randomBytes(KEY_BYTES) };
}

function createFile(file: string, randomBytes: RandomBytes): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${Buffer.from(randomBytes(4)).toString("hex")}`;
  const handle = openPrivateFile(draft, "wx");
  try {
    writeKeys(handle, [createKey(randomBytes)]);
    // A link, unlike a rename, never replaces a key that another starting process has just created.
    linkSync(draft, file);
  } catch (error) {
    if (!hasErrorCode(error, "EEXIST")) throw error;
  } finally {
    closeSync(handle);
    rmSync(draft, { force: true });
  }
}

/** The draft is also the lock: of two rotations one would lose the key that the other seals with. */
function rewriteFile(file: string, change: (keys: MasterKeys) => MasterKeys): void {
  const draft = `${file}.new`;
  const handle = openDraft(draft);
  try {
    writeKeys(handle, change(readKeys(file)));
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  } finally {
    closeSync(handle);
  }
}

function openDraft(draft: string): number {
  try {
    return openPrivateFile(draft, "wx");
  } catch (error) {
    if (!hasErrorCode(error, "EEXIST")) throw error;
    throw new KeyringError(
      "busy",
      `Another rotation is in progress. If that is not the case, delete ${draft}.`,
    );
  }
}

function writeKeys(handle: number, keys: readonly MasterKey[]): void {
  const lines = keys.map((key) => `${key.kid}:${Buffer.from(key.bytes).toString("base64")}\n`);
  writeSync(handle, lines.join(""));
  fsyncSync(handle);
}
