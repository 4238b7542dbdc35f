/** Reasons why a money operation is rejected. */
export type MoneyRejection =
  | "unknown_user"
  | "bad_amount"
  | "bad_idempotency_key"
  | "idempotency_conflict"
  | "insufficient_funds"
  | "not_charged"
  | "no_such_hold"
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

/** A money operation that was rejected. The message is suitable for the caller. */
export class MoneyOperationRejected extends Error {
  override readonly name = "MoneyOperationRejected";
  readonly code: MoneyRejection;
  constructor(code: MoneyRejection, message: string) {
    super(message);
    this.code = code;
  }
}
