/** Hashes passwords with argon2id, a few at a time: each takes 64 MB and a core, and public routes cause it. */

import { ApiError } from "../../errors.ts";

export interface Passwords {
  hash(password: string): Promise<string>;
  /** Takes the same time for a user who does not exist or has no password. */
  verify(password: string, hash: string | null): Promise<boolean>;
}

interface PasswordsOptions {
  concurrency: number;
  /** If more than this number wait, further ones are rejected. */
  waitingMax: number;
}

/** The hash of an unknown password, with the same parameters as every other hash. */
const DUMMY_HASH =
  "$argon2id$v=19$m=65536,t=2,p=1$CV8Vx42lrleYfM8cLH1aC1xmXI0YdXLtnQn+0eLrvzE$Ky/b9cDIjM0cyE4Safyr2nno+4LXu1AIl3mx3q/aCRM";

export function openPasswords({ concurrency: atOnce, waitingMax }: PasswordsOptions): Passwords {
  let running = 0;
  const queue: (() => void)[] = [];

  async function runInTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running >= atOnce) {
      if (queue.length >= waitingMax) {
        throw new ApiError(
          "server_is_overloaded",
          "Too many users are signing in at the moment. Try again in a few seconds.",
          { headers: { "retry-after": "5" } },
        );
      }
      // A finishing call passes its slot on, so `running` stays the same.
      await new Promise<void>((resolve) => queue.push(resolve));
    } else running += 1;
    try {
      return await work();
    } finally {
      const next = queue.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  }

  return {
    hash: (password) => runInTurn(() => Bun.password.hash(password, "argon2id")),
    verify: (password, hash) =>
      runInTurn(async () => {
        const isRight = await Bun.password.verify(password, hash ?? DUMMY_HASH);
        return isRight && hash !== null;
      }),
  };
}
