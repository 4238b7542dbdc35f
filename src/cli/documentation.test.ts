/** Every command line in the documentation is valid. */

import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { helpText } from "./command.ts";
import { openCommandLine } from "./command-line.test-support.ts";
import { loadAllCommands } from "./commands.ts";

const ROOT = resolve(import.meta.dir, "../..");
const PAGES = [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync(join(ROOT, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
].map((name) => ({ name, text: readFileSync(join(ROOT, name), "utf8") }));

const { runOk: done } = openCommandLine();

/** `keys create`, `start` and so on, from the overview. */
async function commands(): Promise<string[]> {
  const lines = (await done("--help")).split("\n").filter((line) => line.startsWith("  "));
  return lines.map((line) => /^ {2}([a-z-]+(?: [a-z-]+)?)/.exec(line)?.[1] ?? line);
}

test("no shell command contains a comment, because zsh treats it as arguments", () => {
  const commented = PAGES.flatMap(({ name, text }) =>
    [...text.matchAll(/```sh\n(.*?)```/gs)]
      .flatMap(([, block = ""]) => block.split("\n"))
      .filter((line) => /(^|\s)#/.test(line))
      .map((line) => `${name}: ${line}`),
  );
  expect(commented).toEqual([]);
});

/** Where the executable is on the PATH. */
const WITHOUT_NPX = ["docs/install.md", "docs/offline.md"];

test("every command on a page exists, and is called with npx where no executable is installed", async () => {
  const known = await commands();
  const isKnown = (words: string) =>
    known.some(
      (command) => command === words || words.startsWith(`${command} `) || command.startsWith(`${words} `),
    );
  const strange = PAGES.flatMap(({ name, text }) =>
    [...text.matchAll(/(npx )?(?<![/\w-])model-gateway ([a-z][a-z-]*(?: [a-z][a-z-]*)?)/g)]
      .filter(([, npx, words = ""]) => (npx === undefined && !WITHOUT_NPX.includes(name)) || !isKnown(words))
      .map(([found]) => `${name}: ${found}`),
  );
  expect(strange).toEqual([]);
});

test("every option that a help text names exists", async () => {
  const help = (await loadAllCommands()).map(helpText).join("\n");
  const options = new Set([...help.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, option]) => option));
  const named = [...help.matchAll(/(?<![\w-])--[a-z-]+/g)].map(([option]) => option);
  expect(named.filter((option) => !options.has(option))).toEqual([]);
});

test("the README lists every command", async () => {
  const readme = PAGES.find(({ name }) => name === "README.md")?.text ?? "";
  const [, section = ""] = readme.split("## Commands\n");
  const [list = ""] = section.split("\n## ");
  const listed = [...list.matchAll(/`([a-z-]+)(?: ([a-z|-]+))?`/g)].flatMap(([, first = "", rest]) =>
    rest === undefined ? [first] : rest.split("|").map((second) => `${first} ${second}`),
  );
  expect((await commands()).filter((command) => !listed.includes(command))).toEqual([]);
});
