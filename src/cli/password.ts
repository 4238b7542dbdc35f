/** Reads a password for a command. */

import { limits } from "../config/limits/product-limits.ts";
import { isPassword, PASSWORD_RULE } from "../config/schema/people.ts";
import { fail, type Input } from "./command.ts";
import { askSecret, requireTerminal } from "./questions.ts";

/** Reads standard input if requested, otherwise prompts twice. Never an argument: those are visible. */
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
  requireTerminal("The password cannot be entered", "Pipe the password in with --password-stdin.");
  const password = await askSecret(`Password (at least ${limits.passwordCharsMin} characters): `, input);
  if ((await askSecret("Again: ", input)) !== password) fail("The passwords do not match.");
  return password;
}
