import { afterAll, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  addMasterKey,
  dropOldMasterKeys,
  KeyringError,
  type KeyringErrorReason,
  openKeyring,
} from "./keyring.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-keyring-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
const freshFile = () => join(folder, String(++files), "master.key");
const open = (file: string) => openKeyring({ file, fromEnv: undefined });
const fromEnv = (text: string) => openKeyring({ file: freshFile(), fromEnv: text });
const createKey = (byte: number) => Buffer.alloc(32, byte).toString("base64");

function catchReason(attempt: () => unknown): KeyringErrorReason | null {
  try {
    attempt();
    return null;
  } catch (error) {
    if (error instanceof KeyringError) return error.reason;
    throw error;
  }
}

test("the first start creates a file that only its owner can read", () => {
  const file = freshFile();
  const keyring = open(file);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readFileSync(file, "utf8")).toMatch(/^[0-9a-f]{8}:[A-Za-z0-9+/]{43}=\n$/);
  expect(keyring.get(keyring.activeKid)).toHaveLength(32);
  expect(readdirSync(join(file, ".."))).toEqual(["master.key"]);
});

test("the second start reads the same key", () => {
  const file = freshFile();
  const first = open(file);
  const second = open(file);
  expect(second.activeKid).toBe(first.activeKid);
  expect(second.get(first.activeKid)).toEqual(first.get(first.activeKid));
});

test("a file readable by others is rejected, with the command that fixes it", () => {
  const file = freshFile();
  open(file);
  for (const mode of [0o640, 0o604, 0o660]) {
    chmodSync(file, mode);
    expect(catchReason(() => open(file))).toBe("permissions");
    expect(() => open(file)).toThrow(`chmod 600 ${file}`);
  }
});

test("a file without valid keys is rejected and not overwritten", () => {
  for (const content of [
    "",
    "hello\n",
    "kid:AAAA\n",
    `a b:${createKey(1)}\n`,
    `a:${createKey(1)}\na:${createKey(2)}\n`,
  ]) {
    const file = freshFile();
    open(file);
    writeFileSync(file, content);
    expect(catchReason(() => open(file))).toBe("malformed");
    expect(readFileSync(file, "utf8")).toBe(content);
  }
});

test("an added key becomes active, and the old one is kept", () => {
  const file = freshFile();
  const old = open(file);
  const oldKid = old.activeKid;
  const added = addMasterKey(file);
  const keyring = open(file);
  expect(keyring.activeKid).toBe(added);
  expect(keyring.get(oldKid)).not.toBeNull();
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

test("an open keyring sees a rotation: the new key by its id, and as the active key", () => {
  const file = freshFile();
  const running = open(file);
  const added = addMasterKey(file);
  expect(running.get(added)).toHaveLength(32);
  const again = addMasterKey(file);
  expect(running.activeKid).toBe(again);
});

test("an unknown key id returns null, even after reading the file again", () => {
  expect(open(freshFile()).get("nobody")).toBeNull();
});

test("dropping old keys keeps the active key only", () => {
  const file = freshFile();
  const oldKid = open(file).activeKid;
  const added = addMasterKey(file);
  expect(dropOldMasterKeys(file)).toBe(1);
  const keyring = open(file);
  expect(keyring.activeKid).toBe(added);
  expect(keyring.get(oldKid)).toBeNull();
});

test("a second concurrent rotation is rejected and leaves the file unchanged", () => {
  const file = freshFile();
  open(file);
  const before = readFileSync(file, "utf8");
  writeFileSync(`${file}.new`, "");
  expect(catchReason(() => addMasterKey(file))).toBe("busy");
  expect(readFileSync(file, "utf8")).toBe(before);
  rmSync(`${file}.new`);
  addMasterKey(file);
  expect(existsSync(`${file}.new`)).toBe(false);
});

test("the environment replaces the file, which is then not created", () => {
  const file = freshFile();
  const keyring = openKeyring({ file, fromEnv: `two:${createKey(2)},one:${createKey(1)}` });
  expect(keyring.activeKid).toBe("two");
  expect(keyring.get("one")).toEqual(new Uint8Array(32).fill(1));
  expect(keyring.get("three")).toBeNull();
  expect(existsSync(file)).toBe(false);
});

test("a bare key from the environment gets a stable id, different for each key", () => {
  const keyring = fromEnv(createKey(1));
  expect(keyring.get(keyring.activeKid)).toEqual(new Uint8Array(32).fill(1));
  expect(fromEnv(createKey(1)).activeKid).toBe(keyring.activeKid);
  expect(fromEnv(createKey(2)).activeKid).not.toBe(keyring.activeKid);
});

test("bare keys are rotated: the new one seals, the old one unseals, and the new one alone works later", () => {
  const old = fromEnv(createKey(1)).activeKid;
  const both = fromEnv(`${createKey(2)},${createKey(1)}`);
  expect(both.get(old)).toEqual(new Uint8Array(32).fill(1));
  expect(fromEnv(createKey(2)).activeKid).toBe(both.activeKid);
});

test("the content of a master key file is accepted from the environment", () => {
  const file = freshFile();
  const first = open(file).activeKid;
  const added = addMasterKey(file);
  const keyring = fromEnv(readFileSync(file, "utf8"));
  expect(keyring.activeKid).toBe(added);
  expect(keyring.get(first)).not.toBeNull();
});

test("an empty, short or mistyped key in the environment is rejected and not shown", () => {
  for (const wrong of [
    "",
    "AAAA",
    `${createKey(1).slice(0, 20)}!${createKey(1).slice(21)}`,
    `one:${createKey(1)},`.repeat(2),
    `${createKey(1)},${createKey(1)}`,
  ]) {
    expect(catchReason(() => fromEnv(wrong))).toBe("malformed");
    if (wrong !== "") expect(() => fromEnv(wrong)).not.toThrow(wrong);
  }
});
