export type MoneyRefusal =
  | "unknown_user"
  | "bad_amount"
  | "bad_idempotency_key"
  | "idempotency_conflict"
  | "insufficient_funds"
  | "not_charged"
  | "refunded_before"
  | "subscription_over"
  | "window_over"
  | "ended_before"
  | "code_mistyped"
  | "code_unknown"
  | "code_used"
  | "code_expired"
  | "code_voided"
  | "batch_exists"
  | "batch_unknown"
  | "bad_batch";

/** Money that was not moved, and why. The message is fit for whoever asked. */
export class MoneyRefusedError extends Error {
  override readonly name = "MoneyRefused";
  readonly code: MoneyRefusal;
  constructor(code: MoneyRefusal, message: string) {
    super(message);
    this.code = code;
  }
}
