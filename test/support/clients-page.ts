/** The code blocks of docs/clients.md, and a home folder in which they run exactly as printed. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { TEST_KEY } from "./running-gateway.ts";

export const CLIENTS = resolve(import.meta.dir, "../clients");
const PAGE = readFileSync(resolve(import.meta.dir, "../../docs/clients.md"), "utf8");

/** The addresses that the page uses for the gateway. */
const ADDRESSES = ["http://127.0.0.1:8787", "https://gateway.example.com"];

export class ClientsPage {
  readonly #url: string;
  readonly #home = mkdtempSync(join(tmpdir(), "clients-page-"));

  constructor(gatewayUrl: string) {
    this.#url = gatewayUrl;
    symlinkSync(join(CLIENTS, "node_modules"), join(this.#home, "node_modules"));
    mkdirSync(join(this.#home, "bin"));
  }

  /** A block by its label (`sh gemini-cli`), with the address of the gateway. */
  block(label: string): string {
    const [, text] = new RegExp(`\`\`\`${label}\\n(.*?)\`\`\``, "s").exec(PAGE) ?? [];
    if (text === undefined) throw new Error(`the page has no block ${label}`);
    return ADDRESSES.reduce((block, address) => block.replaceAll(address, this.#url), text);
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.#home, path)), { recursive: true });
    writeFileSync(join(this.#home, path), text);
  }

  /** A command that a user has installed. */
  install(name: string, command: string): void {
    writeFileSync(join(this.#home, "bin", name), `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 });
  }

  /** Returns the output of the command. */
  async run(command: readonly string[], environment: Readonly<Record<string, string>> = {}): Promise<string> {
    const child = Bun.spawn([...command], {
      cwd: this.#home,
      env: {
        PATH: `${join(this.#home, "bin")}:${process.env.PATH}`,
        HOME: this.#home,
        MODEL_GATEWAY_KEY: TEST_KEY,
        ...environment,
      },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [output, errors] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    if ((await child.exited) !== 0) throw new Error(`${errors}\n${output}`);
    return output;
  }

  remove(): void {
    rmSync(this.#home, { recursive: true, force: true });
  }
}
