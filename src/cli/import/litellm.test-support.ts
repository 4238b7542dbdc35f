/** The tables of LiteLLM's public schema, as far as tests fill them. */

import { hashImported } from "../../secrets/api-key.ts";
import type { Columns, Rows, SourceContent } from "./source-tables.test-support.ts";

const LIMITS: Columns = {
  max_budget: "float",
  budget_duration: "text",
  budget_reset_at: "time",
  tpm_limit: "int",
  rpm_limit: "int",
  max_parallel_requests: "int",
  model_max_budget: "json",
};

const KEY_COLUMNS: Columns = {
  ...LIMITS,
  token: "text",
  key_name: "text",
  key_alias: "text",
  spend: "float",
  expires: "time",
  models: "list",
  aliases: "json",
  user_id: "text",
  team_id: "text",
  project_id: "text",
  permissions: "json",
  metadata: "json",
  blocked: "bool",
  allowed_routes: "list",
  policies: "list",
  access_group_ids: "list",
  budget_id: "text",
  organization_id: "text",
  object_permission_id: "text",
  created_at: "time",
};

export interface LitellmRows {
  keys?: Rows;
  formerSecrets?: Rows;
  teams?: Rows;
  teamAliases?: Rows;
  users?: Rows;
  budgets?: Rows;
  organizations?: Rows;
  days?: Rows;
  requests?: Rows;
  memberships?: Rows;
  models?: Rows;
}

export function litellm(rows: LitellmRows): SourceContent {
  return {
    LiteLLM_VerificationToken: { columns: KEY_COLUMNS, rows: rows.keys ?? [] },
    LiteLLM_DeprecatedVerificationToken: {
      columns: { id: "text", token: "text", active_token_id: "text", revoke_at: "time", created_at: "time" },
      rows: rows.formerSecrets ?? [],
    },
    LiteLLM_TeamTable: {
      columns: {
        ...LIMITS,
        team_id: "text",
        team_alias: "text",
        organization_id: "text",
        metadata: "json",
        spend: "float",
        models: "list",
        blocked: "bool",
        model_id: "int",
        created_at: "time",
      },
      rows: rows.teams ?? [],
    },
    LiteLLM_ModelTable: {
      columns: { id: "int", aliases: "json", created_at: "time" },
      rows: rows.teamAliases ?? [],
    },
    LiteLLM_UserTable: {
      columns: {
        ...LIMITS,
        user_id: "text",
        user_email: "text",
        user_role: "text",
        spend: "float",
        models: "list",
        metadata: "json",
      },
      rows: rows.users ?? [],
    },
    LiteLLM_BudgetTable: {
      columns: { ...LIMITS, budget_id: "text", soft_budget: "float", allowed_models: "list" },
      rows: rows.budgets ?? [],
    },
    LiteLLM_OrganizationTable: {
      columns: { organization_id: "text", organization_alias: "text", budget_id: "text", models: "list" },
      rows: rows.organizations ?? [],
    },
    LiteLLM_TeamMembership: {
      columns: { user_id: "text", team_id: "text", spend: "float", budget_id: "text" },
      rows: rows.memberships ?? [],
    },
    LiteLLM_DailyUserSpend: {
      columns: { id: "text", user_id: "text", date: "text", spend: "float" },
      rows: rows.days ?? [],
    },
    LiteLLM_SpendLogs: {
      columns: { request_id: "text", startTime: "time", spend: "float" },
      rows: rows.requests ?? [],
    },
    LiteLLM_ProxyModelTable: {
      columns: { model_id: "text", model_name: "text", litellm_params: "json", model_info: "json" },
      rows: rows.models ?? [],
    },
  };
}

/** A secret that LiteLLM has replaced by another one. */
export function litellmFormerSecret(secret: string, { now, until }: { now: string; until: Date }) {
  const token = hashImported(secret);
  return { id: token, token, active_token_id: hashImported(now), revoke_at: until };
}

/** A key as LiteLLM stores it: the SHA-256 of the secret. */
export function litellmKey(secret: string, columns: Readonly<Record<string, unknown>> = {}) {
  return { token: hashImported(secret), models: [], blocked: null, spend: 0, ...columns };
}
