/** `model-gateway completion`: prints the completion script of a shell, generated from the table of commands. */

import { type Command, misuse, type Option } from "./command.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];
const NAME = "model-gateway";
const COMPLETION = "completion";

/** `listCommands` returns the table that contains this command. */
export function completionCommand(listCommands: () => readonly Command[]): Command {
  return {
    words: COMPLETION,
    summary: "Print the completion script of a shell",
    changes: "nothing",
    about: `The Debian package installs the scripts. Elsewhere:

  bash   source <(${NAME} completion bash)
  zsh    source <(${NAME} completion zsh)
  fish   ${NAME} completion fish | source`,
    positionals: ["SHELL"],
    options: {},
    async run({ require, terminal }) {
      const shell = SHELLS.find((one) => one === require("SHELL"));
      if (shell === undefined) misuse(`SHELL must be ${SHELLS.join(", ")}.`, "For example: completion bash");
      terminal.print(completionScript(shell, listCommands()));
      return 0;
    },
  };
}

export function completionScript(shell: Shell, commands: readonly Command[]): string {
  return shell === "fish" ? fishScript(commands) : bashScript(commands, shell);
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
    if (command.words === COMPLETION) for (const shell of SHELLS) add(command.words, shell);
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

/** The same script for zsh, which has the functions of bash after `bashcompinit`. */
function bashScript(commands: readonly Command[], shell: "bash" | "zsh"): string {
  const isWhole = (words: string) => commands.some((command) => command.words === words);
  const cases = [...listContinuations(commands)].map(([words, next]) => {
    // Positional values may stand between a command and its options.
    const pattern = isWhole(words) ? `"${words}" | "${words} "*` : `"${words}"`;
    return `    ${pattern}) next="${next.join(" ")}" ;;`;
  });
  const header = shell === "zsh" ? `#compdef ${NAME}\nautoload -U +X bashcompinit && bashcompinit\n` : "";
  return `${header}_model_gateway() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" words="" next="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) break ;; esac
    words="\${words:+$words }$word"
  done
  case "$previous" in
    ${listPathOptions(commands).join(" | ")}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case "$words" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$next" -- "$current"))
  [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}
complete -o filenames -F _model_gateway ${NAME}`;
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
      for (const [name, { value, about: text }] of listOptions(command)) {
        const kind = value === undefined ? "" : value === "FILE" || value === "FOLDER" ? " -r -F" : " -x";
        lines.push(`complete -c ${NAME} -n ${quote(condition)} -l ${name}${kind} -d ${quote(text)}`);
      }
    }
  }
  lines.push(
    `complete -c ${NAME} -n ${quote(`__fish_seen_subcommand_from ${COMPLETION}`)} -a ${quote(SHELLS.join(" "))}`,
  );
  return lines.join("\n");
}
