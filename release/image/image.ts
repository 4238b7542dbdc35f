/**
 * Builds the container image: the executable, the C library that it needs, and nothing else. There is no shell and no
 * package manager. The root file system may be read-only; `/data` is the only volume.
 */

import { ALLOCATOR_SETTINGS } from "../../src/cli/allocator-settings.ts";
import { addFolders, findFile, type TarEntry } from "../archive/tar.ts";
import { readLibc } from "../inputs.ts";
import { type ReleaseSource, readText } from "../source.ts";
import { DEBIAN_ARCHITECTURES, type Target } from "../targets.ts";
import { type ImageConfig, type ImagePlatform, writeImage } from "./layout.ts";

/** The user `nonroot` of other minimal images, so that policies and volumes of a cluster fit. */
const IMAGE_USER = 65_532;
const PROGRAM = "usr/bin/model-gateway";
const SECOND_NS = 1_000_000_000;

const LOADERS = {
  x64: { folder: "lib/x86_64-linux-gnu", loader: "lib64/ld-linux-x86-64.so.2", name: "ld-linux-x86-64.so.2" },
  arm64: {
    folder: "lib/aarch64-linux-gnu",
    loader: "lib/ld-linux-aarch64.so.1",
    name: "ld-linux-aarch64.so.1",
  },
} as const;
/** What the runtime links, and the resolver that `getaddrinfo` may load. */
const LIBRARIES = ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libresolv.so.2"];

export function buildImage(
  executables: readonly { readonly target: Target; readonly executable: Uint8Array }[],
  source: ReleaseSource,
) {
  const platforms = executables.map(
    ({ target, executable }): ImagePlatform => ({
      architecture: DEBIAN_ARCHITECTURES[target.architecture],
      files: listImageFiles(target, executable),
    }),
  );
  const { version, timeSeconds } = source;
  return writeImage(platforms, {
    name: "model-gateway",
    tag: version,
    timeSeconds,
    config: buildConfig(source),
  });
}

function buildConfig({ version, description, commit }: ReleaseSource): ImageConfig {
  const environment = {
    PATH: "/usr/bin",
    HOST: "0.0.0.0",
    PORT: "8787",
    MODEL_GATEWAY_DATA: "/data",
    ...ALLOCATOR_SETTINGS,
  };
  return {
    Env: Object.entries(environment).map(([name, value]) => `${name}=${value}`),
    Entrypoint: [`/${PROGRAM}`],
    Cmd: ["start"],
    User: `${IMAGE_USER}:${IMAGE_USER}`,
    WorkingDir: "/data",
    ExposedPorts: { "8787/tcp": {} },
    Volumes: { "/data": {} },
    Labels: {
      "org.opencontainers.image.title": "Model Gateway",
      "org.opencontainers.image.description": description,
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.licenses": "MIT",
      ...(commit === null ? {} : { "org.opencontainers.image.revision": commit }),
    },
    Healthcheck: {
      Test: ["CMD", `/${PROGRAM}`, "doctor", "--live"],
      Interval: 30 * SECOND_NS,
      Timeout: 10 * SECOND_NS,
      StartPeriod: 60 * SECOND_NS,
      Retries: 3,
    },
    StopSignal: "SIGTERM",
  };
}

function listImageFiles(target: Target, executable: Uint8Array): TarEntry[] {
  const libc = readLibc(target);
  const { folder, loader, name } = LOADERS[target.architecture];
  const libraries = [...LIBRARIES, name].map(
    (library): TarEntry => ({
      kind: "file",
      path: `${folder}/${library}`,
      mode: 0o755,
      content: findFile(libc.files, `${folder}/${library}`),
    }),
  );
  const files: TarEntry[] = [
    ...libraries,
    { kind: "link", path: loader, mode: 0o777, target: `/${folder}/${name}` },
    { kind: "file", path: PROGRAM, mode: 0o755, content: executable },
    text("etc/passwd", `root:x:0:0:root:/root:/none\nnonroot:x:${IMAGE_USER}:${IMAGE_USER}::/data:/none\n`),
    text("etc/group", `root:x:0:\nnonroot:x:${IMAGE_USER}:\n`),
    text("etc/nsswitch.conf", "hosts: files dns\n"),
    // Scanners for vulnerabilities find the C library by these two.
    text(
      "etc/os-release",
      'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Model Gateway on Debian 12 libraries"\n',
    ),
    {
      kind: "file",
      path: "var/lib/dpkg/status.d/libc6",
      mode: 0o644,
      content: Buffer.concat([libc.control, Buffer.from("Status: install ok installed\n")]),
    },
    {
      kind: "file",
      path: "usr/share/doc/libc6/copyright",
      mode: 0o644,
      content: findFile(libc.files, "usr/share/doc/libc6/copyright"),
    },
    text("usr/share/doc/model-gateway/copyright", readText("LICENSE")),
    { kind: "folder", path: "data", mode: 0o700, owner: IMAGE_USER },
    { kind: "folder", path: "tmp", mode: 0o1777 },
  ];
  return addFolders(files);
}

function text(path: string, content: string): TarEntry {
  return { kind: "file", path, mode: 0o644, content: Buffer.from(content) };
}
