/** Chinese texts: the search. */

import type { Area } from "../catalogue.ts";

export const search: Area<"search"> = {
  title: "搜索",
  results: (text) => `“${text}”的搜索结果`,
  kinds: { keys: "API 密钥", users: "用户", models: "模型", accounts: "账号", groups: "分组" },
  hint: {
    admin: "输入请求 ID，或密钥、用户、模型、账号、分组名称的一部分。",
    user: "输入请求 ID，或密钥名称的一部分。",
  },
  none: { title: "没有找到结果", text: "请检查拼写。请求 ID 以 req_ 开头。" },
};
