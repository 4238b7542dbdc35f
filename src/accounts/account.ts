/** An account as requests use it: compiled from its record, with the credential decrypted. */

import type { AccountKind, AccountRecord } from "../records/account.ts";
import type { Interface } from "../records/interfaces.ts";
import type { RateLimits } from "../records/limits.ts";

export interface PolicyAccount {
  readonly id: string;
  readonly name: string;
  readonly kind: AccountKind;
  readonly vendor?: AccountRecord["vendor"];
  readonly profile?: AccountRecord["profile"];
  readonly baseUrl: string;
  /** The path of the base URL, without a trailing slash. */
  readonly basePath: string;
  readonly credential: string | null;
  readonly apiVersion: string | null;
  /** Amazon Bedrock and Google Vertex AI: where the models run. */
  readonly region?: string | null;
  /** Google Vertex AI: null uses the project of the service account. */
  readonly project?: string | null;
  readonly interfaces: ReadonlySet<Interface>;
  /** Its `/responses` accepts WebSocket. */
  readonly websocket: boolean;
  /** Its upstream receives the W3C trace context of requests. */
  readonly propagateTrace: boolean;
  readonly privateNetwork: boolean;
  readonly priority: number;
  readonly weight: number;
  readonly models: Readonly<Record<string, string>>;
  readonly limits: RateLimits;
}
