import { commandText, shellWord } from "./command.ts";
import { count, type Paint } from "./terminal.ts";

/** What a person sees when the gateway is up: where it is, one command that works at once, and what comes next. */

export interface StartupFacts {
  version: string;
  /** Where it listens, for the person at this machine. */
  url: string;
  /** Where others reach it, if that is somewhere else. */
  publicUrl: string | null;
  readyMs: number;
  store: string;
  keys: number;
  groups: number;
  /** Present while the demo key's file is there. */
  demoKeyFile: string | null;
  /** Present until an administrator has been made. The link itself is for a person's eyes alone. */
  claim: { file: string; link: string | null } | null;
  /** Keys made by this start: shown this once, or kept in a file where everybody reads what is printed. */
  made: { kind: "shown"; keys: readonly MadeKey[] } | { kind: "kept"; count: number; file: string };
  /** What `--data` has to say for a command to find this installation from here; undefined where nothing. */
  data: string | undefined;
  paint: Paint;
}

export interface MadeKey {
  name: string;
  secret: string;
}

export function startupText(facts: StartupFacts): string {
  const { bold, dim, green } = facts.paint;
  const lines = [
    "",
    `  ${bold("Model Gateway")} ${dim(facts.version)}   ${green("ready")} ${dim(`in ${facts.readyMs} ms`)}`,
    "",
    `  ${dim("API    ")} ${facts.url}/v1`,
    `  ${dim("Console")} ${facts.url}/console/`,
    ...(facts.publicUrl === null ? [] : [`  ${dim("Public ")} ${facts.publicUrl}`]),
    `  ${dim("Store  ")} ${facts.store} ${dim(`(${count(facts.groups, "group")}, ${count(facts.keys, "key")})`)}`,
  ];
  lines.push(...madeKeys(facts));
  if (facts.demoKeyFile !== null) lines.push("", ...tryIt(facts.url, facts.demoKeyFile, dim));
  if (facts.claim !== null) lines.push("", ...becomeAdmin(facts.claim, facts));
  lines.push("", `  ${dim("Ctrl+C stops it; requests under way are finished first.")}`, "");
  return lines.join("\n");
}

/** Nothing where no key was made. */
export function madeKeys({ made, paint }: Pick<StartupFacts, "made" | "paint">): string[] {
  if (made.kind === "shown") {
    return made.keys.flatMap(({ name, secret }) => [
      "",
      `  Key ${paint.bold(name)}, shown this once:`,
      `    ${secret}`,
    ]);
  }
  const keys = count(made.count, "new key");
  return ["", `  ${keys} in ${made.file}, which you alone can read. Take what is in it, and remove it.`];
}

function becomeAdmin(
  { file, link }: NonNullable<StartupFacts["claim"]>,
  { publicUrl, data, paint }: StartupFacts,
): string[] {
  return [
    `  ${paint.dim("Become the administrator (once, within the hour):")}`,
    link === null ? `    Open the link in ${file}, which you alone can read,` : `    Open ${link}`,
    ...(publicUrl === null || link === null ? [] : [`    (from elsewhere the same below ${publicUrl})`]),
    `    or run  ${commandText("admin claim", ["--email", "you@example.com"], data)}`,
  ];
}

/** The key stays in its file: what a terminal prints ends up in logs and screenshots. */
function tryIt(url: string, keyFile: string, dim: (text: string) => string): string[] {
  return [
    `  ${dim("Try it (the built-in simulator answers; add")} "stream": true ${dim("to see it stream):")}`,
    `    curl ${url}/v1/chat/completions \\`,
    `      -H "Authorization: Bearer $(cat ${shellWord(keyFile)})" \\`,
    `      -H "Content-Type: application/json" \\`,
    `      -d '{"model": "sim-fast", "messages": [{"role": "user", "content": "Hello"}]}'`,
  ];
}
