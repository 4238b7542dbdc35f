/** Every page of the console, in the order of the navigation. Each is a separate chunk, loaded when it is opened. */

import type { ComponentType } from "react";
import type { PageProps } from "./page-props.ts";
import type { SessionUser } from "./session.tsx";
import type { Catalogue } from "./text/catalogue.ts";
import type { IconName } from "./ui/icon.tsx";

export interface PageEntry {
  /** After `/console`; `:id` is one segment. The page gets it as `params`. */
  path: string;
  /** Who may open the page. `anyone`: people who are not signed in; `user`: everyone who is; `auditor`: also administrators. */
  who: "anyone" | "user" | "auditor" | "admin";
  load(): Promise<{ default: ComponentType<PageProps> }>;
  /** Omitted: the page is reached from another one. */
  nav?: {
    label(t: Catalogue): string;
    icon: IconName;
    /** The key `g` followed by this letter opens the page. */
    key?: string;
  };
}

/** Whether a signed-in user of this role may open the page. */
export function mayOpen({ who }: PageEntry, role: SessionUser["role"]): boolean {
  return who === "user" || who === role || (who === "auditor" && role === "admin");
}

export const PAGES: readonly PageEntry[] = [
  { path: "/sign-in", who: "anyone", load: () => import("./pages/entry/sign-in.tsx") },
  { path: "/sign-in/callback", who: "anyone", load: () => import("./pages/entry/callback.tsx") },
  { path: "/sign-in/link", who: "anyone", load: () => import("./pages/entry/link-account.tsx") },
  { path: "/claim", who: "anyone", load: () => import("./pages/entry/claim.tsx") },
  { path: "/register", who: "anyone", load: () => import("./pages/entry/register.tsx") },
  { path: "/join", who: "anyone", load: () => import("./pages/entry/join.tsx") },
  { path: "/forgot", who: "anyone", load: () => import("./pages/entry/forgot.tsx") },
  { path: "/reset", who: "anyone", load: () => import("./pages/entry/reset.tsx") },
  { path: "/verify", who: "anyone", load: () => import("./pages/entry/verify.tsx") },
  { path: "/link", who: "anyone", load: () => import("./pages/entry/link.tsx") },
  {
    path: "/keys",
    who: "user",
    load: () => import("./pages/keys/keys.tsx"),
    nav: { label: (t) => t.keys.title, icon: "key", key: "k" },
  },
  { path: "/keys/:id", who: "user", load: () => import("./pages/keys/key.tsx") },
  {
    path: "/models",
    who: "user",
    load: () => import("./pages/models/models.tsx"),
    nav: { label: (t) => t.models.title, icon: "box", key: "m" },
  },
  {
    path: "/playground",
    who: "user",
    load: () => import("./pages/playground/playground.tsx"),
    nav: { label: (t) => t.playground.title, icon: "spark", key: "o" },
  },
  {
    path: "/connect",
    who: "user",
    load: () => import("./pages/connect/connect.tsx"),
    nav: { label: (t) => t.connect.title, icon: "link", key: "t" },
  },
  {
    path: "/usage",
    who: "user",
    load: () => import("./pages/usage/usage.tsx"),
    nav: { label: (t) => t.usage.title, icon: "chart", key: "u" },
  },
  { path: "/requests/:id", who: "user", load: () => import("./pages/requests/request.tsx") },
  {
    path: "/wallet",
    who: "user",
    load: () => import("./pages/wallet/wallet.tsx"),
    nav: { label: (t) => t.wallet.title, icon: "wallet", key: "w" },
  },
  { path: "/search", who: "user", load: () => import("./pages/search/search.tsx") },
  { path: "/device", who: "user", load: () => import("./pages/device/device.tsx") },
  { path: "/profile", who: "user", load: () => import("./pages/profile/profile.tsx") },
  {
    path: "/admin",
    who: "admin",
    load: () => import("./pages/admin/dashboard/dashboard.tsx"),
    nav: { label: (t) => t.adminDashboard.title, icon: "gauge", key: "d" },
  },
  { path: "/admin/setup", who: "admin", load: () => import("./pages/admin/setup/setup.tsx") },
  {
    path: "/admin/groups",
    who: "admin",
    load: () => import("./pages/admin/groups/groups.tsx"),
    nav: { label: (t) => t.adminGroups.title, icon: "group", key: "g" },
  },
  { path: "/admin/groups/-/new", who: "admin", load: () => import("./pages/admin/groups/group.tsx") },
  { path: "/admin/groups/:name", who: "admin", load: () => import("./pages/admin/groups/group.tsx") },
  {
    path: "/admin/accounts",
    who: "admin",
    load: () => import("./pages/admin/accounts/accounts.tsx"),
    nav: { label: (t) => t.adminAccounts.title, icon: "plug", key: "a" },
  },
  { path: "/admin/accounts/:name", who: "admin", load: () => import("./pages/admin/accounts/account.tsx") },
  {
    path: "/admin/models",
    who: "auditor",
    load: () => import("./pages/admin/models/models.tsx"),
    nav: { label: (t) => t.adminModels.title, icon: "tag", key: "p" },
  },
  {
    path: "/admin/policies",
    who: "admin",
    load: () => import("./pages/admin/policies/policies.tsx"),
    nav: { label: (t) => t.adminPolicies.title, icon: "shield", key: "q" },
  },
  { path: "/admin/policies/-/new", who: "admin", load: () => import("./pages/admin/policies/policy.tsx") },
  { path: "/admin/policies/:name", who: "admin", load: () => import("./pages/admin/policies/policy.tsx") },
  {
    path: "/admin/users",
    who: "auditor",
    load: () => import("./pages/admin/users/users.tsx"),
    nav: { label: (t) => t.adminUsers.title, icon: "users", key: "e" },
  },
  { path: "/admin/users/:id", who: "auditor", load: () => import("./pages/admin/users/user.tsx") },
  {
    path: "/admin/directory",
    who: "admin",
    load: () => import("./pages/admin/directory/directory.tsx"),
    nav: { label: (t) => t.adminDirectory.title, icon: "lock" },
  },
  {
    path: "/admin/service-accounts",
    who: "admin",
    load: () => import("./pages/admin/service-accounts/service-accounts.tsx"),
    nav: { label: (t) => t.adminServiceAccounts.title, icon: "code", key: "v" },
  },
  {
    path: "/admin/keys",
    who: "admin",
    load: () => import("./pages/admin/keys/keys.tsx"),
    nav: { label: (t) => t.adminKeys.title, icon: "key", key: "y" },
  },
  {
    path: "/admin/plans",
    who: "admin",
    load: () => import("./pages/admin/plans/plans.tsx"),
    nav: { label: (t) => t.adminPlans.title, icon: "ticket", key: "b" },
  },
  {
    path: "/admin/codes",
    who: "admin",
    load: () => import("./pages/admin/codes/codes.tsx"),
    nav: { label: (t) => t.adminCodes.title, icon: "gift", key: "c" },
  },
  { path: "/admin/codes/:name", who: "admin", load: () => import("./pages/admin/codes/batch.tsx") },
  {
    path: "/admin/captures",
    who: "admin",
    load: () => import("./pages/admin/captures/captures.tsx"),
    nav: { label: (t) => t.adminCaptures.title, icon: "eye", key: "r" },
  },
  { path: "/admin/captures/:id", who: "admin", load: () => import("./pages/admin/captures/capture.tsx") },
  {
    path: "/admin/audit",
    who: "auditor",
    load: () => import("./pages/admin/audit/audit.tsx"),
    nav: { label: (t) => t.adminAudit.title, icon: "history", key: "l" },
  },
  {
    path: "/admin/nodes",
    who: "admin",
    load: () => import("./pages/admin/nodes/nodes.tsx"),
    nav: { label: (t) => t.adminNodes.title, icon: "server", key: "n" },
  },
  {
    path: "/admin/settings",
    who: "admin",
    load: () => import("./pages/admin/settings/settings.tsx"),
    nav: { label: (t) => t.adminSettings.title, icon: "settings", key: "s" },
  },
  {
    path: "/admin/config",
    who: "admin",
    load: () => import("./pages/admin/config/config.tsx"),
    nav: { label: (t) => t.adminConfig.title, icon: "file", key: "i" },
  },
];
