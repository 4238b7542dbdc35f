/**
 * Every page of the console in light, dark and on a phone: `npm run screenshots -- --out DIR`. It says how long each took
 * until it could be used, from the request for the document on.
 */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Looks, PHONE_WIDTH } from "./browser.ts";
import { everyPage, startWorld } from "./world.ts";

const LOOKS: Readonly<Record<string, Looks>> = {
  light: { scheme: "light" },
  dark: { scheme: "dark" },
  phone: { scheme: "light", width: PHONE_WIDTH },
};

const { values } = parseArgs({
  args: Bun.argv.slice(2),
  options: { out: { type: "string", default: "screenshots" }, only: { type: "string", default: "" } },
});
mkdirSync(values.out, { recursive: true });
const world = await startWorld();
for (const entry of await everyPage()) {
  if (!entry.path.includes(values.only)) continue;
  const name = entry.path.slice(1).replace(/[/:]+/g, "-");
  const times: string[] = [];
  for (const [look, looks] of Object.entries(LOOKS)) {
    const page = await world.visit(entry, looks);
    times.push(`${look} ${Math.round(await page.evaluate<number>("performance.now()"))} ms`);
    await page.screenshot({ path: join(values.out, `${name}-${look}.png`), fullPage: true });
  }
  console.log(`${entry.path}: ${times.join(", ")}`);
}
for (const complaint of world.complaints()) console.log(complaint);
await world.stop();
