/** Slows down guessing: limits the attempts per account and address, and the number of concurrent password hashes. */

import type { Clock } from "../../base/clock.ts";
import { ApiError } from "../../errors.ts";
import type { SharedCounts } from "../../nodes/throttle-sharing.ts";
import { openPasswords, type Passwords } from "./password-hashing.ts";
import { addressBlock, openThrottle, type Throttle } from "./throttle.ts";

export interface AuthThrottles {
  readonly passwords: Passwords;
  /** Wrong passwords, codes and links. */
  readonly attempts: Attempts;
  /** Accounts that an address has registered. */
  readonly registrations: Throttle;
  readonly emails: Throttle;
  /** Starts and ends of sign-ins at providers, from an address. */
  readonly providerSignIns: Throttle;
  /** Sign-ins of tools: requests and starts of an address, and wrong codes of an address or a person. */
  readonly tools: { readonly requests: Throttle; readonly starts: Throttle; readonly wrongCodes: Throttle };
}

/**
 * Each method runs one attempt and throws if there were too many. Every attempt counts while it runs, so that
 * concurrent ones are limited. Afterwards only those that failed with `wrong_credentials` count.
 */
interface Attempts {
  /** A low limit per address, and a high one in total, because others could lock the owner out. */
  forAccount<T>(account: string, clientAddress: string, attempt: () => Promise<T>): Promise<T>;
  /** Attempts of a caller who has already verified one credential: a separate budget, which others cannot exhaust. */
  forVerifiedCaller<T>(subject: string, attempt: () => Promise<T>): Promise<T>;
}

interface ThrottledSubject {
  throttle: Throttle;
  subject: string;
  scopeText: string;
}

interface AuthThrottleLimits {
  signIn: { accountTries: number; addressTries: number; accountTriesAllAddresses: number; windowMs: number };
  concurrentPasswordHashesMax: number;
  waitingPasswordHashesMax: number;
  registrationsPerDay: number;
  emailsPerHour: number;
  companySignIn: { attempts: ThrottleWindow };
  toolSignIn: { requests: ThrottleWindow; starts: ThrottleWindow; wrongCodes: ThrottleWindow };
}

interface ThrottleWindow {
  tries: number;
  windowMs: number;
}

/** Connects a throttle with the same one of other nodes; undefined if there are none. */
type ShareThrottle = (name: string) => SharedCounts | undefined;

export function openAuthThrottles(
  limits: AuthThrottleLimits,
  { monotonicMs }: Pick<Clock, "monotonicMs">,
  share: ShareThrottle = () => undefined,
): AuthThrottles {
  const {
    accountTries,
    addressTries,
    accountTriesAllAddresses: accountTriesAnywhere,
    windowMs,
  } = limits.signIn;
  const open = (name: string, tries: number, lengthMs: number) =>
    openThrottle({ tries, windowMs: lengthMs, monotonicMs, shared: share(name) });
  const addresses = open("sign_in_address", addressTries, windowMs);
  const pairs = open("sign_in_pair", accountTries, windowMs);
  const accounts = open("sign_in_account", accountTriesAnywhere, windowMs);
  const verifiedAttempts = open("sign_in_verified", accountTries, windowMs);
  return {
    passwords: openPasswords({
      concurrency: limits.concurrentPasswordHashesMax,
      waitingMax: limits.waitingPasswordHashesMax,
    }),
    attempts: {
      forAccount(account, clientAddress, attempt) {
        const block = addressBlock(clientAddress);
        const scopeText = "for this account";
        return runThrottled(
          [
            { throttle: addresses, subject: block, scopeText: "from this address" },
            { throttle: pairs, subject: `${block} ${account}`, scopeText },
            { throttle: accounts, subject: account, scopeText },
          ],
          attempt,
        );
      },
      forVerifiedCaller: (subject, attempt) =>
        runThrottled([{ throttle: verifiedAttempts, subject, scopeText: "for this account" }], attempt),
    },
    registrations: open("registration", limits.registrationsPerDay, 86_400_000),
    emails: open("email", limits.emailsPerHour, 3_600_000),
    providerSignIns: open(
      "provider_sign_in",
      limits.companySignIn.attempts.tries,
      limits.companySignIn.attempts.windowMs,
    ),
    tools: openToolThrottles(limits.toolSignIn, open),
  };
}

function openToolThrottles(
  { requests, starts, wrongCodes }: AuthThrottleLimits["toolSignIn"],
  open: (name: string, tries: number, lengthMs: number) => Throttle,
): AuthThrottles["tools"] {
  return {
    requests: open("tool_request", requests.tries, requests.windowMs),
    starts: open("tool_start", starts.tries, starts.windowMs),
    wrongCodes: open("tool_code", wrongCodes.tries, wrongCodes.windowMs),
  };
}

async function runThrottled<T>(counts: readonly ThrottledSubject[], attempt: () => Promise<T>): Promise<T> {
  const taken: ThrottledSubject[] = [];
  let isWrong = false;
  try {
    for (const count of counts) {
      rejectIfWaiting(count.throttle.take(count.subject), count.scopeText);
      taken.push(count);
    }
    return await attempt();
  } catch (thrown) {
    isWrong = thrown instanceof ApiError && thrown.code === "wrong_credentials";
    throw thrown;
  } finally {
    if (!isWrong) for (const { throttle, subject } of taken) throttle.release(subject);
  }
}

function rejectIfWaiting(seconds: number | null, scopeText: string): void {
  if (seconds === null) return;
  const minutes = Math.ceil(seconds / 60);
  throw new ApiError(
    "rate_limit_exceeded",
    `Too many attempts ${scopeText}. Try again in ${minutes} minute${minutes === 1 ? "" : "s"}, or ask an administrator for a sign-in link.`,
    { headers: { "retry-after": String(seconds) } },
  );
}
