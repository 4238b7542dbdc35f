/** Packs the Helm chart, with the version of the release. */

import { gzip } from "../archive/compress.ts";
import { type TarEntry, writeTar } from "../archive/tar.ts";
import { listFiles, type ReleaseSource, readText } from "../source.ts";
import { CHART } from "./files.ts";

export function buildChart({ version, timeSeconds }: ReleaseSource): Buffer {
  const entries = listFiles(CHART).map((path): TarEntry => {
    const name = path.slice(CHART.length + 1);
    const text = readText(path);
    const content = Buffer.from(name === "Chart.yaml" ? setVersion(text, version) : text);
    return { kind: "file", path: name, mode: 0o644, content };
  });
  return gzip(writeTar(entries, { timeSeconds, prefix: "model-gateway/" }));
}

/** The chart has the version of the program, so that one number names both. */
export function setVersion(chart: string, version: string): string {
  return chart
    .replace(/^version: .*$/m, `version: ${version}`)
    .replace(/^appVersion: .*$/m, `appVersion: "${version}"`);
}
