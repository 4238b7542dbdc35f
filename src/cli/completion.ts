/** `model-gateway completion`: prints the completion script of a shell, generated from the table of commands. */

import { type Command, type CommandDefinition, misuse, type Option } from "./command.ts";
import { SOURCES } from "./import/imported.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];
const NAME = "model-gateway";

/** `loadCommands` returns all commands, with this one. */
export function completionCommand(loadCommands: () => Promise<readonly Command[]>): CommandDefinition {
  return {
    changes: "nothing",
    about: `The Debian package installs the scripts. Elsewhere:

  bash   source <(${NAME} completion bash)
  zsh    source <(${NAME} completion zsh)
  fish   ${NAME} completion fish | source`,
    options: {},
    async run({ require, terminal }) {
      const shell = SHELLS.find((one) => one === require("SHELL"));
      if (shell === undefined) misuse(`SHELL must be ${SHELLS.join(", ")}.`, "For example: completion bash");
      terminal.print(completionScript(shell, await loadCommands()));
      return;
    },
  };
}

const SCRIPTS: Readonly<Record<Shell, (commands: readonly Command[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** Values that are one of a few words. */
const WORDS: Readonly<Record<string, readonly string[]>> = { SHELL: SHELLS, SOURCE: SOURCES };

/** The words that may stand first after a command. */
function listFirstWords({ positionals: [first = ""] = [] }: Command): readonly string[] {
  return WORDS[first] ?? [];
}

export function completionScript(shell: Shell, commands: readonly Command[]): string {
  return SCRIPTS[shell](commands);
}

/** The words of a command, and what may follow them. */
function listOptions({ options }: Command): [name: string, option: Option][] {
  return [...Object.entries(options), ["help", { about: "show this help" }]];
}

/** What may be typed after each beginning of a command: further words, or options. */
function listContinuations(commands: readonly Command[]): Map<string, string[]> {
  const after = new Map<string, string[]>();
  const add = (words: string, next: string) => {
    const known = after.get(words) ?? [];
    if (!known.includes(next)) after.set(words, [...known, next]);
  };
  for (const command of commands) {
    const [first = "", second] = command.words.split(" ");
    add("", first);
    if (second !== undefined) add(first, second);
    for (const [name] of listOptions(command)) add(command.words, `--${name}`);
    for (const word of listFirstWords(command)) add(command.words, word);
  }
  return after;
}

/** Options whose value is a file or a folder. */
function listPathOptions(commands: readonly Command[]): string[] {
  const names = commands.flatMap((command) =>
    listOptions(command)
      .filter(([, { value }]) => value === "FILE" || value === "FOLDER")
      .map(([name]) => `--${name}`),
  );
  return [...new Set(names)];
}

/** A `case` statement that sets `next` from `words`. The patterns and the arrays of bash and zsh are the same. */
function writeCases(commands: readonly Command[]): string {
  const isWhole = (words: string) => commands.some((command) => command.words === words);
  const cases = [...listContinuations(commands)].map(([words, next]) => {
    // Positional values may stand between a command and its options.
    const pattern = isWhole(words) ? `"${words}" | "${words} "*` : `"${words}"`;
    return `    ${pattern}) next=(${next.join(" ")}) ;;`;
  });
  return `  case "$typed" in
${cases.join("\n")}
  esac`;
}

function bashScript(commands: readonly Command[]): string {
  return `_model_gateway() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" typed="" word
  local -a next=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) break ;; esac
    typed="\${typed:+$typed }$word"
  done
  case "$previous" in
    ${listPathOptions(commands).join(" | ")}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
${writeCases(commands)}
  COMPREPLY=($(compgen -W "\${next[*]}" -- "$current"))
  [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _model_gateway ${NAME}`;
}

/** As a file of zsh's completion system, the script is the body of the function that is called; sourced, it registers it. */
function zshScript(commands: readonly Command[]): string {
  return `#compdef ${NAME}
_model_gateway() {
  local previous="\${words[CURRENT-1]}" typed="" word
  local -a next
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$word" in -*) break ;; esac
    typed="\${typed:+$typed }$word"
  done
  case "$previous" in
    ${listPathOptions(commands).join(" | ")}) _files; return ;;
  esac
${writeCases(commands)}
  compadd -a next || _files
}
if [ "$funcstack[1]" = "_${NAME}" ]; then _model_gateway "$@"; else compdef _model_gateway ${NAME}; fi`;
}

function fishScript(commands: readonly Command[]): string {
  const quote = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const families = new Map<string, Command[]>();
  for (const command of commands) {
    const [first = ""] = command.words.split(" ");
    families.set(first, [...(families.get(first) ?? []), command]);
  }
  const lines = [`complete -c ${NAME} -f`];
  for (const [first, family] of families) {
    const [only] = family;
    const about = family.length === 1 ? only?.summary : family.map(({ summary }) => summary).join("; ");
    lines.push(`complete -c ${NAME} -n __fish_use_subcommand -a ${first} -d ${quote(about ?? "")}`);
    for (const command of family) {
      const second = command.words.split(" ")[1];
      const isSeen = `__fish_seen_subcommand_from ${first}`;
      if (second !== undefined)
        lines.push(`complete -c ${NAME} -n ${quote(isSeen)} -a ${second} -d ${quote(command.summary)}`);
      const condition =
        second === undefined ? isSeen : `${isSeen}; and __fish_seen_subcommand_from ${second}`;
      const [word] = command.positionals ?? [];
      const words = listFirstWords(command);
      if (words.length > 0)
        lines.push(`complete -c ${NAME} -n ${quote(condition)} -a ${quote(words.join(" "))}`);
      if (word === "FILE") lines.push(`complete -c ${NAME} -n ${quote(condition)} -F`);
      for (const [name, { value, about: text }] of listOptions(command)) {
        const kind = value === undefined ? "" : value === "FILE" || value === "FOLDER" ? " -r -F" : " -x";
        lines.push(`complete -c ${NAME} -n ${quote(condition)} -l ${name}${kind} -d ${quote(text)}`);
      }
    }
  }
  return lines.join("\n");
}
