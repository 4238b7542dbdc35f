/**
 * `npm run test:release`: builds the release twice, compares the bytes, installs every artefact into an empty place and
 * sends a streamed request to it. Needs root (chroot, dpkg) and takes about ten minutes. Tests that need another program
 * (helm, podman, systemd-nspawn, qemu) are skipped without it, and name it. `--built` tests the release that is in
 * `dist/release`.
 */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fetchInputs } from "../../release/inputs.ts";
import { buildRelease } from "../../release/main.ts";
import { ROOT, readSource } from "../../release/source.ts";
import { RELEASE } from "./support.ts";

if (process.getuid?.() !== 0) throw new Error("These tests need root: they use chroot and dpkg.");
if (!Bun.argv.includes("--built")) {
  await fetchInputs(() => {});
  const source = readSource(process.env);
  await buildRelease(RELEASE, source);
  const again = mkdtempSync(join(tmpdir(), "model-gateway-release-again-"));
  try {
    console.log("── once more, to compare");
    await buildRelease(again, source);
    const [first, second] = [RELEASE, again].map((folder) =>
      readFileSync(join(folder, "SHA256SUMS"), "utf8"),
    );
    if (first !== second) throw new Error(`The two builds differ:\n${first}\n${second}`);
  } finally {
    rmSync(again, { recursive: true });
  }
}
const { exitCode } = Bun.spawnSync(
  [process.execPath, "test", "--timeout=300000", "./test/release/", "./release/"],
  {
    cwd: ROOT,
    stdout: "inherit",
    stderr: "inherit",
  },
);
process.exitCode = exitCode;
