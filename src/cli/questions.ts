/** Asks a person at a terminal, on standard error, so that the output of the command stays clean. */

import { createInterface } from "node:readline/promises";
import { Failure, fail, type Input } from "./command.ts";

export function requireTerminal(what: string, hint: string): void {
  if (!process.stdin.isTTY) fail(`${what}, because standard input is not a terminal.`, hint);
}

/** Returns the typed line without surrounding spaces, or `otherwise` if it is empty. */
export async function askLine(prompt: string, otherwise: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const typed = (await lines.question(`${prompt} [${otherwise}]: `)).trim();
    return typed === "" ? otherwise : typed;
  } catch {
    throw interruption();
  } finally {
    lines.close();
  }
}

/** As shells count a command that Ctrl+C has ended. */
const INTERRUPTED_CODE = 130;

function interruption(): Failure {
  return new Failure("The question was not answered.", null, INTERRUPTED_CODE);
}

/** Ctrl+C and Ctrl+D. */
const INTERRUPTS = ["\x03", "\x04"];
const BACKSPACE = ["\x7f", "\b"];

/** The typed text is not shown. */
export function askSecret(prompt: string, { terminal }: Pick<Input, "terminal">): Promise<string> {
  const { stdin } = process;
  // Before the prompt: a terminal shows what is typed ahead.
  stdin.setRawMode(true);
  process.stderr.write(prompt);
  stdin.setEncoding("utf8");
  stdin.resume();
  return new Promise((resolve, reject) => {
    let text = "";
    const end = () => {
      stdin.off("data", take);
      stdin.setRawMode(false);
      stdin.pause();
      terminal.printNote("");
    };
    const take = (chunk: string) => {
      for (const character of chunk) {
        if (INTERRUPTS.includes(character)) {
          end();
          reject(interruption());
          return;
        }
        if (character === "\r" || character === "\n") {
          end();
          resolve(text);
          return;
        }
        text = BACKSPACE.includes(character) ? text.slice(0, -1) : text + character;
      }
    };
    stdin.on("data", take);
  });
}
