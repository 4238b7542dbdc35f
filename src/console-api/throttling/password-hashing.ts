/** argon2id, a few at a time: each takes 64 MB and a core, and anybody can ask for one. */

import { ApiError } from "../../errors.ts";

export interface Passwords {
  hash(password: string): Promise<string>;
  /** Takes as long for somebody who does not exist, or has no password, as for everybody else. */
  verify(password: string, hash: string | null): Promise<boolean>;
}

export interface PasswordsOptions {
  atOnce: number;
  /** More than so many in line are sent away. */
  waitingMax: number;
}

/** Of a password that nobody knows, with the same parameters as every other. */
const NOBODY =
  "$argon2id$v=19$m=65536,t=2,p=1$CV8Vx42lrleYfM8cLH1aC1xmXI0YdXLtnQn+0eLrvzE$Ky/b9cDIjM0cyE4Safyr2nno+4LXu1AIl3mx3q/aCRM";

export function openPasswords({ atOnce, waitingMax }: PasswordsOptions): Passwords {
  let running = 0;
  const line: (() => void)[] = [];

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running >= atOnce) {
      if (line.length >= waitingMax) {
        throw new ApiError(
          "server_is_overloaded",
          "Too many people are signing in at this moment. Try again in a few seconds.",
          { headers: { "retry-after": "5" } },
        );
      }
      // Whoever leaves hands over: the number running stays.
      await new Promise<void>((resolve) => line.push(resolve));
    } else running += 1;
    try {
      return await work();
    } finally {
      const next = line.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  }

  return {
    hash: (password) => inTurn(() => Bun.password.hash(password, "argon2id")),
    verify: (password, hash) =>
      inTurn(async () => {
        const right = await Bun.password.verify(password, hash ?? NOBODY);
        return right && hash !== null;
      }),
  };
}
