/** The pictures that README and the documentation show: each in the light and the dark theme, as WebP. */

import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { buildExplorer } from "../../console/build.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { builtConsole, type Looks, type Page } from "./browser.ts";
import { type Entry, startWorld, type World } from "./demo-data.ts";
import { toWebp } from "./webp.ts";

const FOLDER = join(import.meta.dir, "../../docs/pictures");
/** The widest table fits beside the navigation. */
const WIDTH = 1360;
/** Sharp on dense displays, at an acceptable size. */
const SCALE = 1.5;
const THEMES = ["light", "dark"] as const;

interface Picture {
  name: string;
  height: number;
  open(world: World, looks: Looks): Promise<Page>;
}

const consolePage = (name: string, height: number, entry: Entry): Picture => ({
  name,
  height,
  open: (world, looks) => world.visit(entry, looks),
});

const PICTURES: readonly Picture[] = [
  consolePage("console-usage", 800, { path: "/usage", who: "user" }),
  consolePage("console-key", 800, { path: "/keys/:id", who: "user" }),
  consolePage("console-request", 800, { path: "/requests/:id", who: "user" }),
  consolePage("console-accounts", 520, { path: "/admin/accounts", who: "admin" }),
  { name: "explorer", height: 860, open: openExplorer },
];

/** Writes all pictures and returns a line about each. */
export async function writeDocsPictures(): Promise<string[]> {
  const { dir } = await builtConsole();
  await buildExplorer(join(dirname(dir), "explorer"));
  const world = await startWorld();
  const lines: string[] = [];
  for (const { name, height, open } of PICTURES) {
    for (const scheme of THEMES) {
      const page = await open(world, { scheme, width: WIDTH, scale: SCALE });
      await page.setViewportSize({ width: WIDTH, height });
      const webp = await toWebp(page, await page.screenshot());
      const file = `${name}-${scheme}.webp`;
      writeFileSync(join(FOLDER, file), webp);
      lines.push(`${file}: ${Math.ceil(webp.length / 1_000)} kB`);
    }
  }
  const complaints = world.complaints();
  await world.stop();
  if (complaints.length > 0) throw new Error(complaints.join("\n"));
  return lines;
}

/** With a request that has been sent, and its response. */
async function openExplorer(world: World, looks: Looks): Promise<Page> {
  const page = await world.open("/sign-in", looks);
  await page.goto(`${world.gateway.url}/explorer/#createChatCompletion`);
  await page.getByLabel("API key").fill(TEST_KEY);
  await page.getByText(/^This key can call \d/).waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".run-facts").getByText("Total", { exact: true }).waitFor();
  await page.evaluate("scrollTo(0, 0)");
  await page.mouse.move(0, 0);
  return page;
}
