/** Which account next: the best priority first, within it by weight, never one that was tried. */

import type { Route } from "../policy/snapshot.ts";

export function chooseRoute(
  routes: readonly Route[],
  tried: ReadonlySet<Route>,
  random: () => number,
): Route | null {
  const open = tried.size === 0 ? routes : routes.filter((route) => !tried.has(route));
  const [first] = open;
  if (!first) return null;
  const tier = tierOf(open, first.account.priority);
  if (tier.length === 1) return first;
  const total = tier.reduce((sum, route) => sum + route.account.weight, 0);
  let mark = random() * total;
  for (const route of tier) {
    mark -= route.account.weight;
    if (mark < 0) return route;
  }
  return tier[tier.length - 1] ?? null;
}

/** Routes come sorted by priority, so a tier is a beginning of the list. */
function tierOf(routes: readonly Route[], priority: number): readonly Route[] {
  const end = routes.findIndex((route) => route.account.priority !== priority);
  return end === -1 ? routes : routes.slice(0, end);
}
