import type { Area } from "../catalogue.ts";

export const limits: Area<"limits"> = {
  rpm: "每分钟请求数",
  tpm: "每分钟 token 数",
  concurrency: "同时进行的请求数",
  atMost: (amount) => `最多 ${amount}`,
  inAny: "时间窗口",
  lengths: { "5h": "5 小时", "1d": "1 天", "7d": "7 天", "30d": "30 天" },
  requests: "请求数",
  tokens: "Token 数",
  usd: "美元",
  window: (length) => `任意 ${length}内的限额`,
  addWindow: "添加更长的时间窗口",
  removeWindow: (length) => `移除 ${length}的限额`,
  said: {
    between: "，",
    rpm: (amount) => `每分钟 ${amount} 个请求`,
    tpm: (amount) => `每分钟 ${amount} 个 token`,
    concurrency: (_, amount) => `同时 ${amount} 个请求`,
    requests: (amount, length) => `任意 ${length}内 ${amount} 个请求`,
    tokens: (amount, length) => `任意 ${length}内 ${amount} 个 token`,
    usd: (amount, length) => `任意 ${length}内 ${amount}`,
  },
};
