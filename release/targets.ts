/** The platforms that a release has executables for. */

export interface Target {
  /** As in the names of artefacts: `linux-x64`, `linux-x64-musl`. */
  readonly name: string;
  readonly architecture: "x64" | "arm64";
  readonly libc: "glibc" | "musl";
  /** The name of the runtime in `--target`. */
  readonly bunTarget: Bun.Build.CompileTarget;
  /** The package of the runtime on npm. */
  readonly runtimePackage: string;
}

export const TARGETS: readonly Target[] = [
  {
    name: "linux-x64",
    architecture: "x64",
    libc: "glibc",
    bunTarget: "bun-linux-x64",
    runtimePackage: "@oven/bun-linux-x64",
  },
  {
    name: "linux-arm64",
    architecture: "arm64",
    libc: "glibc",
    bunTarget: "bun-linux-arm64",
    runtimePackage: "@oven/bun-linux-aarch64",
  },
  {
    name: "linux-x64-musl",
    architecture: "x64",
    libc: "musl",
    bunTarget: "bun-linux-x64-musl",
    runtimePackage: "@oven/bun-linux-x64-musl",
  },
  {
    name: "linux-arm64-musl",
    architecture: "arm64",
    libc: "musl",
    bunTarget: "bun-linux-arm64-musl",
    runtimePackage: "@oven/bun-linux-aarch64-musl",
  },
];

/** Debian's names of the architectures. The image uses them, too. */
export const DEBIAN_ARCHITECTURES = { x64: "amd64", arm64: "arm64" } as const;
