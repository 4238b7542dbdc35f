/** The error for a base URL that cannot be dialled. */

export type DialReason = "bad_url" | "forbidden_address" | "dns_failed" | "dns_timeout";

/** The message is for operators: it names hosts and addresses, never credentials. */
export class DialError extends Error {
  override readonly name = "DialError";
  readonly reason: DialReason;

  constructor(reason: DialReason, message: string) {
    super(message);
    this.reason = reason;
  }
}
