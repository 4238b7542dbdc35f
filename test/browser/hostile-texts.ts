/**
 * Texts that would run as script, or become markup, on a page that writes them unescaped. The content policy would stop
 * most of them from running, so the elements that they create are counted, too.
 */

import type { Locator, Page } from "playwright-core";

export const HOSTILE_TEXTS = [
  `<img class="hostile" src=x onerror="window.hostileRan=true">`,
  `"><script class="hostile">window.hostileRan=true</script>`,
  `'"><svg class="hostile" onload="window.hostileRan=true">`,
  `javascript:window.hostileRan=true//`,
  `</title><iframe class="hostile" srcdoc="<script>parent.hostileRan=true</script>"></iframe>`,
] as const;

/** Fills every text field of the form except the named ones. */
export async function fillHostile(
  form: Locator,
  text: string,
  except: readonly string[] = [],
): Promise<number> {
  const fields = form.locator(
    "textarea, input:not([type]), input[type=text], input[type=search], input[type=url], input[type=email], input[type=password]",
  );
  let filled = 0;
  for (const field of await fields.all()) {
    const name = (await field.getAttribute("name")) ?? "";
    if (except.includes(name) || !(await field.isEnabled())) continue;
    await field.fill(text);
    filled += 1;
  }
  return filled;
}

/** The elements that the texts have created: none on a correct page. */
export async function hostileTraces(page: Page): Promise<string[]> {
  const [ran, became] = await Promise.all([
    page.evaluate<boolean>("'hostileRan' in window"),
    page
      .locator(".hostile, [href^='javascript:' i], [src^='javascript:' i]")
      .evaluateAll((elements: { outerHTML: string }[]) => elements.map((element) => element.outerHTML)),
  ]);
  return [...(ran ? ["a hostile text ran"] : []), ...became.map((html) => `it became ${html}`)];
}
