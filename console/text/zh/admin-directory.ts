/** Chinese texts: the page of people who sign in at a provider. */

import type { Area } from "../catalogue.ts";

export const adminDirectory: Area<"adminDirectory"> = {
  title: "目录",
  about: (providers) =>
    `使用 ${providers} 登录的人员。其角色和分组取决于每次登录时的声明，或由目录推送的组。`,
  noProvider: "尚未配置身份提供方。请在 gateway.yaml 中添加 sign_in.providers。",
  losses: {
    title: (provider) => `${provider} 的大量人员同时失去访问权限`,
    text: (suspended, people) =>
      `${people} 人中有 ${suspended} 人在几分钟内失去访问权限，其密钥已暂停。如属误操作，请先在身份提供方更正，然后恢复。`,
    restore: (suspended) => `恢复 ${suspended} 人`,
    done: (people, keys) => `已恢复 ${people} 人和 ${keys} 个密钥。`,
  },
  people: "人员",
  person: "人员",
  provider: "身份提供方",
  subject: "主体标识",
  signedIn: "上次登录",
  origin: "来源",
  origins: {
    no: "登录",
    active: "推送",
    deactivated: "推送",
    removed: "推送",
  },
  pushedStates: {
    deactivated: "已被目录停用",
    removed: "已被目录移除",
  },
  state: "密钥",
  active: "正常",
  suspended: "已暂停",
  suspendedKeys: (count) => `${count} 个密钥已暂停`,
  tools: "操作",
  unlink: (email) => `取消关联 ${email}`,
  unlinking: {
    confirm: "取消关联",
    text: "该用户将成为本地用户：目录授予的角色和分组以及所有会话和令牌都会失效，已暂停的密钥保持吊销。再次登录需要密码或链接。",
  },
  noPeople: { title: "暂无人员", text: "人员首次通过身份提供方登录或由目录推送后会显示在这里。" },
  scim: {
    title: "SCIM",
    about: (provider) => `${provider} 的目录推送人员和组。`,
    off: "SCIM 未启用。请在 gateway.yaml 中设置 scim。",
    lastPush: "上次推送",
    noPush: "暂无",
    by: "服务账号",
    pushed: "已推送",
    counts: (people, groups) => `${people} 名人员，${groups} 个组`,
    source: "角色和分组",
    sources: { pushed: "来自推送的组", claims: "来自登录时的声明" },
    rejected: "被拒绝的推送",
    noRejected: "最近 30 天没有被拒绝的推送",
    request: "请求",
  },
  rejected: "被拒绝的登录",
  aboutRejected: "最近 30 天，附有仅管理员可见的原因。",
  noRejected: "没有被拒绝的登录",
  at: "时间",
  unknown: "未知",
  code: "错误",
  reason: "原因",
};
