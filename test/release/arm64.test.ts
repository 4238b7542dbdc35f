/**
 * The programs for arm64, emulated on another processor in the root file system of their image, which has the C library
 * that they need. Takes a minute. Needs qemu-aarch64-static (`apt-get install qemu-user-static`).
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { artefact, emptyFolder, run, VERSION } from "./support.ts";

const qemu = Bun.which("qemu-aarch64-static");
const folder = emptyFolder();
const root = join(folder, "root");

/** `program`: its path in the root file system. */
function emulate(program: string): string {
  const enter = [
    `mount -t proc proc ${root}/proc`,
    `mount --rbind /dev ${root}/dev`,
    `mount -t tmpfs -o mode=1777 none ${root}/tmp`,
    `exec /usr/sbin/chroot ${root} /usr/bin/qemu-aarch64-static ${program} selftest`,
  ].join("\n");
  return run(["unshare", "--mount", "sh", "-ec", enter]);
}

describe.skipIf(qemu === null)("on arm64 (needs qemu-aarch64-static)", () => {
  beforeAll(() => {
    run(["tar", "xf", artefact("-image.tar"), "-C", folder]);
    const images = z
      .array(z.object({ RepoTags: z.array(z.string()), Layers: z.array(z.string()) }))
      .parse(JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")));
    const layer = images.find(({ RepoTags }) => RepoTags.some((tag) => tag.endsWith("-arm64")))?.Layers[0];
    mkdirSync(root);
    run(["tar", "xzf", join(folder, layer ?? ""), "-C", root]);
    for (const name of ["proc", "dev"]) mkdirSync(join(root, name));
    copyFileSync(qemu ?? "", join(root, "usr/bin/qemu-aarch64-static"));
    run(["tar", "xzf", artefact("-linux-arm64.tar.gz"), "-C", root]);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each([
    ["image", "/usr/bin/model-gateway"],
    ["executable", `/model-gateway-${VERSION}-linux-arm64/model-gateway`],
  ])("the program of the %s passes its selftest", (_, program) => {
    const out = emulate(program);
    expect(out).not.toContain("✗");
    expect(out.split("\n").filter((line) => line.startsWith("✓")).length).toBeGreaterThanOrEqual(9);
  });
});
