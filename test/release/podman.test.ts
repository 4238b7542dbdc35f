/** The image in podman, as docs/install.md runs it. Needs podman (`apt-get install podman crun`). */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import {
  artefact,
  cleanEnvironment,
  emptyFolder,
  expectWorking,
  run,
  startInstalled,
  VERSION,
} from "./support.ts";

const folder = emptyFolder();
const archive = artefact("-image.tar");
const image = `model-gateway:${VERSION}`;

/** A store of images and containers of its own, so that the machine keeps nothing. */
const PODMAN = [
  "podman",
  `--root=${join(folder, "store")}`,
  `--runroot=${join(folder, "run")}`,
  "--storage-driver=vfs",
  "--cgroup-manager=cgroupfs",
];

/** crun rejects hosts with both versions of cgroups, so each command sees the current one alone. */
function inNamespace(args: readonly string[]): string[] {
  const enter = [
    "mount --make-rprivate /",
    "umount --lazy /sys/fs/cgroup",
    "mount -t cgroup2 none /sys/fs/cgroup",
    `exec ${[...PODMAN, ...args].map((word) => `'${word}'`).join(" ")}`,
  ];
  return ["unshare", "--mount", "sh", "-ec", enter.join("\n")];
}

const podman = (...args: string[]) => run(inNamespace(args), { env: environment() });

function environment(): Record<string, string> {
  return { ...cleanEnvironment(), PATH: `${process.env.PATH}:/usr/sbin:/sbin` };
}

describe.skipIf(Bun.which("podman") === null)("podman (needs podman and crun)", () => {
  beforeAll(() => void podman("pull", "--quiet", `docker-archive:${archive}:${image}`));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("the archive is loaded as an OCI image, too", () => {
    const store = ["--root", join(folder, "second")];
    expect(podman(...store, "load", "--input", archive)).toContain(`/${image}`);
    expect(
      podman(...store, "image", "inspect", "--format", "{{.Architecture}} {{.User}}", image).trim(),
    ).toBe(`${process.arch === "arm64" ? "arm64" : "amd64"} 65532:65532`);
  });

  test("it serves a stream on a read-only root without capabilities, is healthy, and stops cleanly", async () => {
    const options = [
      "--name=gateway",
      "--network=host",
      "--volume=model-gateway:/data",
      "--read-only",
      "--tmpfs=/tmp",
      "--cap-drop=ALL",
      "--security-opt=no-new-privileges",
      "--cgroups=disabled",
      // A host without the capability to raise limits rejects the limits that podman sets.
      "--ulimit=nofile=4096:4096",
      "--ulimit=nproc=4096:4096",
      "--env=PORT",
    ];
    const gateway = await startInstalled(inNamespace(["run", ...options, image]), {
      cwd: folder,
      env: environment(),
    });
    const volume = podman("volume", "inspect", "--format", "{{.Mountpoint}}", "model-gateway").trim();
    await expectWorking(gateway, readFileSync(join(volume, "demo.key"), "utf8"));
    expect(podman("exec", "gateway", "model-gateway", "doctor", "--live")).toContain("answers");
    // Fails if the image has no health check, or an unhealthy one.
    podman("healthcheck", "run", "gateway");
    podman("stop", "--time=30", "gateway");
    expect(podman("inspect", "--format", "{{.State.ExitCode}}", "gateway").trim()).toBe("0");
  });
});
