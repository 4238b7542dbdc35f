/** The tables of LiteLLM that the import reads. */

import type { SourceTable, SpendingTable } from "./source-table.ts";

const LIMITS = [
  "max_budget",
  "budget_duration",
  "tpm_limit",
  "rpm_limit",
  "max_parallel_requests",
  "model_max_budget",
];
const TIMES = ["created_at", "created_by", "updated_at", "updated_by", "budget_reset_at"];

export const BUDGETS: SourceTable = {
  name: "LiteLLM_BudgetTable",
  key: "budget_id",
  required: ["max_budget"],
  optional: [...LIMITS, "allowed_models"],
  ignored: [...TIMES, "soft_budget"],
};

export const ORGANIZATIONS: SourceTable = {
  name: "LiteLLM_OrganizationTable",
  key: "organization_id",
  required: ["budget_id", "models"],
  optional: ["metadata", "object_permission_id"],
  ignored: [...TIMES, "organization_alias", "spend", "model_spend"],
};

export const TEAMS: SourceTable = {
  name: "LiteLLM_TeamTable",
  key: "team_id",
  required: ["team_alias", "models", "blocked"],
  optional: [
    ...LIMITS,
    "spend",
    "metadata",
    "organization_id",
    "object_permission_id",
    "policies",
    "access_group_ids",
    "budget_limits",
    "model_id",
  ],
  ignored: [
    ...TIMES,
    "admins",
    "members",
    "members_with_roles",
    "soft_budget",
    "model_spend",
    "router_settings",
    "team_member_permissions",
    "default_team_member_models",
    "allow_team_guardrail_config",
  ],
};

/** The aliases of teams, whose `model_id` is the id here. */
export const TEAM_ALIASES: SourceTable = {
  name: "LiteLLM_ModelTable",
  key: "id",
  required: ["aliases"],
  ignored: TIMES,
};

export const USERS: SourceTable = {
  name: "LiteLLM_UserTable",
  key: "user_id",
  required: ["user_email", "models"],
  optional: [...LIMITS, "spend", "metadata", "organization_id", "object_permission_id", "policies"],
  ignored: [
    ...TIMES,
    "user_alias",
    "team_id",
    "sso_user_id",
    "password",
    "teams",
    "user_role",
    "allowed_cache_controls",
    "model_spend",
  ],
};

export const MEMBERSHIPS: SourceTable = {
  name: "LiteLLM_TeamMembership",
  key: "user_id",
  orderBy: "team_id",
  required: ["team_id", "budget_id"],
  ignored: ["spend", "total_spend", ...TIMES],
};

export const KEYS: SourceTable = {
  name: "LiteLLM_VerificationToken",
  key: "token",
  isKeySecret: true,
  required: ["key_alias", "user_id", "team_id", "models", "expires", "blocked"],
  optional: [
    ...LIMITS,
    "key_name",
    "spend",
    "metadata",
    "budget_id",
    "organization_id",
    "object_permission_id",
    "project_id",
    "agent_id",
    "policies",
    "access_group_ids",
    "allowed_routes",
    "budget_limits",
    "aliases",
  ],
  ignored: [
    ...TIMES,
    "soft_budget_cooldown",
    "config",
    "router_settings",
    "permissions",
    "allowed_cache_controls",
    "model_spend",
    "last_active",
    "rotation_count",
    "auto_rotate",
    "rotation_interval",
    "last_rotation_at",
    "key_rotation_at",
  ],
};

export const FORMER_SECRETS: SourceTable = {
  name: "LiteLLM_DeprecatedVerificationToken",
  key: "id",
  required: ["token", "active_token_id", "revoke_at"],
  ignored: ["created_at"],
};

/** Sums of each day, which later versions have beside the log of requests. */
export const DAILY_SPENDING: SpendingTable = {
  name: "LiteLLM_DailyUserSpend",
  time: "date",
  amount: "spend",
};
export const REQUEST_LOG: SpendingTable = { name: "LiteLLM_SpendLogs", time: "startTime", amount: "spend" };
