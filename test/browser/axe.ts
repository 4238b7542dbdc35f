/** Accessibility of the current page, checked by axe. */

import { readFileSync } from "node:fs";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

/** Evaluated in the page by the protocol of the browser, which the content policy of the page does not restrict. */
const AXE = readFileSync(Bun.resolveSync("axe-core/axe.min.js", import.meta.dir), "utf8");

/** Axe parses the color of each element anew, which takes half of its time. A page has few different colors. */
const READ_COLORS_ONCE = `{
  const { prototype } = axe.commons.color.Color;
  const parse = prototype.parseString;
  const known = new Map();
  prototype.parseString = function (text) {
    const color = known.get(text);
    if (color !== undefined) return Object.assign(this, color);
    parse.call(this, text);
    const { r, g, b, alpha } = this;
    known.set(text, { r, g, b, alpha });
    return this;
  };
}`;

/** Descriptions of the thousands of passed checks are not needed. */
const RUN = `axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations)`;

/** The serious and critical findings of axe on the current page, one line for each element. */
export async function axeFindings(page: Page): Promise<string[]> {
  // A page that was checked before has it.
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(`${AXE}${READ_COLORS_ONCE}`);
  const violations = await page.evaluate<AxeResults["violations"]>(RUN);
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, help, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id} (${help}) at ${target.join(" ")}: ${failureSummary}`),
    );
}

/** By how many pixels the page is wider than its window: no page should scroll sideways. */
export async function sidewaysScroll(page: Page): Promise<number> {
  const { scrollWidth, clientWidth } = await page.evaluate<{ scrollWidth: number; clientWidth: number }>(
    "({ scrollWidth: document.documentElement.scrollWidth, clientWidth: document.documentElement.clientWidth })",
  );
  return scrollWidth - clientWidth;
}
