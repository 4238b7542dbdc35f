/** The tables of new-api and one-api, as their public models describe them. */

import type { Columns, Rows, SourceContent } from "./source-tables.test-support.ts";

const TOKENS: Columns = {
  id: "int",
  user_id: "int",
  key: "text",
  status: "int",
  name: "text",
  created_time: "int",
  accessed_time: "int",
  expired_time: "int",
  remain_quota: "int",
  unlimited_quota: "bool",
  used_quota: "int",
};

const USERS: Columns = {
  id: "int",
  username: "text",
  password: "text",
  display_name: "text",
  role: "int",
  status: "int",
  email: "text",
  access_token: "text",
  quota: "int",
  used_quota: "int",
  request_count: "int",
  group: "text",
};

const CHANNELS: Columns = {
  id: "int",
  type: "int",
  key: "text",
  status: "int",
  name: "text",
  weight: "int",
  base_url: "text",
  other: "text",
  models: "text",
  group: "text",
  model_mapping: "text",
  priority: "int",
};

export interface QuotaRows {
  tokens?: Rows;
  users?: Rows;
  channels?: Rows;
  options?: Rows;
  logs?: Rows;
}

export function newApi(rows: QuotaRows): SourceContent {
  const added: Columns = {
    model_limits_enabled: "bool",
    model_limits: "text",
    allow_ips: "text",
    group: "text",
    deleted_at: "time",
  };
  return describeTables(rows, { ...TOKENS, ...added }, { ...USERS, deleted_at: "time" });
}

export function oneApi(rows: QuotaRows): SourceContent {
  return describeTables(rows, { ...TOKENS, models: "text", subnet: "text" }, USERS);
}

function describeTables(rows: QuotaRows, tokens: Columns, users: Columns): SourceContent {
  return {
    tokens: { columns: tokens, rows: (rows.tokens ?? []).map((row) => ({ ...TOKEN, ...row })) },
    users: { columns: users, rows: (rows.users ?? []).map((row) => ({ ...USER, ...row })) },
    channels: { columns: CHANNELS, rows: (rows.channels ?? []).map((row) => ({ ...CHANNEL, ...row })) },
    options: { columns: { key: "text", value: "text" }, rows: rows.options ?? [] },
    logs: {
      columns: { id: "int", user_id: "int", created_at: "int", type: "int", quota: "int" },
      rows: rows.logs ?? [],
    },
  };
}

const TOKEN = { status: 1, expired_time: -1, remain_quota: 0, unlimited_quota: true };
const USER = { role: 1, status: 1, quota: 0, group: "default" };
const CHANNEL = { status: 1, type: 1, group: "default", model_mapping: "", priority: 0, weight: 0 };

/** A key as these programs store it: without `sk-`. */
export function storedKey(letter: string): string {
  return letter.repeat(48);
}
