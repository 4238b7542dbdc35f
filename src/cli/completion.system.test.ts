/** The completion scripts of zsh and fish, and the manual page, as the shells and the formatter read them. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { manPage } from "../../release/deb/man-page.ts";
import { loadAllCommands } from "./commands.ts";
import { completionScript } from "./completion.ts";

const commands = await loadAllCommands();

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "model-gateway-completion-"));
const zshScript = join(folder, "_model-gateway");
const fishScript = join(folder, "model-gateway.fish");

beforeAll(() => {
  writeFileSync(zshScript, completionScript("zsh", commands));
  writeFileSync(fishScript, completionScript("fish", commands));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** In this folder, whose files are completed. */
function run(...command: string[]): string {
  const { stdout, stderr } = Bun.spawnSync(command, {
    cwd: import.meta.dir,
    env: { ...process.env, HOME: folder, TERM: "dumb" },
  });
  expect(stderr.toString()).toBe("");
  return stdout.toString();
}

/** Types a line and a tab in a zsh that has a terminal. What is added to the matches is printed. */
const ZSH = `zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell "PS1=; $1;"' compadd() {
  local -a hits; builtin compadd -A hits "$@"; builtin compadd "$@"; local code=$?
  (( $#hits )) && print -r -- "match="\${^hits}; return $code
}; finish() { zle complete-word; print -r -- "E""ND" }; zle -N finish; bindkey "^I" finish; print "READ""Y"'
zpty -r shell text '*READY*'
zpty -w -n shell "$2"$'\\t'
zpty -r shell text '*END*'
print -r -- "$text"
zpty -d shell`;

const LINES = [
  ["st", ["start"]],
  ["keys ", ["create", "list", "revoke"]],
  ["keys create --sec", ["--secret-file"]],
  ["users disable ada@example.com --d", ["--data"]],
  ["import l", ["litellm"]],
  ["completion z", ["zsh"]],
  ["apply completion.sys", ["completion.system.test.ts"]],
  ["start --config completion.sys", ["completion.system.test.ts"]],
] as const;

describe.each([
  ["source", `autoload -U compinit && compinit -u -D && source ${zshScript}`],
  ["the folder of the Debian package", `fpath=(${folder} $fpath) && autoload -U compinit && compinit -u -D`],
])("zsh completes with the script from %s", (_, setup) => {
  test.each(LINES)("%s", (line, offered) => {
    const output = run("zsh", "-f", "-c", ZSH, "zsh", setup, `model-gateway ${line}`);
    const matches = [...output.matchAll(/match=(\S+)/g)].map(([, match]) => match);
    expect([...new Set(matches)]).toEqual([...offered]);
  });
});

test.each(LINES)("fish completes %s", (line, offered) => {
  const output = run(
    "fish",
    "--no-config",
    "-c",
    `source ${fishScript}; complete -C 'model-gateway ${line}'`,
  );
  const words = output
    .trim()
    .split("\n")
    .map((match) => match.split("\t")[0]);
  expect(words).toEqual([...offered]);
});

test("the formatter accepts the manual page", () => {
  const file = join(folder, "model-gateway.1");
  writeFileSync(file, manPage(commands, { version: "1.2.3", date: "2027-01-31" }));
  const page = run("groff", "-man", "-Tascii", "-P-c", "-P-b", "-P-o", "-P-u", "-ww", file);
  expect(page).toContain("keys revoke PUBLIC_ID");
});
