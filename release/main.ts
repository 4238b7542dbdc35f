/**
 * `npm run release`: builds every artefact into `dist/release`, offline. The same commit gives the same bytes.
 * `npm run release:fetch` downloads the inputs once.
 */

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzip } from "./archive/compress.ts";
import { writeTar } from "./archive/tar.ts";
import { buildChart } from "./chart/package.ts";
import { buildDebianPackage } from "./deb/debian.ts";
import { sha256 } from "./digest.ts";
import { buildExecutable } from "./executable.ts";
import { buildImage } from "./image/image.ts";
import { LIBC } from "./inputs.ts";
import { readLock } from "./lock-file.ts";
import { buildNpmPackage } from "./npm-package.ts";
import { buildSbom, listSbomPackages } from "./sbom.ts";
import { type ReleaseSource, ROOT, readSource, readText } from "./source.ts";
import { DEBIAN_ARCHITECTURES, TARGETS, type Target } from "./targets.ts";

const IMAGE_BYTES_MAX = 60_000_000;

/** Writes artefacts into one folder and remembers their digests. */
class ReleaseFolder {
  readonly #folder: string;
  readonly #sums = new Map<string, string>();

  constructor(folder: string) {
    this.#folder = folder;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }

  write(name: string, content: Uint8Array): void {
    writeFileSync(join(this.#folder, name), content);
    this.#sums.set(name, sha256(content));
    console.log(`${name}  ${(content.length / 1e6).toFixed(1)} MB`);
  }

  /** In the format of `sha256sum --check`. */
  writeChecksums(): void {
    const lines = [...this.#sums].toSorted().map(([name, sum]) => `${sum}  ${name}\n`);
    writeFileSync(join(this.#folder, "SHA256SUMS"), lines.join(""));
  }
}

export async function buildRelease(folder: string, source: ReleaseSource): Promise<void> {
  const release = new ReleaseFolder(folder);
  buildPages();
  const { version } = source;
  release.write(`model-gateway-${version}.tgz`, buildNpmPackage(source));
  for (const target of TARGETS) await writeExecutable(target, release, source);
  const images = [];
  for (const target of TARGETS.filter(({ libc }) => libc === "glibc"))
    images.push({ target, executable: await buildExecutable(target, { isPrecompiled: false }) });
  const { archive, layerBytes } = buildImage(images, source);
  for (const [architecture, bytes] of Object.entries(layerBytes)) {
    if (bytes > IMAGE_BYTES_MAX)
      throw new Error(`The image for ${architecture} has ${bytes} bytes, which is too large.`);
    console.log(`image for ${architecture}: ${(bytes / 1e6).toFixed(1)} MB to download`);
  }
  release.write(`model-gateway-${version}-image.tar`, archive);
  release.write(`model-gateway-${version}-chart.tgz`, buildChart(source));
  const sbom = buildSbom(source, listSbomPackages(readLock().packages), LIBC.version);
  release.write(`model-gateway-${version}-sbom.json`, Buffer.from(`${JSON.stringify(sbom, null, 2)}\n`));
  release.writeChecksums();
}

async function writeExecutable(target: Target, release: ReleaseFolder, source: ReleaseSource): Promise<void> {
  const { version, timeSeconds } = source;
  const executable = await buildExecutable(target, { isPrecompiled: true });
  const name = `model-gateway-${version}-${target.name}`;
  const files = [
    { kind: "file", path: "model-gateway", mode: 0o755, content: executable },
    ...["LICENSE", "README.md", "CHANGELOG.md"].map(
      (path) => ({ kind: "file", path, mode: 0o644, content: Buffer.from(readText(path)) }) as const,
    ),
  ] as const;
  release.write(`${name}.tar.gz`, gzip(writeTar(files, { timeSeconds, prefix: `${name}/` })));
  if (target.libc !== "glibc") return;
  const debian = `model-gateway_${version}_${DEBIAN_ARCHITECTURES[target.architecture]}.deb`;
  release.write(debian, await buildDebianPackage(target, executable, source));
}

/** In a separate process: it is the command of developers, too. */
function buildPages(): void {
  const { exitCode } = Bun.spawnSync([process.execPath, "console/build.ts"], {
    cwd: ROOT,
    stdout: "ignore",
    stderr: "inherit",
  });
  if (exitCode !== 0) throw new Error("The pages were not built.");
}

if (import.meta.main) {
  await buildRelease(join(ROOT, "dist", "release"), readSource(process.env));
}
