/** Chinese texts: the page that connects a tool. */

import type { Area } from "../catalogue.ts";

export const connect: Area<"connect"> = {
  title: "接入工具",
  about: "创建密钥，复制工具的配置，然后查看它的首个请求。",
  steps: { key: "1. 密钥", tool: "2. 工具", request: "3. 首个请求" },
  name: "新密钥的名称",
  keyName: "我的工具",
  group: "分组",
  create: "创建密钥",
  existing: "或使用已有密钥",
  existingHint: "密钥内容无法再次显示，需要使用您保存的副本。",
  keyChoice: (name, group) => `${name} · ${group}`,
  use: "使用此密钥",
  chosen: (name) => `密钥：${name}。请使用创建时保存的密钥内容。`,
  once: "请立即复制密钥，它只显示一次。",
  secret: "密钥内容",
  copySecret: "复制密钥",
  noGroup: "没有包含模型的分组",
  noGroupText: "请联系管理员将您加入包含模型的分组。",
  variable: "环境变量",
  variableAbout: "配置从环境变量读取密钥。请在终端运行第一行命令，粘贴密钥（输入不显示），然后按 Enter。",
  model: "模型",
  noModel: (interfaces) => `该密钥没有适用于此工具的模型。此工具需要以下接口之一：${interfaces}。`,
  tools: {
    claudeCode: "Claude Code 读取以下环境变量。",
    codex: "Codex 读取以下文件，密钥保留在环境变量中。",
    geminiCli: "gemini-cli 读取以下文件和环境变量。localhost 以外的主机必须使用 https。",
    opencode: "opencode 读取以下文件。",
    cursor:
      "在 Cursor Settings → Models → API Keys 中启用 OpenAI API Key 并粘贴密钥，然后启用 Override OpenAI Base URL。请求由 Cursor 的服务器发送，因此该地址必须能从互联网访问。",
    vsCode:
      "运行命令“Chat: Manage Language Models”，选择 Add Models → Custom Endpoint，输入名称，粘贴密钥，并选择任意 API 类型。在打开的文件中，将新条目的 models 替换为以下内容。",
    openWebUi:
      "在容器内，127.0.0.1 指容器自身，请使用容器可以访问的地址。这些变量仅对新的数据卷生效，之后请在 Admin Panel → Settings → Connections 中修改。",
    libreChat:
      "将以下内容添加到 librechat.yaml，并将变量添加到 .env，然后重启 LibreChat。使用容器时，请挂载 librechat.yaml，并将 127.0.0.1 替换为容器可以访问的地址。",
    python: "安装 SDK，然后使用 Python 3 运行程序。",
    typescript: "安装 SDK，然后使用 Node 运行程序。",
    curl: "在终端运行以下命令。",
  },
  request: {
    waiting: "正在等待首个请求…",
    arrived: "首个请求已到达。",
    rejected: "请求已到达，但被拒绝。请求页面会说明原因。",
    time: "时间",
    model: "模型",
    outcome: "结果",
    cost: "费用",
    open: "打开请求",
  },
};
