/** The root file system of the image: read-only, without rights, with nothing but a volume and a temporary folder. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { artefact, emptyFolder, expectWorking, run, startInstalled } from "./support.ts";

const folder = emptyFolder();
const root = join(folder, "root");
const volume = join(folder, "volume");

const imageConfig = z.object({
  config: z.object({
    Env: z.array(z.string()),
    Entrypoint: z.array(z.string()),
    Cmd: z.array(z.string()),
    User: z.string(),
    Healthcheck: z.object({ Test: z.array(z.string()) }),
    Volumes: z.record(z.string(), z.unknown()),
  }),
});
let config: z.output<typeof imageConfig>["config"];
let layer: string;

beforeAll(() => {
  run(["tar", "xf", artefact("-image.tar"), "-C", folder]);
  const [image] = z
    .array(z.object({ Config: z.string(), Layers: z.array(z.string()) }))
    .parse(JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")));
  layer = join(folder, image?.Layers[0] ?? "");
  config = imageConfig.parse(JSON.parse(readFileSync(join(folder, image?.Config ?? ""), "utf8"))).config;
  mkdirSync(root);
  run(["tar", "xzf", layer, "-C", root]);
  // What every container runtime provides.
  for (const name of ["proc", "dev"]) mkdirSync(join(root, name));
  mkdirSync(volume, { mode: 0o700 });
  run(["chown", config.User, volume]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("what a node downloads has at most 60 MB", () => {
  console.log(`image: ${(statSync(layer).size / 1e6).toFixed(1)} MB`);
  expect(statSync(layer).size).toBeLessThanOrEqual(60_000_000);
});

test("the image has no shell, and every file belongs to root except for the volume", () => {
  const list = run(["tar", "--list", "--verbose", "--numeric-owner", "--gzip", "--file", layer])
    .trim()
    .split("\n");
  expect(list.filter((line) => !line.includes(" 0/0 ")).map((line) => line.split(" ").at(-1))).toEqual([
    "data/",
  ]);
  expect(list.filter((line) => /\/(?:sh|bash|apt|dpkg)$/.test(line))).toEqual([]);
});

test("it serves a stream on a read-only root with dropped rights, and its health check passes", async () => {
  expect(config.User).toBe("65532:65532");
  expect(Object.keys(config.Volumes)).toEqual(["/data"]);
  const environment = Object.fromEntries(config.Env.map((line) => line.split(/=(.*)/s).slice(0, 2)));
  const command = [...config.Entrypoint, ...config.Cmd];
  const gateway = await startInstalled(["unshare", "--mount", "sh", "-ec", enter(command)], {
    cwd: folder,
    env: withoutPath(environment),
    isGroup: true,
  });
  await expectWorking(gateway, readFileSync(join(volume, "demo.key"), "utf8"));
  expect(statSync(join(volume, "gateway.db")).uid).toBe(65_532);
  const [kind, ...health] = config.Healthcheck.Test;
  expect(kind).toBe("CMD");
  const check = ["unshare", "--mount", "sh", "-ec", enter(health)];
  expect(run(check, { env: { ...withoutPath(environment), PATH: process.env.PATH ?? "" } })).toContain(
    "answers",
  );
  await gateway.stop();
});

/** Mounts the root read-only and runs a command of the image in it, as its user and without capabilities. */
function enter(command: readonly string[]): string {
  return [
    `mount --bind ${root} ${root}`,
    `mount -t proc proc ${root}/proc`,
    `mount --rbind /dev ${root}/dev`,
    `mount --bind ${volume} ${root}/data`,
    `mount -t tmpfs -o mode=1777 none ${root}/tmp`,
    `mount -o remount,ro,bind ${root}`,
    // chroot changes the user, so it keeps the capabilities that it needs for that; the program has none of them.
    `exec setpriv --no-new-privs --inh-caps=-all /usr/sbin/chroot --userspec=65532:65532 --groups= ${root} ${command.join(" ")}`,
  ].join("\n");
}

/** The PATH of the image has no program of this machine, and the test chooses the port. */
function withoutPath({ PATH: _, PORT: __, ...environment }: Record<string, string>): Record<string, string> {
  return environment;
}
