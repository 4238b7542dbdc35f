/** The Chinese texts, joined. */

import type { Catalogue } from "./catalogue.ts";
import { adminAccounts } from "./zh/admin-accounts.ts";
import { adminAudit } from "./zh/admin-audit.ts";
import { adminCaptures } from "./zh/admin-captures.ts";
import { adminCodes } from "./zh/admin-codes.ts";
import { adminConfig } from "./zh/admin-config.ts";
import { adminDashboard } from "./zh/admin-dashboard.ts";
import { adminDirectory } from "./zh/admin-directory.ts";
import { adminGroups } from "./zh/admin-groups.ts";
import { adminKeys } from "./zh/admin-keys.ts";
import { adminModels } from "./zh/admin-models.ts";
import { adminNodes } from "./zh/admin-nodes.ts";
import { adminPlans } from "./zh/admin-plans.ts";
import { adminPolicies } from "./zh/admin-policies.ts";
import { adminServiceAccounts } from "./zh/admin-service-accounts.ts";
import { adminSettings } from "./zh/admin-settings.ts";
import { adminSetup } from "./zh/admin-setup.ts";
import { adminUsers } from "./zh/admin-users.ts";
import { connect } from "./zh/connect.ts";
import { device } from "./zh/device.ts";
import { entry } from "./zh/entry.ts";
import { explorer } from "./zh/explorer.ts";
import { fallback } from "./zh/fallback.ts";
import { keys } from "./zh/keys.ts";
import { kit } from "./zh/kit.ts";
import { limits } from "./zh/limits.ts";
import { models } from "./zh/models.ts";
import { playground } from "./zh/playground.ts";
import { policy } from "./zh/policy.ts";
import { profile } from "./zh/profile.ts";
import { search } from "./zh/search.ts";
import { shell } from "./zh/shell.ts";
import { usage } from "./zh/usage.ts";
import { wallet } from "./zh/wallet.ts";

export const zh: Catalogue = {
  adminAccounts,
  adminAudit,
  adminCaptures,
  adminCodes,
  adminConfig,
  adminDashboard,
  adminDirectory,
  adminGroups,
  adminKeys,
  adminModels,
  adminNodes,
  adminPlans,
  adminPolicies,
  adminServiceAccounts,
  adminSettings,
  adminSetup,
  adminUsers,
  connect,
  device,
  entry,
  explorer,
  fallback,
  keys,
  kit,
  limits,
  models,
  playground,
  policy,
  profile,
  search,
  shell,
  usage,
  wallet,
};
