/** English texts: navigation and top bar. */

export const shell = {
  product: "Model Gateway",
  skip: "Skip to content",
  navigation: "Main",
  openNavigation: "Open navigation",
  closeNavigation: "Close navigation",
  sections: { own: "Workspace", admin: "Administration", auditor: "Auditing" },
  search: "Search",
  searchHint: "Request ID, key, user, model…",
  account: "Account",
  profile: "Profile and security",
  documentation: "Documentation",
  signOut: "Sign out",
  theme: "Theme",
  themes: { system: "System", light: "Light", dark: "Dark" },
  language: "Language",
  shortcuts: {
    title: "Keyboard shortcuts",
    open: "Show keyboard shortcuts",
    search: "Search",
    create: "Create (on pages that support it)",
    go: (page: string) => `Go to ${page}`,
    close: "Close dialog or menu",
    setup: "Show the setup checklist",
  },
  notFound: {
    title: "Page not found",
    text: "Check the URL. The page may have been deleted.",
    home: "Go to the home page",
  },
  forbidden: {
    title: "No access",
    text: "This page needs another role. Ask an administrator.",
  },
  documentTitle: (page: string) => `${page} · Model Gateway`,
};
