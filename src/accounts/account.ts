/** An account as requests use it: compiled from its record, with the credential decrypted. */

import type { AccountRecord } from "../records/account.ts";
import type { Interface } from "../records/interfaces.ts";

export interface PolicyAccount
  extends Readonly<Omit<AccountRecord, "sealedCredential" | "interfaces" | "enabled" | "createdAtMs">> {
  /** The path of the base URL, without a trailing slash. */
  readonly basePath: string;
  readonly credential: string | null;
  readonly interfaces: ReadonlySet<Interface>;
}
