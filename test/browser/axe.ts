import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "playwright-core";

/** What axe holds to be serious or critical on the page as it is now: one line for each place. */
export async function axeFindings(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page })
    .setLegacyMode(true)
    // The thousands of places where nothing is wrong need not be described.
    .options({ resultTypes: ["violations"] })
    .analyze();
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, help, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id} (${help}) at ${target.join(" ")}: ${failureSummary}`),
    );
}

/** By how many pixels the page is wider than its window: none of ours should scroll sideways. */
export async function sidewaysScroll(page: Page): Promise<number> {
  const { scrollWidth, clientWidth } = await page.evaluate<{ scrollWidth: number; clientWidth: number }>(
    "({ scrollWidth: document.documentElement.scrollWidth, clientWidth: document.documentElement.clientWidth })",
  );
  return scrollWidth - clientWidth;
}
