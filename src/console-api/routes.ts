/** The route table of the console API. Its names are the operation ids in the documentation and in the console. */

import { adminAccountRoutes } from "./admin/accounts.ts";
import { adminAuditLogRoutes } from "./admin/audit-log.ts";
import { adminCaptureRoutes } from "./admin/captures.ts";
import { adminCodeRoutes } from "./admin/codes.ts";
import { adminConfigRoutes } from "./admin/config.ts";
import { adminDashboardRoutes } from "./admin/dashboard.ts";
import { adminDirectoryRoutes } from "./admin/directory.ts";
import { adminGroupRoutes } from "./admin/groups.ts";
import { adminKeyRoutes } from "./admin/keys.ts";
import { adminModelRoutes } from "./admin/models.ts";
import { adminMoneyRoutes } from "./admin/money.ts";
import { adminNodeRoutes } from "./admin/nodes.ts";
import { adminPlanRoutes } from "./admin/plans.ts";
import { adminPriceRoutes } from "./admin/prices.ts";
import { requestPolicyRoutes } from "./admin/request-policies.ts";
import { resetAccessRoutes } from "./admin/reset-access.ts";
import { adminServiceAccountRoutes } from "./admin/service-accounts.ts";
import { adminSettingsRoutes } from "./admin/settings.ts";
import { adminSetupRoutes } from "./admin/setup.ts";
import { adminSupportRoutes } from "./admin/support.ts";
import { adminUsageExportRoutes } from "./admin/usage-export.ts";
import { adminUserRoutes } from "./admin/users.ts";
import { adminVendorRoutes } from "./admin/vendors.ts";
import { linkRoutes } from "./auth/links.ts";
import { passwordRoutes } from "./auth/password.ts";
import { registrationRoutes } from "./auth/registration.ts";
import { secondFactorRoutes } from "./auth/second-factor.ts";
import { sessionRoutes } from "./auth/sessions.ts";
import { tokenRoutes } from "./auth/tokens.ts";
import { verificationRoutes } from "./auth/verification.ts";
import type { ConsoleRoute } from "./http/route.ts";
import { groupRoutes } from "./keys/groups.ts";
import { keyRoutes } from "./keys/keys.ts";
import { metricsRoutes } from "./metrics/metrics.ts";
import { modelRoutes } from "./models/models.ts";
import { documentRoutes } from "./openapi.ts";
import { scimDiscoveryRoutes } from "./scim/discovery-routes.ts";
import { scimGroupRoutes } from "./scim/group-routes.ts";
import { scimSearchRoutes } from "./scim/search-routes.ts";
import { scimUserRoutes } from "./scim/user-routes.ts";
import { accountLinkRoutes } from "./sign-in/link-account.ts";
import { providerSignInRoutes } from "./sign-in/sign-in.ts";
import { toolRoutes } from "./tools/tool-routes.ts";
import { usageRoutes } from "./usage/usage.ts";
import { walletRoutes } from "./wallet/wallet.ts";

const OPERATIONS = {
  ...adminAccountRoutes,
  ...adminCaptureRoutes,
  ...adminAuditLogRoutes,
  ...adminCodeRoutes,
  ...adminConfigRoutes,
  ...adminDashboardRoutes,
  ...adminDirectoryRoutes,
  ...adminGroupRoutes,
  ...adminKeyRoutes,
  ...adminModelRoutes,
  ...adminMoneyRoutes,
  ...adminNodeRoutes,
  ...adminPlanRoutes,
  ...adminPriceRoutes,
  ...requestPolicyRoutes,
  ...adminServiceAccountRoutes,
  ...adminSettingsRoutes,
  ...adminSetupRoutes,
  ...adminSupportRoutes,
  ...adminUsageExportRoutes,
  ...adminUserRoutes,
  ...adminVendorRoutes,
  ...groupRoutes,
  ...keyRoutes,
  ...modelRoutes,
  ...linkRoutes,
  ...metricsRoutes,
  ...passwordRoutes,
  ...registrationRoutes,
  ...resetAccessRoutes,
  ...secondFactorRoutes,
  ...sessionRoutes,
  ...providerSignInRoutes,
  ...accountLinkRoutes,
  ...scimDiscoveryRoutes,
  ...scimGroupRoutes,
  ...scimSearchRoutes,
  ...scimUserRoutes,
  ...tokenRoutes,
  ...toolRoutes,
  ...usageRoutes,
  ...verificationRoutes,
  ...walletRoutes,
} as const satisfies Record<string, ConsoleRoute>;

export const ROUTES = { ...OPERATIONS, ...documentRoutes(OPERATIONS) };

export type Routes = typeof ROUTES;
export type RouteName = keyof Routes;
