/**
 * `npm run screenshots` writes the pictures of README and the documentation. With `-- --out DIR` it captures every page of
 * the console for review instead: light, dark, on a phone and in Chinese, with the time from the request until the page
 * is usable.
 */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Looks, PHONE_WIDTH } from "./browser.ts";
import { everyPage, startWorld } from "./demo-data.ts";
import { writeDocsPictures } from "./docs-pictures.ts";

const LOOKS: Readonly<Record<string, Looks>> = {
  light: { scheme: "light" },
  dark: { scheme: "dark" },
  phone: { scheme: "light", width: PHONE_WIDTH },
  chinese: { scheme: "dark", language: "zh" },
};

const { values } = parseArgs({
  args: Bun.argv.slice(2),
  options: { out: { type: "string" }, only: { type: "string", default: "" } },
});
if (values.out === undefined) {
  for (const line of await writeDocsPictures()) console.log(line);
} else {
  await captureEveryPage(values.out, values.only);
}

async function captureEveryPage(out: string, only: string): Promise<void> {
  mkdirSync(out, { recursive: true });
  const world = await startWorld();
  for (const entry of await everyPage()) {
    if (!entry.path.includes(only)) continue;
    const name = entry.path.slice(1).replace(/[/:]+/g, "-");
    const times: string[] = [];
    for (const [look, looks] of Object.entries(LOOKS)) {
      const page = await world.visit(entry, looks);
      times.push(`${look} ${Math.round(await page.evaluate<number>("performance.now()"))} ms`);
      await page.screenshot({ path: join(out, `${name}-${look}.png`), fullPage: true });
    }
    console.log(`${entry.path}: ${times.join(", ")}`);
  }
  for (const complaint of world.complaints()) console.log(complaint);
  await world.stop();
}
