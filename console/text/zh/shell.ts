/** Chinese texts: navigation and top bar. */

import type { Area } from "../catalogue.ts";

export const shell: Area<"shell"> = {
  product: "Model Gateway",
  skip: "跳到正文",
  navigation: "主导航",
  openNavigation: "打开导航",
  closeNavigation: "关闭导航",
  sections: { own: "工作台", admin: "管理", auditor: "审计" },
  search: "搜索",
  searchHint: "请求 ID、密钥、用户、模型…",
  account: "账户",
  profile: "个人资料与安全",
  documentation: "文档",
  signOut: "退出登录",
  theme: "主题",
  themes: { system: "跟随系统", light: "浅色", dark: "深色" },
  language: "语言",
  shortcuts: {
    title: "键盘快捷键",
    open: "显示键盘快捷键",
    search: "搜索",
    create: "新建（如果页面支持）",
    go: (page) => `前往${page}`,
    close: "关闭对话框或菜单",
    setup: "显示初始设置清单",
  },
  notFound: {
    title: "页面不存在",
    text: "请检查网址。该页面可能已被删除。",
    home: "返回首页",
  },
  forbidden: {
    title: "无权访问",
    text: "此页面需要其他角色，请联系管理员。",
  },
  documentTitle: (page) => `${page} · Model Gateway`,
};
