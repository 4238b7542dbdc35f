/** What the tests need beside this package: Debian packages, which only root can install, and real clients. */

import { lstatSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { findChromium } from "./chromium.ts";
import { findMariaDb } from "./mariadb.ts";
import { findRedisServer } from "./redis.ts";

const NEEDED: readonly { package: string; isThere(): boolean }[] = [
  { package: "postgresql", isThere: hasPostgres },
  // The database of a gateway that people come from.
  { package: "mariadb-server", isThere: () => findMariaDb() !== null },
  { package: "redis-server", isThere: () => findRedisServer() !== null },
  { package: "pgbouncer", isThere: () => Bun.which("pgbouncer") !== null },
  // Injects disk faults into a running gateway.
  { package: "strace", isThere: () => Bun.which("strace") !== null },
  // Starts nodes with wrong clocks.
  { package: "faketime", isThere: () => Bun.which("faketime") !== null },
  { package: "openssl", isThere: () => Bun.which("openssl") !== null },
  // Read the completion scripts and the manual page.
  { package: "zsh", isThere: () => Bun.which("zsh") !== null },
  { package: "fish", isThere: () => Bun.which("fish") !== null },
  { package: "groff", isThere: () => Bun.which("groff") !== null },
  { package: "chromium-headless-shell", isThere: () => findChromium() !== null },
  { package: "fonts-noto-cjk", isThere: hasChineseFont },
  // Scrapes a running gateway and checks the alert rules.
  { package: "prometheus", isThere: () => Bun.which("prometheus") !== null },
  // Runs the snippets of the explorer.
  { package: "curl", isThere: () => Bun.which("curl") !== null },
  { package: "python3-minimal", isThere: () => Bun.which("python3") !== null },
  { package: "php-cli", isThere: () => Bun.which("php") !== null },
  { package: "php-curl", isThere: hasPhpCurl },
  { package: "ruby", isThere: () => Bun.which("ruby") !== null },
];

/** Clients that are too large to be dependencies of the gateway are in a separate package. */
const CLIENTS = join(import.meta.dir, "../clients");

type Print = (message: string) => void;

export async function prepareMachine(print: Print): Promise<void> {
  await installPackages(print);
  await installClients(print);
}

/** Only the Debian packages. */
export async function installPackages(print: Print): Promise<void> {
  const missing = NEEDED.filter((need) => !need.isThere()).map((need) => need.package);
  if (missing.length === 0) return;
  const install = `apt-get install -y --no-install-recommends ${missing.join(" ")}`;
  if (process.getuid?.() !== 0) {
    print(`The tests need ${missing.join(" and ")}. Install: sudo ${install}`);
    process.exit(1);
  }
  print(`installing ${missing.join(", ")}`);
  const child = Bun.spawn(["sh", "-c", `apt-get update -qq && ${install} -qq`], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    stdout: "ignore",
    stderr: "inherit",
  });
  if ((await child.exited) !== 0) {
    print(`Installing failed. Run it by hand: ${install}`);
    process.exit(1);
  }
}

/** Only the real clients. */
export async function installClients(print: Print): Promise<void> {
  const installedMs = changedMs("node_modules/.package-lock.json");
  if (installedMs > changedMs("package-lock.json")) return;
  // npm would empty the folder that the link points to, which another checkout uses.
  if (lstatSync(join(CLIENTS, "node_modules"), { throwIfNoEntry: false })?.isSymbolicLink()) {
    print(
      "test/clients/node_modules is a link to outdated packages. Install them in the checkout that it points to.",
    );
    process.exit(1);
  }
  print("installing real clients into test/clients: 170 MB to fetch, once");
  // Within `npm test`, npm would use the outer package as its folder unless another is set.
  const command = ["npm", "ci", "--prefix", CLIENTS, "--no-audit", "--no-fund", "--loglevel=error"];
  const child = Bun.spawn(command, { stdout: "inherit", stderr: "inherit" });
  if ((await child.exited) !== 0) {
    print(`Installing failed. Run it by hand: ${command.join(" ")}`);
    process.exit(1);
  }
}

/** 0 when there is no such file. */
function changedMs(path: string): number {
  return statSync(join(CLIENTS, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function hasPostgres(): boolean {
  try {
    return readdirSync("/usr/lib/postgresql").length > 0;
  } catch {
    return Bun.which("postgres") !== null;
  }
}

/** Without a Chinese font the console's Chinese text would be drawn as boxes of the wrong width. */
function hasChineseFont(): boolean {
  if (Bun.which("fc-list") === null) return false;
  return Bun.spawnSync(["fc-list", ":lang=zh-cn"]).stdout.length > 0;
}

function hasPhpCurl(): boolean {
  if (Bun.which("php") === null) return false;
  return Bun.spawnSync(["php", "-m"]).stdout.toString().includes("curl");
}
