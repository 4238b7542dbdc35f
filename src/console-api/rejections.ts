/** Maps errors of the lower layers to API errors. Unmapped errors are internal, and their text is not shown. */

import { MoneyOperationRejected, type MoneyRejection } from "../billing/operations/rejection.ts";
import { ApiError, asApiError, type ErrorCode, storeBusy } from "../errors.ts";
import { StoreConflict, type StoreConflictReason } from "../store/engine/conflict.ts";
import { ReadRejected } from "../store/engine/db.ts";

const CONFLICTS: Readonly<Record<StoreConflictReason, ErrorCode>> = {
  duplicate: "conflict",
  referenced: "conflict",
  missing: "not_found",
};

const MONEY: Readonly<Record<MoneyRejection, ErrorCode>> = {
  unknown_user: "not_found",
  bad_amount: "invalid_value",
  bad_idempotency_key: "invalid_value",
  idempotency_conflict: "conflict",
  insufficient_funds: "conflict",
  not_charged: "conflict",
  no_such_hold: "not_found",
  refunded_before: "conflict",
  subscription_over: "conflict",
  window_over: "conflict",
  ended_before: "invalid_value",
  code_mistyped: "invalid_value",
  code_unknown: "not_found",
  code_used: "conflict",
  code_expired: "conflict",
  code_voided: "conflict",
  batch_exists: "conflict",
  batch_unknown: "not_found",
  bad_batch: "invalid_value",
};

export function asRejection(thrown: unknown): ApiError {
  if (thrown instanceof StoreConflict) return new ApiError(CONFLICTS[thrown.reason], thrown.message);
  if (thrown instanceof MoneyOperationRejected) return new ApiError(MONEY[thrown.code], thrown.message);
  if (thrown instanceof ReadRejected) return storeBusy();
  return asApiError(thrown);
}
