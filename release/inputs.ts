/**
 * What a release needs besides this repository: the runtime of each platform and the C library of the image.
 * `npm run release:fetch` downloads them once into `dist/inputs`. Each is checked against a digest in this repository,
 * at download and at each use, so a release is built offline and cannot contain anything else.
 */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { readAr } from "./archive/ar.ts";
import { decompressXz } from "./archive/compress.ts";
import { findFile, readTar, type TarEntry } from "./archive/tar.ts";
import { integrity, sha256 } from "./digest.ts";
import { readLock } from "./lock-file.ts";
import { ROOT } from "./source.ts";
import { DEBIAN_ARCHITECTURES, TARGETS, type Target } from "./targets.ts";

const FOLDER = join(ROOT, "dist", "inputs");

/**
 * Debian's C library, for the image alone. To take a newer one: change the version and both digests (they are in the
 * package index of the Debian mirror), fetch, and run `npm run test:release`.
 */
export const LIBC = {
  version: "2.36-9+deb12u14",
  sha256: {
    amd64: "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
    arm64: "01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4",
  },
};

interface InputFile {
  readonly name: string;
  readonly url: string;
  isIntact(bytes: Uint8Array): boolean;
}

function describeRuntime({ runtimePackage }: Target): InputFile {
  const locked = readLock().packages.get(`node_modules/${runtimePackage}`);
  if (locked === undefined) throw new Error(`package-lock.json has no ${runtimePackage}.`);
  const file = `${basename(runtimePackage)}-${locked.version}.tgz`;
  const registry = process.env.npm_config_registry ?? "https://registry.npmjs.org/";
  return {
    name: file,
    url: `${registry.replace(/\/$/, "")}/${runtimePackage}/-/${file}`,
    isIntact: (bytes) => integrity(bytes) === locked.integrity,
  };
}

function describeLibc({ architecture }: Target): InputFile {
  const debian = DEBIAN_ARCHITECTURES[architecture];
  const name = `libc6_${LIBC.version}_${debian}.deb`;
  return {
    name,
    url: `https://deb.debian.org/debian/pool/main/g/glibc/${name}`,
    isIntact: (bytes) => sha256(bytes) === LIBC.sha256[debian],
  };
}

export function listInputs(): InputFile[] {
  const withImage = TARGETS.filter(({ libc }) => libc === "glibc");
  return [...TARGETS.map(describeRuntime), ...withImage.map(describeLibc)];
}

export async function fetchInputs(print: (line: string) => void): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  for (const input of listInputs()) {
    const path = join(FOLDER, input.name);
    if (existsSync(path) && input.isIntact(readFileSync(path))) {
      print(`${input.name}: present`);
      continue;
    }
    const response = await fetch(input.url);
    if (!response.ok) throw new Error(`${input.url} answered ${response.status}.`);
    const bytes = await response.bytes();
    if (!input.isIntact(bytes)) throw new Error(`${input.url} has another content than expected.`);
    writeFileSync(path, bytes);
    print(`${input.name}: ${(bytes.length / 1e6).toFixed(1)} MB`);
  }
}

function readInput(input: InputFile): Buffer {
  const path = join(FOLDER, input.name);
  if (!existsSync(path)) throw new Error(`${input.name} is missing. Run: npm run release:fetch`);
  const bytes = readFileSync(path);
  if (!input.isIntact(bytes)) throw new Error(`${path} is damaged. Delete it and run: npm run release:fetch`);
  return bytes;
}

/** The executable of the runtime for a platform. */
export function readRuntime(target: Target): Uint8Array {
  return findFile(readTar(gunzipSync(readInput(describeRuntime(target)))), "package/bin/bun");
}

/** The files of Debian's C library, and the fields of its package. */
export function readLibc(target: Target): { files: readonly TarEntry[]; control: Uint8Array } {
  const members = readAr(readInput(describeLibc(target)));
  const unpack = (name: string) => {
    const member = members.find((one) => one.name === `${name}.tar.xz`);
    if (member === undefined) throw new Error(`The package of the C library has no ${name}.`);
    return readTar(decompressXz(member.content));
  };
  return { files: unpack("data"), control: findFile(unpack("control"), "control") };
}
