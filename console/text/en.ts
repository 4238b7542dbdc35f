/** The English texts, joined. */

import { adminAccounts } from "./en/admin-accounts.ts";
import { adminAudit } from "./en/admin-audit.ts";
import { adminCaptures } from "./en/admin-captures.ts";
import { adminCodes } from "./en/admin-codes.ts";
import { adminConfig } from "./en/admin-config.ts";
import { adminDashboard } from "./en/admin-dashboard.ts";
import { adminDirectory } from "./en/admin-directory.ts";
import { adminGroups } from "./en/admin-groups.ts";
import { adminKeys } from "./en/admin-keys.ts";
import { adminModels } from "./en/admin-models.ts";
import { adminNodes } from "./en/admin-nodes.ts";
import { adminPlans } from "./en/admin-plans.ts";
import { adminPolicies } from "./en/admin-policies.ts";
import { adminServiceAccounts } from "./en/admin-service-accounts.ts";
import { adminSettings } from "./en/admin-settings.ts";
import { adminSetup } from "./en/admin-setup.ts";
import { adminUsers } from "./en/admin-users.ts";
import { connect } from "./en/connect.ts";
import { device } from "./en/device.ts";
import { entry } from "./en/entry.ts";
import { explorer } from "./en/explorer.ts";
import { fallback } from "./en/fallback.ts";
import { keys } from "./en/keys.ts";
import { kit } from "./en/kit.ts";
import { limits } from "./en/limits.ts";
import { models } from "./en/models.ts";
import { playground } from "./en/playground.ts";
import { policy } from "./en/policy.ts";
import { profile } from "./en/profile.ts";
import { search } from "./en/search.ts";
import { shell } from "./en/shell.ts";
import { usage } from "./en/usage.ts";
import { wallet } from "./en/wallet.ts";

export const en = {
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
