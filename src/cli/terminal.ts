/** Terminal output. Colours are used only on a terminal that supports them. */

export interface Paint {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
}

export interface Terminal {
  /** Standard output: the result. */
  print(text?: string): void;
  /** Standard error: errors, and remarks that must not go into a pipe. */
  printNote(text: string): void;
  paint: Paint;
  /** Whether standard output is a terminal, and not a pipe or a file. */
  isInteractive: boolean;
}

const plain: Paint = { bold: identity, dim: identity, red: identity, green: identity, yellow: identity };
const coloured: Paint = {
  bold: style(1, 22),
  dim: style(2, 22),
  red: style(31, 39),
  green: style(32, 39),
  yellow: style(33, 39),
};

export function openTerminal(environment: Readonly<Record<string, string | undefined>>): Terminal {
  ignoreClosedPipes();
  // no-color.org: disabled if the variable is set and not empty.
  const colorAllowed = !environment.NO_COLOR && environment.TERM !== "dumb";
  return {
    print: (text = "") => void process.stdout.write(`${text}\n`),
    printNote: (text) => void process.stderr.write(`${text}\n`),
    paint: colorAllowed && process.stdout.isTTY ? coloured : plain,
    isInteractive: process.stdout.isTTY === true,
  };
}

/**
 * The reader of a pipe may stop early, as `head` does: the command continues silently. Other write errors, such as a
 * full disk, make the exit code 1, but must not end a server.
 */
function ignoreClosedPipes(): void {
  let isLost = false;
  process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
    if (code === "EPIPE" || isLost) return;
    isLost = true;
    process.stderr.write(`model-gateway: the output could not be written (${code}).\n`);
  });
  // An error of standard error cannot be reported anywhere.
  process.stderr.on("error", () => {});
  process.on("exit", () => {
    if (isLost) process.exitCode ||= 1;
  });
}

/** Aligns columns by display width, so that colours and wide characters count correctly. */
export function table(header: readonly string[], rows: readonly (readonly string[])[], paint: Paint): string {
  const widths = header.map((title, column) =>
    Math.max(Bun.stringWidth(title), ...rows.map((row) => Bun.stringWidth(row[column] ?? ""))),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell + " ".repeat(Math.max(0, (widths[column] ?? 0) - Bun.stringWidth(cell))))
      .join("  ")
      .trimEnd();
  return [line(header.map((title) => paint.dim(title))), ...rows.map(line)].join("\n");
}

export function count(number: number, noun: string): string {
  const plural = `${noun.replace(/([^aeiou])y$/, "$1ie")}s`;
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

function identity(text: string): string {
  return text;
}

function style(on: number, off: number): (text: string) => string {
  return (text) => `\x1b[${on}m${text}\x1b[${off}m`;
}
