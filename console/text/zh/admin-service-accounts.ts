/** Chinese texts: the page of service accounts. */

import type { Area } from "../catalogue.ts";

export const adminServiceAccounts: Area<"adminServiceAccounts"> = {
  title: "服务账号",
  about: "以自身名义调用控制台 API 的程序，例如支付系统或 CI。",
  create: "创建服务账号",
  name: "名称",
  nameHint: "显示在审计日志中，例如 billing 或 ci。",
  scopes: "权限范围",
  scopeHints: {
    "wallet.read": "查看所有用户的钱包和账本。",
    "wallet.top_up": "在下方限额内为钱包充值。",
    "config.apply": "预览并应用更改模型、账号、请求策略、分组和套餐的配置文件。",
    "keys.write": "与 config.apply 一起使用：文件还可以更改 API 密钥。",
    scim: "通过 SCIM 推送公司目录中的人员和组，不开放其他任何操作。",
  },
  usdPerCall: "单次充值上限（USD）",
  usdPerDay: "每日（UTC）充值上限（USD）",
  today: "今日充值",
  token: "令牌",
  noToken: "无令牌",
  used: "上次使用",
  expires: "过期时间",
  expiresHint: "当天结束时（UTC）。",
  expired: "已过期",
  tools: "操作",
  newToken: (name) => `为 ${name} 创建令牌`,
  editing: (name) => `编辑 ${name}`,
  deleteOne: (name) => `删除 ${name}`,
  none: {
    title: "还没有服务账号",
    text: "通过服务账号，程序可以在限额内为钱包充值，或从 CI 应用配置，而无需使用个人身份。",
  },
  deleting: {
    title: (name) => `删除服务账号 ${name}？`,
    text: (tokens) =>
      tokens === 0
        ? "该账号没有令牌，不会影响任何程序。审计日志和账本中的记录会保留。"
        : `它的 ${tokens} 个令牌会立即失效。审计日志和账本中的记录会保留。`,
  },
  newTokenDialog: {
    title: (name) => `为 ${name} 创建令牌`,
    text: "重叠期结束后，该服务账号之前的令牌会失效。",
    overlap: "之前的令牌",
    overlaps: {
      none: "立即失效",
      hour: "1 小时后失效",
      day: "1 天后失效",
      week: "7 天后失效",
    },
    submit: "创建令牌",
    made: "令牌已创建",
    once: "令牌只显示一次。请将其保存到该程序的密钥存储中。",
    secret: "令牌",
    done: "完成",
  },
};
