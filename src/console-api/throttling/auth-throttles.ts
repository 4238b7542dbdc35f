/** Slows down guessing: limits the attempts per account and address, and the number of concurrent password hashes. */

import { limits } from "../../config/product-limits.ts";
import { ApiError } from "../../errors.ts";
import type { Clock } from "../../net/wire/clock.ts";
import { openPasswords, type Passwords } from "./password-hashing.ts";
import { addressBlock, openThrottle, type Throttle } from "./throttle.ts";

export interface AuthThrottles {
  readonly passwords: Passwords;
  /** Wrong passwords, codes and links. */
  readonly attempts: Attempts;
  /** Accounts that an address has registered. */
  readonly registrations: Throttle;
  /** Requested e-mails to an address. */
  readonly letters: Throttle;
}

/**
 * Each method runs one attempt and throws if there were too many. Every attempt counts while it runs, so that
 * concurrent ones are limited. Afterwards only those that failed with `wrong_credentials` count.
 */
export interface Attempts {
  /**
   * Attempts for an account from an address: a low limit per address, and a high one in total, because others
   * could lock the owner out.
   */
  of<T>(account: string, clientAddress: string, attempt: () => Promise<T>): Promise<T>;
  /** Attempts of a caller who has already verified one credential: a separate budget, which others cannot exhaust. */
  proven<T>(subject: string, attempt: () => Promise<T>): Promise<T>;
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
  const verifiedAttempts = openThrottle({ tries: accountTries, windowMs, monotonicMs });
  return {
    passwords: openPasswords({ atOnce: limits.passwordsAtOnce, waitingMax: limits.passwordsWaitingMax }),
    attempts: {
      of(account, clientAddress, attempt) {
        const block = addressBlock(clientAddress);
        const where = "for this account";
        return runCounted(
          [
            { throttle: addresses, subject: block, where: "from this address" },
            { throttle: pairs, subject: `${block} ${account}`, where },
            { throttle: accounts, subject: account, where },
          ],
          attempt,
        );
      },
      proven: (subject, attempt) =>
        runCounted([{ throttle: verifiedAttempts, subject, where: "for this account" }], attempt),
    },
    registrations: openThrottle({ tries: limits.registrationsPerDay, windowMs: 86_400_000, monotonicMs }),
    letters: openThrottle({ tries: limits.lettersPerHour, windowMs: 3_600_000, monotonicMs }),
  };
}

async function runCounted<T>(counts: readonly Count[], attempt: () => Promise<T>): Promise<T> {
  const taken: Count[] = [];
  let isWrong = false;
  try {
    for (const count of counts) {
      refuseWait(count.throttle.take(count.subject), count.where);
      taken.push(count);
    }
    return await attempt();
  } catch (thrown) {
    isWrong = thrown instanceof ApiError && thrown.code === "wrong_credentials";
    throw thrown;
  } finally {
    if (!isWrong) for (const { throttle, subject } of taken) throttle.giveBack(subject);
  }
}

function refuseWait(seconds: number | null, scopeText: string): void {
  if (seconds === null) return;
  const minutes = Math.ceil(seconds / 60);
  throw new ApiError(
    "rate_limit_exceeded",
    `Too many attempts ${scopeText}. Try again in ${minutes} minute${minutes === 1 ? "" : "s"}, or ask an administrator for a sign-in link.`,
    { headers: { "retry-after": String(seconds) } },
  );
}
