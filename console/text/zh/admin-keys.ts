/** Chinese texts: the keys of all users. */

import type { Area } from "../catalogue.ts";

export const adminKeys: Area<"adminKeys"> = {
  title: "全部密钥",
  about: "所有用户的 API 密钥，以及不属于任何用户的密钥。",
  search: "按名称、ID、所有者或分组搜索",
  owner: "所有者",
  owners: { label: "按所有者筛选", all: "全部所有者", none: "无所有者" },
  noOwner: "无所有者",
  deletedOwner: "已删除的用户",
  ofUser: (email) => `${email} 的密钥`,
  ofGroup: (group) => `分组 ${group} 的密钥`,
  showAll: "显示全部密钥",
  noneFound: { title: "没有找到密钥", text: "请尝试其他关键词，或显示已吊销的密钥。" },
};
