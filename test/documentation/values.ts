/**
 * Numbers of the code that documents repeat: `<!-- value: connections.idleMs s -->75<!-- /value -->`. The name is a path
 * in the limits of the product or in `FURTHER_VALUES`; the unit, if there is one, converts milliseconds or bytes.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { limits } from "../../src/config/limits/product-limits.ts";
import { POOL_LIMITS } from "../../src/store/engine/postgres-pool.ts";
import { ROOT } from "../architecture/source-graph.ts";

const VALUE = /<!-- value: ([\w.]+)(?: (\w+))? -->.*?<!-- \/value -->/g;

const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
};

const FURTHER_VALUES = {
  postgres: {
    ...POOL_LIMITS,
    connectionsMax: Object.values(POOL_LIMITS).reduce((sum, pool) => sum + pool.connectionsMax, 0),
  },
};

/** The pages with values, as paths from the root of the repository. */
export function listPages(): string[] {
  return [".", "docs", "docs/internals"].flatMap((folder) =>
    readdirSync(join(ROOT, folder))
      .filter((name) => name.endsWith(".md"))
      .map((name) => join(folder, name)),
  );
}

export const readPage = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** The page with the values of the code between its markers. */
export function withValues(page: string): string {
  return page.replaceAll(VALUE, (marked, name: string, unit: string | undefined) => {
    const opening = marked.slice(0, marked.indexOf("-->") + 3);
    return `${opening}${formatValue(name, unit)}<!-- /value -->`;
  });
}

function formatValue(name: string, unit: string | undefined): string {
  const divisor = unit === undefined ? 1 : UNITS[unit];
  if (divisor === undefined) throw new Error(`The value ${name} has the unknown unit ${unit}.`);
  return (lookUpValue(name) / divisor).toLocaleString("en-US", { maximumFractionDigits: 3 });
}

function lookUpValue(name: string): number {
  let found: unknown = { ...limits, ...FURTHER_VALUES };
  for (const part of name.split(".")) {
    found = typeof found === "object" && found !== null ? Reflect.get(found, part) : undefined;
  }
  if (typeof found !== "number") throw new Error(`No number of the code is called ${name}.`);
  return found;
}
