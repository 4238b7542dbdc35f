/** The list of everything in a release (CycloneDX 1.6): the runtime, the packages, and the C library of the image. */

import { listShipped } from "./npm-package.ts";
import type { ReleaseSource } from "./source.ts";

/** Packages that are compiled into the pages. They are development packages, because no user installs them. */
const IN_PAGES = new Set([
  "react",
  "react-dom",
  "scheduler",
  "wouter",
  "regexparam",
  "mitt",
  "use-sync-external-store",
  "@tanstack/react-query",
  "@tanstack/query-core",
  "eventsource-parser",
  "minisearch",
  "uqr",
  "style-mod",
]);
const IN_PAGES_SCOPES = ["@codemirror/", "@lezer/", "@marijn/"];

export function buildSbom(
  { version, timeSeconds, commit }: ReleaseSource,
  packages: ReadonlyMap<string, SbomPackage>,
  libcVersion: string,
) {
  const components = [...packages].map(([name, locked]) => describePackage(name, locked));
  const libc = {
    type: "library",
    "bom-ref": `pkg:deb/debian/libc6@${libcVersion}`,
    name: "libc6",
    version: libcVersion,
    purl: `pkg:deb/debian/libc6@${encodeURIComponent(libcVersion)}?distro=debian-12`,
    licenses: [{ license: { id: "LGPL-2.1-or-later" } }],
    properties: [{ name: "model-gateway:part-of", value: "image" }],
  };
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      timestamp: new Date(timeSeconds * 1_000).toISOString(),
      component: {
        type: "application",
        "bom-ref": `pkg:npm/model-gateway@${version}`,
        name: "model-gateway",
        version,
        purl: `pkg:npm/model-gateway@${version}`,
        licenses: [{ license: { id: "MIT" } }],
        ...(commit === null ? {} : { properties: [{ name: "model-gateway:commit", value: commit }] }),
      },
    },
    components: [...components, libc],
    dependencies: [
      {
        ref: `pkg:npm/model-gateway@${version}`,
        dependsOn: [...components, libc].map((component) => component["bom-ref"]),
      },
    ],
  };
}

export interface SbomPackage {
  readonly version: string;
  readonly integrity?: string | undefined;
  readonly license?: string | undefined;
}

/** What is shipped, by name: installed with the package, or compiled into the pages. */
export function listSbomPackages(
  locked: ReadonlyMap<string, SbomPackage & { dev?: boolean | undefined }>,
): Map<string, SbomPackage> {
  const name = (folder: string) => folder.replace(/^.*node_modules\//, "");
  const inPages = [...locked].filter(
    ([folder]) =>
      IN_PAGES.has(name(folder)) || IN_PAGES_SCOPES.some((scope) => name(folder).startsWith(scope)),
  );
  return new Map(
    [...listShipped(), ...inPages].map(([folder, one]) => [name(folder), one] as const).toSorted(),
  );
}

function describePackage(name: string, { version, integrity, license }: SbomPackage) {
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  const hash = integrity?.replace(/^sha512-/, "");
  return {
    type: "library",
    "bom-ref": purl,
    name,
    version,
    purl,
    ...(license === undefined ? {} : { licenses: [describeLicense(license)] }),
    ...(hash === undefined
      ? {}
      : { hashes: [{ alg: "SHA-512", content: Buffer.from(hash, "base64").toString("hex") }] }),
    properties: [{ name: "model-gateway:part-of", value: name.startsWith("@oven/") ? "runtime" : "program" }],
  };
}

function describeLicense(license: string) {
  return /[ ()]/.test(license) ? { expression: license } : { license: { id: license } };
}
