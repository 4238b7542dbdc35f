/** The parts of a release that are built without a runtime: image layout, Debian package, npm package, SBOM. */

import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import manifest from "../package.json" with { type: "json" };
import { ALLOCATOR_SETTINGS } from "../src/cli/allocator-settings.ts";
import { readAr } from "./archive/ar.ts";
import { findFile, readTar } from "./archive/tar.ts";
import { buildDebianPackage } from "./deb/debian.ts";
import { buildUnit } from "./deb/unit.ts";
import { sha256 } from "./digest.ts";
import { listWorkers } from "./executable.ts";
import { type ImageConfig, writeImage } from "./image/layout.ts";
import { listInputs } from "./inputs.ts";
import { readLock } from "./lock-file.ts";
import { buildManifest, buildShrinkwrap } from "./npm-package.ts";
import { buildSbom, listSbomPackages } from "./sbom.ts";
import { ROOT, readSource } from "./source.ts";
import { TARGETS } from "./targets.ts";

const SOURCE = { version: "1.2.3", description: "A gateway.", timeSeconds: 1_700_000_000, commit: "abc" };
const EXECUTABLE = Buffer.from("executable");
const json = (bytes: Uint8Array) => JSON.parse(Buffer.from(bytes).toString());

describe("the image archive", () => {
  const CONFIG: ImageConfig = {
    Env: [],
    Entrypoint: ["/usr/bin/model-gateway"],
    Cmd: ["start"],
    User: "65532:65532",
    WorkingDir: "/data",
    ExposedPorts: {},
    Volumes: { "/data": {} },
    Labels: {},
    Healthcheck: {},
    StopSignal: "SIGTERM",
  };
  const files = [{ kind: "file", path: "a", mode: 0o644, content: Buffer.from("a") }] as const;
  const platforms = [
    { architecture: "amd64", files },
    { architecture: "arm64", files: [...files, { kind: "folder", path: "data", mode: 0o700 }] },
  ] as const;
  const options = { name: "model-gateway", tag: "1.2.3", timeSeconds: 1_700_000_000, config: CONFIG };
  const entries = readTar(writeImage(platforms, options).archive);
  const blob = ({ digest }: { digest: string }) => findFile(entries, `blobs/${digest.replace(":", "/")}`);

  test("index, manifests, configs and layers refer to each other by digest and size", () => {
    expect(json(findFile(entries, "oci-layout"))).toEqual({ imageLayoutVersion: "1.0.0" });
    const [top] = json(findFile(entries, "index.json")).manifests;
    expect(top.annotations["org.opencontainers.image.ref.name"]).toBe("1.2.3");
    const { manifests } = json(blob(top));
    expect(manifests.map(({ platform }: { platform: object }) => platform)).toEqual([
      { architecture: "amd64", os: "linux" },
      { architecture: "arm64", os: "linux" },
    ]);
    for (const descriptor of manifests) {
      expect(descriptor.size).toBe(blob(descriptor).length);
      const { config, layers } = json(blob(descriptor));
      const [layer] = layers;
      expect(layer).toMatchObject({
        mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
        size: blob(layer).length,
      });
      const { rootfs, architecture, config: settings } = json(blob(config));
      expect(rootfs.diff_ids).toEqual([`sha256:${sha256(gunzipSync(blob(layer)))}`]);
      expect(architecture).toBe(descriptor.platform.architecture);
      expect(settings.User).toBe("65532:65532");
    }
    for (const entry of entries) {
      if (entry.kind === "file" && entry.path.startsWith("blobs/"))
        expect(entry.path).toBe(`blobs/sha256/${sha256(entry.content)}`);
    }
  });

  test("an older Docker finds each platform under a separate tag", () => {
    const images = json(findFile(entries, "manifest.json"));
    expect(images.map(({ RepoTags }: { RepoTags: string[] }) => RepoTags)).toEqual([
      ["model-gateway:1.2.3", "model-gateway:1.2.3-amd64"],
      ["model-gateway:1.2.3-arm64"],
    ]);
    for (const { Config, Layers } of images) {
      expect(findFile(entries, Config).length).toBeGreaterThan(0);
      expect(gunzipSync(findFile(entries, Layers[0])).length).toBeGreaterThan(0);
    }
  });

  test("the same files give the same bytes", () => {
    expect(writeImage(platforms, options).archive).toEqual(writeImage(platforms, options).archive);
  });
});

describe("the Debian package", async () => {
  const [target] = TARGETS;
  if (target === undefined) throw new Error("no targets");
  const members = readAr(await buildDebianPackage(target, EXECUTABLE, SOURCE));
  const unpack = (index: number) => readTar(gunzipSync(members[index]?.content ?? Buffer.alloc(0)));

  test("has the members that dpkg expects, in their order", () => {
    expect(members.map(({ name }) => name)).toEqual(["debian-binary", "control.tar.gz", "data.tar.gz"]);
    const control = Buffer.from(findFile(unpack(1), "control")).toString();
    expect(control).toContain("Version: 1.2.3\nArchitecture: amd64\n");
    expect(Buffer.from(findFile(unpack(1), "conffiles")).toString()).toContain(
      "/etc/model-gateway/gateway.yaml\n",
    );
  });

  test("has the executable and a unit that notifies, is watched and is confined", () => {
    expect(findFile(unpack(2), "usr/bin/model-gateway")).toEqual(EXECUTABLE);
    const unit = Buffer.from(findFile(unpack(2), "lib/systemd/system/model-gateway.service")).toString();
    for (const line of [
      "Type=notify",
      "WatchdogSec=30",
      "WatchdogSignal=SIGKILL",
      "ProtectSystem=strict",
      "SystemCallFilter=@system-service",
    ])
      expect(unit).toContain(`${line}\n`);
  });
});

test("the launcher, the unit and the executable set the same allocator settings", () => {
  const launcher = readFileSync(join(ROOT, "bin/model-gateway"), "utf8");
  const exported = [...launcher.matchAll(/^export (\w+)="\$\{\w+-(\w+)\}"$/gm)].map(([, name, value]) => [
    name,
    value,
  ]);
  expect(Object.fromEntries(exported)).toEqual(ALLOCATOR_SETTINGS);
  for (const [name, value] of Object.entries(ALLOCATOR_SETTINGS))
    expect(buildUnit()).toContain(`Environment=${name}=${value}\n`);
});

describe("the npm package", () => {
  const [released, shrinkwrap] = [buildManifest(), buildShrinkwrap()];

  test("depends on the runtime of each platform, without an install script", () => {
    expect(released).not.toHaveProperty("private");
    expect(released.dependencies).not.toHaveProperty("bun");
    for (const { runtimePackage } of TARGETS)
      expect(released.optionalDependencies).toHaveProperty([runtimePackage], manifest.dependencies.bun);
    expect(Object.keys(released.scripts)).toEqual(["start"]);
  });

  test("pins each package with its digest, and no development package", () => {
    const { "": root, ...packages } = shrinkwrap.packages;
    expect(root).toMatchObject({ dependencies: released.dependencies });
    for (const [folder, locked] of Object.entries(packages)) {
      expect({ folder, locked }).toMatchObject({ locked: { integrity: expect.stringMatching(/^sha512-/) } });
      expect(locked).not.toHaveProperty("dev");
    }
    expect(Object.keys(packages)).toContain("node_modules/zod");
    expect(Object.keys(packages)).not.toContain("node_modules/react");
  });
});

test("the bill of materials lists what is installed and what is compiled into the pages, with digests", () => {
  const packages = listSbomPackages(readLock().packages);
  const { components, metadata } = buildSbom(SOURCE, packages, "2.36");
  const names = components.map(({ name }) => name);
  for (const name of ["zod", "gpt-tokenizer", "react", "@codemirror/view", "@oven/bun-linux-x64", "libc6"])
    expect(names).toContain(name);
  expect(names).not.toContain("typescript");
  expect(new Set(components.map((component) => component["bom-ref"])).size).toBe(components.length);
  expect(metadata.timestamp).toBe("2023-11-14T22:13:20.000Z");
});

test("every package that the pages import is in the bill of materials", () => {
  const imported = new Set(
    [...new Bun.Glob("console/**/*.{ts,tsx}").scanSync(ROOT)]
      .filter((path) => !/\.test\.|test-support|console\/(?:build|docs\/(?:build|pages|markdown))/.test(path))
      .flatMap((path) => [...readFileSync(join(ROOT, path), "utf8").matchAll(/from "([^".:][^":]*)"/g)])
      .map(([, name = ""]) =>
        name
          .split("/")
          .slice(0, name.startsWith("@") ? 2 : 1)
          .join("/"),
      ),
  );
  const packages = listSbomPackages(readLock().packages);
  expect([...imported].filter((name) => name in manifest.devDependencies && !packages.has(name))).toEqual([]);
});

test("each input of a release has a digest, and the time of a release is that of its commit", () => {
  expect(listInputs().map(({ name }) => name)).toEqual(
    expect.arrayContaining([expect.stringMatching(/^libc6_.*_arm64\.deb$/)]),
  );
  for (const input of listInputs()) expect(input.isIntact(Buffer.from("something else"))).toBe(false);
  expect(readSource({ SOURCE_DATE_EPOCH: "1700000000" }).timeSeconds).toBe(1_700_000_000);
  expect(() => readSource({ SOURCE_DATE_EPOCH: "soon" })).toThrow();
  expect(listWorkers()).toContain("src/console-api/files/file-worker.ts");
});
