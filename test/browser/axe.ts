import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "playwright-core";

/** The serious and critical findings of axe on the current page, one line for each element. */
export async function axeFindings(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page })
    .setLegacyMode(true)
    // Descriptions of the thousands of passed checks are not needed.
    .options({ resultTypes: ["violations"] })
    .analyze();
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
