/** Checks which fields and scopes of a service account belong together. */

import type { FieldProblem } from "../state/problem.ts";
import type { Item } from "./items.ts";

export function checkServiceAccount({ path, value }: Item): FieldProblem[] {
  const scopes: readonly unknown[] = Array.isArray(value.scopes) ? value.scopes : [];
  const topsUp = scopes.includes("wallet.top_up");
  const hasBounds = value.bounds !== undefined;
  const problems: FieldProblem[] = [];
  if (topsUp && !hasBounds)
    problems.push({
      path: [...path, "bounds"],
      message: "is missing. The scope wallet.top_up needs bounds.",
    });
  if (!topsUp && hasBounds)
    problems.push({
      path: [...path, "bounds"],
      message: "is only for the scope wallet.top_up. Remove it.",
      onKey: true,
    });
  if (scopes.includes("keys.write") && !scopes.includes("config.apply"))
    problems.push({
      path: [...path, "scopes"],
      message: "has keys.write without config.apply, which it extends. Add config.apply.",
    });
  if (scopes.includes("scim") && scopes.length > 1)
    problems.push({
      path: [...path, "scopes"],
      message: "has scim with other scopes. Create a service account for the directory alone.",
    });
  return problems;
}
