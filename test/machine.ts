/** What the tests need from Debian. As root they install it themselves; otherwise they say what is missing. */

import { readdirSync } from "node:fs";

const NEEDED: readonly { package: string; isThere(): boolean }[] = [
  { package: "postgresql", isThere: hasPostgres },
  { package: "openssl", isThere: () => Bun.which("openssl") !== null },
];

export async function prepareMachine(say: (message: string) => void): Promise<void> {
  const missing = NEEDED.filter((need) => !need.isThere()).map((need) => need.package);
  if (missing.length === 0) return;
  const install = `apt-get install -y --no-install-recommends ${missing.join(" ")}`;
  if (process.getuid?.() !== 0) {
    say(`The tests need ${missing.join(" and ")}. Install: sudo ${install}`);
    process.exit(1);
  }
  say(`installing ${missing.join(", ")}`);
  const child = Bun.spawn(["sh", "-c", `apt-get update -qq && ${install} -qq`], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    stdout: "ignore",
    stderr: "inherit",
  });
  if ((await child.exited) !== 0) {
    say(`Installing failed. Run it by hand: ${install}`);
    process.exit(1);
  }
}

function hasPostgres(): boolean {
  try {
    return readdirSync("/usr/lib/postgresql").length > 0;
  } catch {
    return Bun.which("postgres") !== null;
  }
}
