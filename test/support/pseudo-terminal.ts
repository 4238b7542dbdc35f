/** A program in a pseudo-terminal: what it shows as plain text, and keys for it. */

import { eventually } from "./eventually.ts";

/** A program starts slowly on a busy machine. */
const WITHIN_MS = 60_000;

export const KEYS = { enter: "\r", up: "\x1b[A" } as const;

export interface ProgramInTerminal {
  /** Waits until the program has shown this since the last key. */
  shows(text: RegExp): Promise<RegExpMatchArray>;
  type(keys: string): void;
  stop(): Promise<void>;
}

interface ProgramOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

export function startInTerminal(command: readonly string[], { cwd, env }: ProgramOptions): ProgramInTerminal {
  let shown = "";
  const decoder = new TextDecoder();
  const child = Bun.spawn([...command], {
    cwd,
    env: { ...env, TERM: "xterm-256color" },
    terminal: {
      cols: 160,
      rows: 50,
      data(_terminal, data) {
        shown += decoder.decode(data, { stream: true });
      },
    },
  });
  return {
    shows(text) {
      // Programs move the cursor instead of writing spaces, so patterns should allow for missing ones.
      return eventually(() => toPlainText(shown).match(text), WITHIN_MS).catch(() => {
        throw new Error(`The program did not show ${text}. It showed:\n${toPlainText(shown).slice(-2_000)}`);
      });
    },
    type(keys) {
      shown = "";
      child.terminal?.write(keys);
    },
    async stop() {
      child.kill();
      await child.exited;
    },
  };
}

function toPlainText(shown: string): string {
  return Bun.stripANSI(shown);
}
