/** The tables of sub2api that the import reads. */

import type { SourceTable, SpendingTable } from "./source-table.ts";

const TIMES = ["created_at", "updated_at"];

export const USERS: SourceTable = {
  name: "users",
  key: "id",
  required: ["email", "balance", "concurrency", "status"],
  optional: ["frozen_balance", "rpm_limit", "deleted_at"],
  ignored: [
    ...TIMES,
    "password_hash",
    "role",
    "username",
    "notes",
    "wechat",
    "totp_secret_encrypted",
    "totp_enabled",
    "totp_enabled_at",
    "signup_source",
    "last_login_at",
    "last_active_at",
    "balance_notify_enabled",
    "balance_notify_threshold_type",
    "balance_notify_threshold",
    "balance_notify_extra_emails",
    "total_recharged",
    "token_version",
  ],
};

export const GROUPS: SourceTable = {
  name: "groups",
  key: "id",
  required: ["name", "rate_multiplier", "status", "platform"],
  optional: ["subscription_type", "rpm_limit", "claude_code_only", "allow_image_generation", "deleted_at"],
  ignored: [
    ...TIMES,
    "description",
    "is_exclusive",
    "daily_limit_usd",
    "weekly_limit_usd",
    "monthly_limit_usd",
    "five_hour_limit_usd",
    "default_validity_days",
    "sort_order",
  ],
};

export const ACCOUNTS: SourceTable = {
  name: "accounts",
  key: "id",
  required: ["name", "platform", "type", "credentials", "status"],
  optional: ["concurrency", "priority", "schedulable", "deleted_at"],
  ignored: [
    ...TIMES,
    "extra",
    "proxy_id",
    "error_message",
    "last_used_at",
    "rate_limited_at",
    "rate_limit_reset_at",
    "overload_until",
    "session_window_start",
    "session_window_end",
    "session_window_status",
  ],
};

export const ACCOUNT_GROUPS: SourceTable = {
  name: "account_groups",
  key: "account_id",
  orderBy: "group_id",
  required: ["group_id"],
  ignored: ["priority", "created_at"],
};

/** Quotas of one user for a platform. */
export const QUOTAS: SourceTable = {
  name: "user_platform_quotas",
  key: "id",
  required: ["user_id"],
  optional: ["daily_limit_usd", "weekly_limit_usd", "monthly_limit_usd", "deleted_at"],
  ignored: [
    ...TIMES,
    "platform",
    "daily_usage_usd",
    "weekly_usage_usd",
    "monthly_usage_usd",
    "daily_window_start",
    "weekly_window_start",
    "monthly_window_start",
  ],
};

/** Multipliers of one user in a group. */
export const OWN_RATES: SourceTable = {
  name: "user_group_rate_multipliers",
  key: "user_id",
  orderBy: "group_id",
  required: ["group_id"],
  ignored: [...TIMES, "rate_multiplier"],
};

export const KEYS: SourceTable = {
  name: "api_keys",
  key: "id",
  required: ["user_id", "key", "name", "group_id", "status"],
  optional: [
    "deleted_at",
    "expires_at",
    "ip_whitelist",
    "ip_blacklist",
    "quota",
    "rate_limit_5h",
    "rate_limit_1d",
    "rate_limit_7d",
    "usage_5h",
    "usage_1d",
    "usage_7d",
    "window_5h_start",
    "window_1d_start",
    "window_7d_start",
  ],
  ignored: [...TIMES, "last_used_at", "quota_used"],
};

export const REQUEST_LOG: SpendingTable = { name: "usage_logs", time: "created_at", amount: "actual_cost" };
