/** Chinese texts: import and export of the configuration. */

import type { Area } from "../catalogue.ts";

export const adminConfig: Area<"adminConfig"> = {
  title: "导入与导出",
  about: "以 gateway.yaml 表示的完整配置。控制台与配置文件修改的是同一份配置。",
  export: {
    title: "导出",
    about: "不导出密钥等敏感信息；再次应用该文件时，已存储的敏感信息保持不变。",
    download: "下载 gateway.yaml",
    show: "显示",
    label: "当前的 gateway.yaml",
  },
  import: {
    title: "导入",
    about: "粘贴或选择文件。在您确认差异并应用之前，不会进行任何更改。",
    choose: "选择文件",
    text: "gateway.yaml",
    textHint: "可以只写一部分，未提及的对象保持不变。",
    placeholder: "groups:\n  - name: team\n    models: [gpt-5-mini]\n    accounts: [openai-1]\n",
    prune: "删除文件中不存在的对象",
    pruneHint: "文件中没有的分组、账号、模型、用户和密钥都会被删除。若文件未提及任何管理员，则管理员保留。",
    look: "显示差异",
    tooLarge: "文件大于 16 MB。",
  },
  difference: {
    title: "差异",
    none: "没有变更：当前配置与文件一致。",
    counts: (created, changed, removed) => `新建 ${created}，更新 ${changed}，删除 ${removed}`,
    kinds: { create: "新建", change: "更新", remove: "删除" },
    nothing: "（无）",
    becomes: "变为",
    notes: "未应用的内容",
    stale: "文本已更改。请重新显示差异。",
    apply: (count) => `应用 ${count} 项变更`,
    removes: (count) => `将删除 ${count} 个对象，此操作不可撤销。`,
    confirm: "应用并删除",
    confirmTitle: "应用，并删除文件中不存在的对象？",
    pruned: "被删除的密钥将永久吊销，使用这些密钥的请求会立即被拒绝。",
    applied: (count) => `已应用 ${count} 项变更。`,
  },
  problems: {
    title: (count) => `文件中有 ${count} 处错误`,
    place: (line, column) => `第 ${line} 行，第 ${column} 列`,
  },
  keys: {
    title: "密钥已创建",
    about: "密钥只显示一次，请立即复制保存。",
    of: (name, group) => `${name}（${group}）`,
  },
};
