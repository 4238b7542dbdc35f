/** Finds the route for a path and method. */

import { ApiError } from "../../errors.ts";
import type { ConsoleRoute } from "./route.ts";

interface Match {
  route: ConsoleRoute;
  params: Record<string, string>;
}

/** Path patterns, those with the most fixed segments first: `/api/keys/new` is not the key "new". */
interface Pattern {
  test: RegExp;
  names: string[];
  methods: Map<string, ConsoleRoute>;
}

type FindRoute = (method: string, path: string) => Match;

export function compileRoutes(routes: Readonly<Record<string, ConsoleRoute>>): FindRoute {
  const byPath = Map.groupBy(Object.values(routes), ({ path }) => path);
  const patterns = [...byPath]
    .toSorted(([a], [b]) => (specificity(a) < specificity(b) ? -1 : 1))
    .map(([path, list]) => ({
      ...compile(path),
      methods: new Map<string, ConsoleRoute>(list.map((route) => [route.method, route])),
    }));

  return (method, path) => {
    for (const pattern of patterns) {
      const params = matchParams(pattern, path);
      if (params === null) continue;
      const route = pattern.methods.get(method);
      if (route !== undefined) return { route, params };
      const allow = [...pattern.methods.keys()].join(", ");
      throw new ApiError("method_not_allowed", `${method} is not allowed for this path. Allowed: ${allow}.`, {
        headers: { allow },
      });
    }
    throw new ApiError(
      "unknown_url",
      `The path ${path.slice(0, 200)} does not exist. GET /api/openapi.json lists all paths.`,
    );
  };
}

/** A sort key by segment: fixed before parameter before the rest of the path. */
function specificity(path: string): string {
  return path
    .split("/")
    .map((segment) => (segment.endsWith("*") ? "c" : segment.startsWith(":") ? "b" : "a"))
    .join("");
}

function compile(path: string): Pick<Pattern, "test" | "names"> {
  const names: string[] = [];
  const parts = path.split("/").map((segment) => {
    if (!segment.startsWith(":")) return RegExp.escape(segment);
    const isRest = segment.endsWith("*");
    names.push(segment.slice(1, isRest ? -1 : undefined));
    return isRest ? "(.+)" : "([^/]+)";
  });
  return { test: new RegExp(`^${parts.join("/")}$`), names };
}

/** Returns null if the path does not match, or contains an invalid percent-encoding. */
function matchParams({ test, names }: Pattern, path: string): Record<string, string> | null {
  const match = test.exec(path);
  if (match === null) return null;
  try {
    return Object.fromEntries(names.map((name, i) => [name, decodeURIComponent(match[i + 1] ?? "")]));
  } catch {
    return null;
  }
}
