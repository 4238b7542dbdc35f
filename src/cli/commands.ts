/** The table of all commands. Help, shell completion and the man page are generated from it. */

import { claimAdmin, makeAdminLink } from "./admin.ts";
import { apply } from "./apply.ts";
import { auditLedger } from "./audit.ts";
import { backUp } from "./backup.ts";
import { createRedeemCodes, listCodes, redeemCode, voidCodes } from "./codes.ts";
import type { Command } from "./command.ts";
import { completionCommand } from "./completion.ts";
import { restoreDirectory } from "./directory.ts";
import { doctor } from "./doctor.ts";
import { explain } from "./explain.ts";
import { exportState } from "./export.ts";
import { importGateway } from "./import/import.ts";
import { init } from "./init.ts";
import { createKey, listAllKeys, revoke } from "./keys.ts";
import { rotateMasterKey } from "./master-key.ts";
import { migrateSchema } from "./migrate.ts";
import { migrateStore } from "./migrate-store.ts";
import { listAllNodes } from "./nodes.ts";
import { listPrices, updatePrices } from "./prices.ts";
import { printSchema } from "./schema.ts";
import { selftest } from "./selftest.ts";
import {
  createServiceAccount,
  createServiceToken,
  deleteServiceAccount,
  listAllServiceAccounts,
  revokeServiceTokens,
} from "./service-accounts.ts";
import { simulate } from "./simulate.ts";
import { start } from "./start.ts";
import {
  cancelOneSubscription,
  grantSubscription,
  listAllPlans,
  listAllSubscriptions,
} from "./subscriptions.ts";
import { createToken, listAllTokens, revokeToken } from "./tokens.ts";
import { runTool, setupTool } from "./tools/setup-tool.ts";
import { login, logout, printToken } from "./tools/sign-in.ts";
import { upgradeCheck } from "./upgrade-check.ts";
import { createUser, disableUser, enableUser, listAllUsers, setPassword, setRole } from "./users.ts";
import { adjustWallet, refundRequest, showLedger, showWallet, topUpWallet } from "./wallet.ts";
import { chargeHold, listHoldsCommand, releaseHold } from "./wallet-holds.ts";

export const COMMANDS: readonly Command[] = [
  start,
  init,
  apply,
  exportState,
  importGateway,
  printSchema,
  createKey,
  listAllKeys,
  revoke,
  listAllUsers,
  createUser,
  setRole,
  disableUser,
  enableUser,
  setPassword,
  restoreDirectory,
  createToken,
  listAllTokens,
  revokeToken,
  createServiceAccount,
  listAllServiceAccounts,
  createServiceToken,
  revokeServiceTokens,
  deleteServiceAccount,
  showWallet,
  topUpWallet,
  adjustWallet,
  refundRequest,
  showLedger,
  listHoldsCommand,
  chargeHold,
  releaseHold,
  listAllPlans,
  listAllSubscriptions,
  grantSubscription,
  cancelOneSubscription,
  createRedeemCodes,
  listCodes,
  redeemCode,
  voidCodes,
  claimAdmin,
  makeAdminLink,
  listPrices,
  updatePrices,
  auditLedger,
  backUp,
  migrateStore,
  explain,
  doctor,
  selftest,
  upgradeCheck,
  migrateSchema,
  listAllNodes,
  simulate,
  login,
  logout,
  printToken,
  setupTool,
  runTool,
  completionCommand(() => COMMANDS),
  rotateMasterKey,
];
