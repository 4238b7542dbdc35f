/** Chinese texts: the first setup. */

import type { Area } from "../catalogue.ts";

export const adminSetup: Area<"adminSetup"> = {
  title: "初始设置",
  about: "从供应商账号到首个请求。模拟器及其演示分组不计入。",
  checklist: "初始设置清单",
  close: "关闭清单。可从帮助中再次打开。",
  done: "已完成",
  steps: {
    account: "添加供应商账号",
    models: "发布模型",
    price: "为每个已发布的模型设置价格",
    person: "邀请成员",
    tool: "接入工具",
    request: "查看首个请求",
  },
  actions: {
    account: "添加账号",
    models: "发布模型",
    price: "设置价格",
    person: "邀请",
    tool: "接入工具",
    request: "打开试用台",
  },
  vendor: {
    title: "添加供应商账号",
    about: "网关会列出该账号的模型，并推荐价格表中已有的模型。",
    vendor: "供应商",
    credential: "供应商的 API 密钥",
    credentialHint: "加密保存，不会再次显示。",
    list: "列出模型",
    other: "Azure、Amazon Bedrock、Google Vertex AI 和自建服务器需要更多字段：",
    allAccounts: "账号",
  },
  publish: {
    priced: "价格表中已有的模型",
    unpriced: "没有价格的模型",
    unpricedHint: "在“模型与价格”中设置价格之前，调用不产生费用。",
    price: (input, output) => `每百万 Token：输入 ${input}，输出 ${output}`,
    group: "分组",
    groupHint: "新分组允许所有用户创建密钥。已有分组会被扩展。",
    submit: "添加账号并发布",
    back: "返回",
  },
  published: {
    done: (account, count, group) => `已添加账号 ${account}。分组 ${group} 发布了 ${count} 个模型。`,
    playground: "打开试用台",
    connect: "接入工具",
    call: (model, cost) => `向 ${model} 发送一个请求，费用最多 ${cost}`,
    callUnpriced: (model) => `向 ${model} 发送一个请求，按供应商价格计费`,
    keyName: "初始设置",
    failed: "请求失败，请在“用量”中查看原因。",
  },
};
