/** Chinese texts: the page that signs in a tool. */

import type { Area } from "../catalogue.ts";

export const device: Area<"device"> = {
  title: "登录工具",
  about: "请输入您电脑上的工具显示的验证码，例如在 Claude Code 中执行 /login 之后。",
  code: "验证码",
  codeHint: "八个字母，10 分钟内有效。",
  next: "继续",
  check: {
    title: "这次登录是您本人刚刚发起的吗？",
    otherAddress: "发起此登录的网络地址与您的不同",
    text: "登录后，该工具可以用您的名义调用模型，费用由您承担。仅当您本人发起了登录，并且工具屏幕上的验证码与此一致时才继续。如果验证码或链接是别人发给您的，请拒绝。",
  },
  address: "工具的 IP 地址",
  started: "发起时间",
  name: "工具名称",
  nameHint: "显示在您的工具列表中，例如：笔记本电脑上的 Claude Code。",
  group: "分组",
  groupHint: "决定该工具可用的模型、价格和限额。",
  approve: "登录该工具",
  deny: "拒绝",
  otherCode: "输入其他验证码",
  noGroup: {
    title: "没有可用于工具的分组",
    text: "您不能为任何分组登录工具。请联系管理员。",
  },
  approved: {
    title: "工具已登录",
    text: "请返回该工具，几秒后即可继续。您可以关闭此页面，也可以在个人资料中结束登录。",
    profile: "已登录的工具",
  },
  denied: { title: "已拒绝登录", text: "该工具不会获得访问权限。您可以关闭此页面。" },
};
