/** Chinese texts: the page of people who sign in at a provider. */

import type { Area } from "../catalogue.ts";

export const adminDirectory: Area<"adminDirectory"> = {
  title: "目录",
  about: (providers) => `使用 ${providers} 登录的人员。其角色和分组取决于每次登录时的声明。`,
  noProvider: "尚未配置身份提供方。请在 gateway.yaml 中添加 sign_in.providers。",
  people: "人员",
  person: "人员",
  provider: "身份提供方",
  subject: "主体标识",
  signedIn: "上次登录",
  state: "密钥",
  active: "正常",
  suspended: "已暂停，直到下次登录",
  suspendedKeys: (count) => `${count} 个密钥已暂停`,
  tools: "操作",
  unlink: (email) => `取消关联 ${email}`,
  unlinking: {
    confirm: "取消关联",
    text: "该用户将成为本地用户：目录授予的角色和分组以及所有会话和令牌都会失效，已暂停的密钥保持吊销。再次登录需要密码或链接。",
  },
  noPeople: { title: "暂无人员", text: "人员首次通过身份提供方登录后会显示在这里。" },
  rejected: "被拒绝的登录",
  aboutRejected: "最近 30 天，附有仅管理员可见的原因。",
  noRejected: "无。",
  at: "时间",
  unknown: "未知",
  code: "错误",
  reason: "原因",
};
