/** Chinese texts: the page of nodes. */

import type { Area } from "../catalogue.ts";

export const adminNodes: Area<"adminNodes"> = {
  title: "节点",
  about: "共用此数据库的网关进程。",
  oneNode: "当前使用 SQLite，只能运行一个节点。如需多个节点，请改用 PostgreSQL。",
  node: "节点",
  condition: "状态",
  conditions: {
    ready: "就绪",
    starting: "启动中",
    draining: "排空中",
    silent: "无心跳",
    unknown: "旧版本",
  },
  silentSince: (duration) => `已持续 ${duration}`,
  version: "版本",
  schema: (schema) => `数据库结构 ${schema}`,
  started: "启动时间",
  clock: "时钟",
  clockTitle: "节点时钟与数据库时钟之差",
  limits: "限额计数",
  coordinators: {
    memory: "各节点独立",
    postgres: "PostgreSQL",
    redis: "Redis",
    postgres_lost: "本节点份额（PostgreSQL 无响应）",
    redis_lost: "本节点份额（Redis 无响应）",
  },
  jobs: "全局任务",
  noJobs: "无",
  jobNames: {
    captures: "请求捕获",
    idempotency: "幂等键清理",
    reconciliation: "对账",
    retention: "数据保留",
    roll_up: "用量汇总",
    sessions: "会话清理",
    stored_responses: "已存储响应清理",
    usage_export: "用量导出",
  },
  none: { title: "没有节点", text: "节点从启动到结束期间会显示在这里。" },
  mixed: {
    title: "各节点运行的版本不同",
    text: "滚动升级期间属于正常情况。替换旧版本节点即可完成升级。",
  },
  silent: {
    title: (count) => `${count} 个节点没有心跳`,
    text: "被强制结束的节点约一分钟后移除，其请求会自动结算。如果节点仍在运行，请检查它与数据库的连接。",
  },
  skewed: {
    title: "各节点时钟不一致",
    text: "有节点的时钟与数据库时钟相差超过 2 秒。请为所有机器同步时钟（NTP）。",
  },
};
