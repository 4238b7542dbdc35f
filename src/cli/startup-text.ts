/** The text printed at startup: the address, one command to try, and the next steps. */

import { commandText, shellWord } from "./command.ts";
import { count, type Paint } from "./terminal.ts";

export interface StartupFacts {
  version: string;
  /** Whether the pages of the console are built. Without them their links would lead to an error. */
  hasConsole: boolean;
  /** The listen address, as seen from this machine. */
  url: string;
  /** The public address, if it is different. */
  publicUrl: string | null;
  readyMs: number;
  store: string;
  keys: number;
  groups: number;
  /** Set while the file of the demo key exists. */
  demoKeyFile: string | null;
  /** Set until an administrator exists. The link is shown only to a person at a terminal. */
  claim: { file: string; link: string | null } | null;
  /** Keys created by this start: shown once, or written to a file if the output is not a terminal. */
  made: { kind: "shown"; keys: readonly CreatedKey[] } | { kind: "kept"; count: number; file: string };
  /** The value of `--data` that commands need to find this installation; undefined if none is needed. */
  data: string | undefined;
  paint: Paint;
}

export interface CreatedKey {
  name: string;
  secret: string;
}

export function startupText(facts: StartupFacts): string {
  const { bold, dim, green } = facts.paint;
  const lines = [
    "",
    `  ${bold("Model Gateway")} ${dim(facts.version)}   ${green("ready")} ${dim(`in ${facts.readyMs} ms`)}`,
    "",
    `  ${dim("API     ")} ${facts.url}/v1`,
    `  ${dim("Console ")} ${facts.hasConsole ? `${facts.url}/console/` : "not built: run npm run build"}`,
    ...(facts.publicUrl === null ? [] : [`  ${dim("Public  ")} ${facts.publicUrl}`]),
    `  ${dim("Database")} ${facts.store} ${dim(`(${count(facts.groups, "group")}, ${count(facts.keys, "key")})`)}`,
  ];
  lines.push(...createdKeys(facts));
  if (facts.demoKeyFile !== null) lines.push("", ...buildTryText(facts.url, facts.demoKeyFile, dim));
  if (facts.claim !== null) lines.push("", ...adminClaimText(facts.claim, facts));
  lines.push("", `  ${dim("Press Ctrl+C to stop. Requests in flight finish first.")}`, "");
  return lines.join("\n");
}

/** Empty if no key was created. */
export function createdKeys({ made, paint }: Pick<StartupFacts, "made" | "paint">): string[] {
  if (made.kind === "shown") {
    return made.keys.flatMap(({ name, secret }) => [
      "",
      `  Key ${paint.bold(name)}, shown only once:`,
      `    ${secret}`,
    ]);
  }
  const keys = count(made.count, "new key");
  return ["", `  ${keys} in ${made.file}, readable only by you. Copy the keys and delete the file.`];
}

function adminClaimText(
  { file, link }: NonNullable<StartupFacts["claim"]>,
  { publicUrl, data, paint, hasConsole }: StartupFacts,
): string[] {
  const command = commandText("admin claim", ["--email", "you@example.com"], data);
  if (!hasConsole) return [`  ${paint.dim("Create the administrator (within an hour):")}`, `    ${command}`];
  return [
    `  ${paint.dim("Create the administrator (the link works once, for an hour):")}`,
    link === null ? `    Open the link in ${file}, readable only by you,` : `    Open ${link}`,
    ...(publicUrl === null || link === null
      ? []
      : [`    (from other machines, the same path under ${publicUrl})`]),
    `    or run  ${command}`,
  ];
}

/** The key stays in its file: terminal output ends up in logs and screenshots. */
function buildTryText(url: string, keyFile: string, dim: (text: string) => string): string[] {
  return [
    `  ${dim("Try it with the built-in simulator (add")} "stream": true ${dim("to stream the response):")}`,
    `    curl ${url}/v1/chat/completions \\`,
    `      -H "Authorization: Bearer $(cat ${shellWord(keyFile)})" \\`,
    `      -H "Content-Type: application/json" \\`,
    `      -d '{"model": "sim-fast", "messages": [{"role": "user", "content": "Hello"}]}'`,
  ];
}
