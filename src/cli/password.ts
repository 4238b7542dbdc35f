/** Reads a password for a command. */

import { limits } from "../config/limits/product-limits.ts";
import { isPassword, PASSWORD_RULE } from "../config/schema/schema.ts";
import { fail, type Input } from "./command.ts";

/**
 * Reads from standard input if requested, otherwise prompts twice without echo. Never from an argument: those are
 * visible to other processes.
 */
export async function readPassword(input: Input): Promise<string> {
  const password = input.flag("password-stdin") ? await readStdin() : await promptTwice(input);
  if (!isPassword(password)) fail(`The password must be ${PASSWORD_RULE}.`);
  return password;
}

async function readStdin(): Promise<string> {
  const text = await new Response(Bun.stdin.stream()).text();
  return text.replace(/\r?\n$/, "");
}

async function promptTwice(input: Input): Promise<string> {
  if (!process.stdin.isTTY) {
    fail(
      "The password cannot be entered, because standard input is not a terminal.",
      "Pipe the password in with --password-stdin.",
    );
  }
  const password = await readTyped(`Password (at least ${limits.passwordCharsMin} characters): `, input);
  if ((await readTyped("Again: ", input)) !== password) fail("The passwords do not match.");
  return password;
}

const CTRL_C = "\x03";
const BACKSPACE = ["\x7f", "\b"];

function readTyped(prompt: string, { terminal }: Input): Promise<string> {
  process.stderr.write(prompt);
  const { stdin } = process;
  stdin.setRawMode(true);
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
        if (character === CTRL_C) {
          end();
          reject(new Error("interrupted"));
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
