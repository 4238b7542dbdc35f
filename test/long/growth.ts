/** The growth tests of test/abuse on every route: the system suite tries each document on one translated route. */

import { join } from "node:path";
import { EVERY_ROUTE } from "../abuse/growth/grow.ts";

const ROOT = join(import.meta.dir, "../..");

export async function workGrowsLinearly(): Promise<string> {
  const child = Bun.spawn([process.execPath, "test", "test/abuse/growth"], {
    cwd: ROOT,
    env: { ...process.env, [EVERY_ROUTE]: "1" },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [figures, report] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if ((await child.exited) !== 0) throw new Error(report);
  const documents = [...figures.matchAll(/: (\d+) documents of /g)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
  return `${documents} documents`;
}
