import type { Area } from "../catalogue.ts";

export const shell: Area<"shell"> = {
  product: "Model Gateway",
  skip: "跳到正文",
  navigation: "主导航",
  openNavigation: "打开导航",
  closeNavigation: "关闭导航",
  sections: { own: "我的工作", admin: "管理" },
  findRequest: "按请求 ID 查找请求",
  findRequestHint: "粘贴请求 ID",
  account: "账户",
  profile: "个人资料与安全",
  documentation: "文档",
  signOut: "退出登录",
  theme: "外观",
  themes: { system: "跟随系统", light: "浅色", dark: "深色" },
  language: "语言",
  shortcuts: {
    title: "键盘快捷键",
    open: "显示快捷键",
    search: "搜索",
    create: "新建（如果页面支持）",
    go: (page) => `前往${page}`,
    close: "关闭当前窗口",
  },
  notFound: {
    title: "这里什么都没有",
    text: "地址可能有误，或者原来的内容已不存在。",
    home: "返回起始页",
  },
  forbidden: {
    title: "此页面仅供管理员使用",
    text: "您的账户无权打开此页面。如有需要，请联系管理员。",
  },
  documentTitle: (page) => `${page} · Model Gateway`,
};
