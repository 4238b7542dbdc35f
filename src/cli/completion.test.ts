/** The completion script of bash as the shell reads it, and what every script and the manual page contain. */

import { expect, test } from "bun:test";
import { manPage } from "../../release/deb/man-page.ts";
import { loadAllCommands } from "./commands.ts";
import { completionScript } from "./completion.ts";

const commands = await loadAllCommands();

/** What bash offers after these words; the last one is being typed. */
function complete(...words: string[]): string[] {
  const script = `${completionScript("bash", commands)}
COMP_WORDS=(model-gateway "$@")
COMP_CWORD=$#
_model_gateway
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = Bun.spawnSync(["bash", "-c", script, "bash", ...words], {
    cwd: import.meta.dir,
  });
  expect(stderr.toString()).toBe("");
  return stdout.toString().trim().split("\n");
}

test("bash completes commands, their second words, their options and files", () => {
  expect(complete("st")).toEqual(["start"]);
  expect(complete("keys", "")).toEqual(["create", "list", "revoke"]);
  expect(complete("keys", "create", "--sec")).toEqual(["--secret-file"]);
  expect(complete("users", "disable", "ada@example.com", "--d")).toEqual(["--data"]);
  expect(complete("apply", "completion.te")).toEqual(["completion.test.ts"]);
  expect(complete("start", "--config", "completion.te")).toEqual(["completion.test.ts"]);
  expect(complete("completion", "z")).toEqual(["zsh"]);
  expect(complete("import", "l")).toEqual(["litellm"]);
});

test("every script and the manual page name every command and option", () => {
  const page = manPage(commands, { version: "1.2.3", date: "2027-01-31" });
  const fish = completionScript("fish", commands);
  for (const { words, options } of commands) {
    expect(page).toContain(`.SS ${words.replaceAll("-", "\\-")}`);
    for (const name of Object.keys(options)) expect(fish).toContain(` -l ${name}`);
  }
  expect(completionScript("zsh", commands)).toStartWith("#compdef model-gateway\n");
});
