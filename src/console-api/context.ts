/** Everything an operation of the console's API may use, put together once in `main.ts`. */

import type { Alerts } from "../alerts/engine.ts";
import type { Installation } from "../config/installation/installation.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { Mail } from "../mail/mail.ts";
import type { BillingFaults } from "../observe/billing-faults.ts";
import type { Live } from "./live/live.ts";
import type { AuthThrottles } from "./throttling/auth-throttles.ts";
import type { Throttle } from "./throttling/throttle.ts";

export type { Mail, MailMessage } from "../mail/mail.ts";

export interface ConsoleContext {
  readonly installation: Installation;
  /** The running gateway: what only this process knows (limits, health, requests under way), and its policy. */
  readonly gateway: Gateway;
  /** How people come to the console, without a slash at its end: what links begin with. */
  readonly publicUrl: string;
  /** What keeps guessing of passwords slow, and everybody else quick. */
  readonly identity: AuthThrottles;
  /** Wrong redeem codes of a user. */
  readonly redeemTries: Throttle;
  /** Null while no mail server is configured. Asked at each use, for that may change. */
  mail(): Promise<Mail | null>;
  readonly alerts: Alerts;
  /** Whether what is asked now could be recorded, as `readyz` says it. */
  isReady(): Promise<boolean>;
  /** What went wrong with the books since the process started. */
  readonly billingFaults: Pick<BillingFaults, "list">;
  /** What this process does, for whoever watches. */
  readonly live: Live;
}
