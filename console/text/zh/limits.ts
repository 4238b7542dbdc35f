/** Chinese texts: limits. */

import type { Area } from "../catalogue.ts";

export const limits: Area<"limits"> = {
  rpm: "每分钟请求数",
  tpm: "每分钟 Token 数",
  concurrency: "并发请求数",
  atMost: (amount) => `最多 ${amount}`,
  inAny: "时间窗口",
  lengths: { "5h": "5 小时", "1d": "1 天", "7d": "7 天", "30d": "30 天" },
  requests: "请求数",
  tokens: "Token 数",
  usd: "美元",
  window: (length) => `每 ${length}限额`,
  addWindow: "添加时间窗口",
  removeWindow: (length) => `移除每 ${length}限额`,
  summary: {
    between: "，",
    rpm: (amount) => `每分钟 ${amount} 个请求`,
    tpm: (amount) => `每分钟 ${amount} 个 Token`,
    concurrency: (amount) => `${amount} 个并发请求`,
    requests: (amount, length) => `每 ${length} ${amount} 个请求`,
    tokens: (amount, length) => `每 ${length} ${amount} 个 Token`,
    usd: (amount, length) => `每 ${length} ${amount}`,
    at_once: (amount) => `${amount} 个并发请求`,
  },
  meter: {
    requests: (span) => `每 ${span}请求数`,
    tokens: (span) => `每 ${span} Token 数`,
    usd: (span) => `每 ${span}消费`,
    at_once: () => "并发请求数",
  },
};
