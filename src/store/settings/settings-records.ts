/** The settings of the whole gateway as stored: registration, mail and alerts. */

import { z } from "zod";

/** Who may create an account: anyone, invited people only, or no one. */
export const REGISTRATIONS = ["open", "invite", "closed"] as const;
export type Registration = (typeof REGISTRATIONS)[number];

/** TLS from the first byte, STARTTLS before any other command, or no TLS. */
export const SMTP_SECURITY = ["tls", "starttls", "none"] as const;
type SmtpSecurity = (typeof SMTP_SECURITY)[number];

export interface SmtpRecord {
  host: string;
  port: number;
  security: SmtpSecurity;
  user: string | null;
  sealedPassword: string | null;
  from: string;
  /** Whether a loopback or private address may be dialled. Only the configuration file can allow it. */
  privateNetwork: boolean;
}

/** A webhook that alerts or usage are posted to. */
export const webhookRecord = z.object({
  name: z.string(),
  url: z.string(),
  /** Key that signs deliveries; null: unsigned. */
  sealedSecret: z.string().nullable(),
  privateNetwork: z.boolean(),
  enabled: z.boolean(),
});
export type WebhookRecord = z.output<typeof webhookRecord>;

export interface AlertsRecord {
  webhooks: WebhookRecord[];
  accountParked: { enabled: boolean };
  /** No account of a group is available for this long. */
  poolEmpty: { enabled: boolean; forMs: number };
  /** USD as a decimal string, per UTC day. */
  spend: { enabled: boolean; usdPerDay: string };
  errorRate: { enabled: boolean; percent: number; overMs: number; requestsMin: number };
  /** Requests that fallback steps serve. */
  fallbackRate: { enabled: boolean; percent: number; overMs: number; requestsMin: number };
  /** The number of overruns of one user within this time. */
  overruns: { enabled: boolean; count: number; overMs: number };
}

export const DEFAULT_ALERTS: AlertsRecord = {
  webhooks: [],
  accountParked: { enabled: true },
  poolEmpty: { enabled: true, forMs: 60_000 },
  spend: { enabled: false, usdPerDay: "100" },
  errorRate: { enabled: true, percent: 20, overMs: 300_000, requestsMin: 20 },
  fallbackRate: { enabled: true, percent: 50, overMs: 300_000, requestsMin: 20 },
  overruns: { enabled: true, count: 3, overMs: 3_600_000 },
};
