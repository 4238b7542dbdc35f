/** The tokens of this computer: one file that only its user can read, and a lock for changing it. */

import { Database } from "bun:sqlite";
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { fail } from "../command.ts";

const tokensSchema = z.object({
  access_token: z.string(),
  /** Milliseconds since 1970. */
  expires_at: z.number(),
  refresh_token: z.string(),
  revocation_endpoint: z.string(),
  token_endpoint: z.string(),
});
export type StoredTokens = z.output<typeof tokensSchema>;

const fileSchema = z.object({ gateways: z.record(z.string(), tokensSchema) });

/** How long a command waits for another one that refreshes. */
const LOCK_WAIT_MS = 60_000;

export class ToolCredentials {
  readonly #folder: string;

  constructor({ XDG_CONFIG_HOME, HOME }: Readonly<Record<string, string | undefined>>) {
    this.#folder = join(XDG_CONFIG_HOME || join(HOME || homedir(), ".config"), "model-gateway");
  }

  get path(): string {
    return join(this.#folder, "credentials.json");
  }

  read(): ReadonlyMap<string, StoredTokens> {
    let text: string;
    try {
      text = readFileSync(this.path, "utf8");
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return new Map();
      throw error;
    }
    try {
      return new Map(Object.entries(fileSchema.parse(JSON.parse(text)).gateways));
    } catch {
      return fail(`${this.path} is damaged.`, "Delete the file and sign in again.");
    }
  }

  /** Call it only inside `exclusively`. Null removes the tokens. */
  write(url: string, tokens: StoredTokens | null): void {
    const gateways = new Map(this.read());
    if (tokens === null) gateways.delete(url);
    else gateways.set(url, tokens);
    const text = JSON.stringify({ gateways: Object.fromEntries(gateways) }, null, 2);
    // Replaced as a whole: a command that reads it meanwhile sees the old or the new tokens.
    writeFileSync(`${this.path}.new`, `${text}\n`, { mode: 0o600 });
    chmodSync(`${this.path}.new`, 0o600);
    renameSync(`${this.path}.new`, this.path);
  }

  /** Runs one command at a time. The kernel releases the lock of a process that ends. */
  async exclusively<Result>(work: () => Promise<Result>): Promise<Result> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const lockPath = join(this.#folder, "credentials.lock");
    writeFileSync(lockPath, "", { flag: "a", mode: 0o600 });
    const lock = new Database(lockPath);
    try {
      lock.run(`PRAGMA busy_timeout = ${LOCK_WAIT_MS}`);
      lock.run("BEGIN IMMEDIATE");
      return await work();
    } finally {
      lock.close();
    }
  }
}
