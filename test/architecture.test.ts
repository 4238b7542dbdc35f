/** The house keeps its shape: dependencies point down and never in a circle. */

import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";

const SRC = join(import.meta.dir, "..", "src");

/** For each folder (or root file) of src, the ones it may import. Itself is always allowed. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  clock: [],
  alarms: ["clock"],
  outbox: [],
  records: [],
  money: ["records", "clock"],
  errors: [],
  "own-origin": [],
  version: [],
  wire: [],
  secrets: [],
  observe: [],
  store: ["records", "money", "secrets", "clock"],
  billing: ["records", "clock", "alarms", "money", "secrets", "store", "observe"],
  policy: ["records", "clock", "money", "secrets", "store", "observe"],
  config: ["records", "money", "secrets", "store", "policy", "clock"],
  limits: ["records", "money", "clock"],
  interfaces: ["records", "errors", "wire"],
  metering: ["interfaces", "wire"],
  upstreams: ["records", "errors", "wire", "clock", "alarms", "outbox", "policy", "interfaces"],
  pool: ["clock", "records", "policy", "limits", "upstreams", "interfaces"],
  gateway: [
    "alarms",
    "clock",
    "records",
    "money",
    "errors",
    "wire",
    "observe",
    "secrets",
    "store",
    "billing",
    "policy",
    "limits",
    "pool",
    "interfaces",
    "metering",
    "upstreams",
  ],
  mail: ["records", "secrets", "store", "upstreams"],
  alerts: [
    "clock",
    "records",
    "money",
    "observe",
    "secrets",
    "store",
    "policy",
    "pool",
    "upstreams",
    "version",
  ],
  control: [
    "own-origin",
    "alarms",
    "alerts",
    "mail",
    "clock",
    "records",
    "money",
    "errors",
    "wire",
    "observe",
    "secrets",
    "store",
    "billing",
    "policy",
    "config",
    "limits",
    "pool",
    "interfaces",
    "upstreams",
    "gateway",
    "version",
  ],
  description: ["errors"],
  sockets: [
    "clock",
    "errors",
    "own-origin",
    "wire",
    "observe",
    "interfaces",
    "limits",
    "upstreams",
    "gateway",
  ],
  server: [
    "version",
    "description",
    "control",
    "alarms",
    "outbox",
    "clock",
    "observe",
    "records",
    "limits",
    "pool",
    "errors",
    "interfaces",
    "wire",
    "gateway",
    "sockets",
  ],
  demo: ["clock", "records", "secrets", "store"],
  main: ["*"],
  cli: ["*"],
};

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sources(path);
    return path.endsWith(".ts") && !path.endsWith(".d.ts") ? [path] : [];
  });
}

/** Type imports count: a type in the wrong place ties two folders together as firmly as a call. */
function importsOf(file: string): string[] {
  const text = readFileSync(file, "utf8");
  return [
    ...text.matchAll(
      /(?:^|\n)\s*(?:import|export)\s[^"']*?from\s*["'](\.[^"']+)["']|import\(\s*["'](\.[^"']+)["']\s*\)/g,
    ),
  ]
    .map((match) => match[1] ?? match[2] ?? "")
    .map((specifier) => normalize(join(dirname(file), specifier)))
    .filter((path) => path.startsWith(SRC) && path.endsWith(".ts"));
}

function folderOf(file: string): string {
  const [first = ""] = relative(SRC, file).split("/");
  return first.replace(/(?:\.test(?:-support)?)?\.ts$/, "");
}

const isTest = (file: string) => file.endsWith(".test.ts");
const graph = new Map(sources(SRC).map((file) => [file, importsOf(file)]));
const production = [...graph].filter(([file]) => !isTest(file));

test("every folder of src has its place in the order of dependencies", () => {
  const folders = new Set([...graph.keys()].map(folderOf));
  expect([...folders].filter((folder) => !(folder in MAY_IMPORT))).toEqual([]);
});

test("no import points against the direction of dependencies", () => {
  const wrong = production.flatMap(([file, imports]) => {
    const from = folderOf(file);
    const allowed = MAY_IMPORT[from] ?? [];
    return imports
      .filter((to) => {
        const folder = folderOf(to);
        return folder !== from && !allowed.includes("*") && !allowed.includes(folder);
      })
      .map((to) => `${relative(SRC, file)} imports ${relative(SRC, to)}`);
  });
  expect(wrong).toEqual([]);
});

test("the simulator stands alone: it is somebody else's server", () => {
  const wrong = production
    .filter(([file]) => file.includes("/upstreams/simulator/"))
    .flatMap(([file, imports]) =>
      imports
        .filter((to) => !to.includes("/upstreams/simulator/") && !["wire", "clock"].includes(folderOf(to)))
        .map((to) => `${relative(SRC, file)} imports ${relative(SRC, to)}`),
    );
  expect(wrong).toEqual([]);
});

test("no file imports itself in a circle", () => {
  const state = new Map<string, "open" | "done">();
  const circles: string[] = [];
  function visit(file: string, trail: readonly string[]): void {
    if (state.get(file) === "done") return;
    if (state.get(file) === "open") {
      const circle = [...trail.slice(trail.indexOf(file)), file];
      circles.push(circle.map((step) => relative(SRC, step)).join(" → "));
      return;
    }
    state.set(file, "open");
    for (const next of graph.get(file) ?? []) visit(next, [...trail, file]);
    state.set(file, "done");
  }
  for (const [file] of production) visit(file, []);
  expect(circles).toEqual([]);
});

test("no source file grows beyond what can be read in one sitting", () => {
  const long = production
    .map(([file]) => ({ file: relative(SRC, file), lines: readFileSync(file, "utf8").split("\n").length }))
    .filter(({ lines }) => lines > 400);
  expect(long).toEqual([]);
});
