/** What keeps guessing slow: how often an account or an address may try, and how many passwords are hashed at once. */

import { limits } from "../../config/product-limits.ts";
import { ApiError } from "../../errors.ts";
import type { Clock } from "../../net/wire/clock.ts";
import { openPasswords, type Passwords } from "./password-hashing.ts";
import { addressBlock, openThrottle, type Throttle } from "./throttle.ts";

export interface AuthThrottles {
  readonly passwords: Passwords;
  /** Wrong passwords, codes and links. */
  readonly attempts: Attempts;
  /** Accounts that an address has opened. */
  readonly registrations: Throttle;
  /** Messages that somebody asked to be sent to an address of mail. */
  readonly letters: Throttle;
}

/**
 * Each runs one try and throws when there were too many. Only one that ends with `wrong_credentials` counts in the end;
 * all are counted while they run, so that many at once are many.
 */
export interface Attempts {
  /** Of an account by whoever is at an address: few from there, and many before others keep its owner out. */
  of<T>(account: string, clientAddress: string, tryOut: () => Promise<T>): Promise<T>;
  /** For somebody who has proved something already: a separate budget, which strangers cannot use up. */
  proven<T>(subject: string, tryOut: () => Promise<T>): Promise<T>;
}

interface Count {
  throttle: Throttle;
  subject: string;
  where: string;
}

export function openAuthThrottles({ monotonicMs }: Pick<Clock, "monotonicMs">): AuthThrottles {
  const { accountTries, addressTries, accountTriesAnywhere, windowMs } = limits.signIn;
  const addresses = openThrottle({ tries: addressTries, windowMs, monotonicMs });
  const pairs = openThrottle({ tries: accountTries, windowMs, monotonicMs });
  const accounts = openThrottle({ tries: accountTriesAnywhere, windowMs, monotonicMs });
  const proven = openThrottle({ tries: accountTries, windowMs, monotonicMs });
  return {
    passwords: openPasswords({ atOnce: limits.passwordsAtOnce, waitingMax: limits.passwordsWaitingMax }),
    attempts: {
      of(account, clientAddress, tryOut) {
        const block = addressBlock(clientAddress);
        const where = "for this account";
        return counted(
          [
            { throttle: addresses, subject: block, where: "from this address" },
            { throttle: pairs, subject: `${block} ${account}`, where },
            { throttle: accounts, subject: account, where },
          ],
          tryOut,
        );
      },
      proven: (subject, tryOut) =>
        counted([{ throttle: proven, subject, where: "for this account" }], tryOut),
    },
    registrations: openThrottle({ tries: limits.registrationsPerDay, windowMs: 86_400_000, monotonicMs }),
    letters: openThrottle({ tries: limits.lettersPerHour, windowMs: 3_600_000, monotonicMs }),
  };
}

async function counted<T>(counts: readonly Count[], tryOut: () => Promise<T>): Promise<T> {
  const taken: Count[] = [];
  let isWrong = false;
  try {
    for (const count of counts) {
      refuseWait(count.throttle.take(count.subject), count.where);
      taken.push(count);
    }
    return await tryOut();
  } catch (thrown) {
    isWrong = thrown instanceof ApiError && thrown.code === "wrong_credentials";
    throw thrown;
  } finally {
    if (!isWrong) for (const { throttle, subject } of taken) throttle.giveBack(subject);
  }
}

function refuseWait(seconds: number | null, where: string): void {
  if (seconds === null) return;
  const minutes = Math.ceil(seconds / 60);
  throw new ApiError(
    "rate_limit_exceeded",
    `Too many attempts ${where}. Try again in ${minutes} minute${minutes === 1 ? "" : "s"}, or ask an administrator for a sign-in link.`,
    { headers: { "retry-after": String(seconds) } },
  );
}
