/**
 * The table of all commands. The overview is generated from it; help, shell completion and the man page also need the
 * definitions. A command's module is imported when the command is used, so that none waits for the modules of others.
 */

import { type Command, type CommandEntry, loadCommand } from "./command.ts";

export const COMMANDS: readonly CommandEntry[] = [
  { words: "start", summary: "Run the gateway", load: async () => (await import("./start.ts")).start },
  {
    words: "init",
    summary: "Set up a vendor account: write the first gateway.yaml and apply it",
    load: async () => (await import("./init.ts")).init,
  },
  {
    words: "apply",
    summary: "Apply a configuration file",
    positionals: ["FILE"],
    load: async () => (await import("./apply.ts")).apply,
  },
  {
    words: "export",
    summary: "Print the current configuration as gateway.yaml, without secrets",
    load: async () => (await import("./export.ts")).exportState,
  },
  {
    words: "import",
    summary: "Import keys, users, balances and accounts of another gateway",
    positionals: ["SOURCE"],
    load: async () => (await import("./import/import.ts")).importGateway,
  },
  {
    words: "schema",
    summary: "Print a JSON Schema of gateway.yaml, for editors",
    load: async () => (await import("./schema.ts")).printSchema,
  },
  {
    words: "keys create",
    summary: "Create an API key; its secret is shown only once",
    load: async () => (await import("./create-key.ts")).createKey,
  },
  { words: "keys list", summary: "List API keys", load: async () => (await import("./keys.ts")).listAllKeys },
  {
    words: "keys revoke",
    summary: "Revoke an API key permanently",
    positionals: ["PUBLIC_ID"],
    load: async () => (await import("./keys.ts")).revoke,
  },
  { words: "users list", summary: "List users", load: async () => (await import("./users.ts")).listAllUsers },
  {
    words: "users create",
    summary: "Create a user without a password",
    positionals: ["EMAIL"],
    load: async () => (await import("./users.ts")).createUser,
  },
  {
    words: "users role",
    summary: "Change the role of a user: user, auditor or admin",
    positionals: ["EMAIL", "ROLE"],
    load: async () => (await import("./users.ts")).setRole,
  },
  {
    words: "users disable",
    summary: "Disable a user: sign-in and API keys are rejected",
    positionals: ["EMAIL"],
    load: async () => (await import("./users.ts")).disableUser,
  },
  {
    words: "users enable",
    summary: "Enable a disabled user again",
    positionals: ["EMAIL"],
    load: async () => (await import("./users.ts")).enableUser,
  },
  {
    words: "users password",
    summary: "Set a new password for a user, and end all sessions",
    positionals: ["EMAIL"],
    load: async () => (await import("./users.ts")).setPassword,
  },
  {
    words: "directory restore",
    summary: "Restore the people whom a provider has lost at once",
    positionals: ["PROVIDER"],
    load: async () => (await import("./directory.ts")).restoreDirectory,
  },
  {
    words: "tokens create",
    summary: "Create a personal access token; its secret is shown only once",
    load: async () => (await import("./tokens.ts")).createToken,
  },
  {
    words: "tokens list",
    summary: "List personal access tokens",
    load: async () => (await import("./tokens.ts")).listAllTokens,
  },
  {
    words: "tokens revoke",
    summary: "Revoke a personal access token permanently",
    positionals: ["ID"],
    load: async () => (await import("./tokens.ts")).revokeToken,
  },
  {
    words: "service-accounts create",
    summary: "Create a service account with its first token, which is shown only once",
    positionals: ["NAME"],
    load: async () => (await import("./service-accounts.ts")).createServiceAccount,
  },
  {
    words: "service-accounts list",
    summary: "List service accounts",
    load: async () => (await import("./service-accounts.ts")).listAllServiceAccounts,
  },
  {
    words: "service-accounts token",
    summary: "Create a new token of a service account; earlier tokens end after the overlap",
    positionals: ["NAME"],
    load: async () => (await import("./service-accounts.ts")).createServiceToken,
  },
  {
    words: "service-accounts revoke-tokens",
    summary: "Revoke all tokens of a service account",
    positionals: ["NAME"],
    load: async () => (await import("./service-accounts.ts")).revokeServiceTokens,
  },
  {
    words: "service-accounts delete",
    summary: "Delete a service account; its tokens are rejected at once",
    positionals: ["NAME"],
    load: async () => (await import("./service-accounts.ts")).deleteServiceAccount,
  },
  {
    words: "wallet show",
    summary: "Show a user's balance and latest ledger entries",
    load: async () => (await import("./wallet.ts")).showWallet,
  },
  {
    words: "wallet top-up",
    summary: "Top up a user's balance",
    load: async () => (await import("./wallet.ts")).topUpWallet,
  },
  {
    words: "wallet adjust",
    summary: "Adjust a user's balance, up or down",
    load: async () => (await import("./wallet.ts")).adjustWallet,
  },
  {
    words: "wallet refund",
    summary: "Refund the charge of a request",
    positionals: ["REQUEST_ID"],
    load: async () => (await import("./wallet.ts")).refundRequest,
  },
  {
    words: "wallet ledger",
    summary: "List a user's ledger entries, newest first",
    load: async () => (await import("./wallet.ts")).showLedger,
  },
  {
    words: "wallet holds",
    summary: "List holds that could not be settled",
    load: async () => (await import("./wallet-holds.ts")).listHoldsCommand,
  },
  {
    words: "wallet charge-hold",
    summary: "Charge a hold that could not be settled",
    positionals: ["REQUEST_ID"],
    load: async () => (await import("./wallet-holds.ts")).chargeHold,
  },
  {
    words: "wallet release-hold",
    summary: "Release a hold that could not be settled, without a charge",
    positionals: ["REQUEST_ID"],
    load: async () => (await import("./wallet-holds.ts")).releaseHold,
  },
  {
    words: "plans list",
    summary: "List plans",
    load: async () => (await import("./subscriptions.ts")).listAllPlans,
  },
  {
    words: "subscriptions list",
    summary: "List subscriptions, with their remaining quota",
    load: async () => (await import("./subscriptions.ts")).listAllSubscriptions,
  },
  {
    words: "subscriptions grant",
    summary: "Grant a plan to a user",
    load: async () => (await import("./subscriptions.ts")).grantSubscription,
  },
  {
    words: "subscriptions cancel",
    summary: "Cancel a subscription",
    positionals: ["ID"],
    load: async () => (await import("./subscriptions.ts")).cancelOneSubscription,
  },
  {
    words: "codes create",
    summary: "Create redeem codes; they are shown only once",
    load: async () => (await import("./codes.ts")).createRedeemCodes,
  },
  {
    words: "codes list",
    summary: "List batches of redeem codes",
    load: async () => (await import("./codes.ts")).listCodes,
  },
  {
    words: "codes redeem",
    summary: "Redeem a code for a user",
    positionals: ["CODE"],
    load: async () => (await import("./codes.ts")).redeemCode,
  },
  {
    words: "codes void",
    summary: "Void the unused codes of a batch",
    positionals: ["BATCH"],
    load: async () => (await import("./codes.ts")).voidCodes,
  },
  {
    words: "admin claim",
    summary: "Create the administrator with the one-time token of the first start",
    load: async () => (await import("./admin.ts")).claimAdmin,
  },
  {
    words: "admin link",
    summary: "Create a one-time link for a user who cannot sign in",
    load: async () => (await import("./admin.ts")).makeAdminLink,
  },
  {
    words: "prices list",
    summary: "List the price of each model and its source",
    load: async () => (await import("./prices.ts")).listPrices,
  },
  {
    words: "prices update",
    summary: "Import a newer price list from a file",
    load: async () => (await import("./prices.ts")).updatePrices,
  },
  {
    words: "audit",
    summary: "Check the consistency of ledger, usage and audit log",
    load: async () => (await import("./audit.ts")).auditLedger,
  },
  {
    words: "backup",
    summary: "Back up the database while the server runs",
    positionals: ["FILE"],
    load: async () => (await import("./backup.ts")).backUp,
  },
  {
    words: "migrate-store",
    summary: "Move the installation from SQLite to PostgreSQL, or back",
    load: async () => (await import("./migrate-store.ts")).migrateStore,
  },
  {
    words: "explain",
    summary: "Explain a request, or whether a key can call a model",
    positionals: ["[REQUEST_ID]"],
    load: async () => (await import("./explain.ts")).explain,
  },
  {
    words: "doctor",
    summary: "Check the configuration, the database and every account",
    load: async () => (await import("./doctor.ts")).doctor,
  },
  {
    words: "selftest",
    summary: "Check that the program itself is complete",
    load: async () => (await import("./selftest.ts")).selftest,
  },
  {
    words: "upgrade-check",
    summary: "Show what this version would change in the database",
    load: async () => (await import("./upgrade-check.ts")).upgradeCheck,
  },
  {
    words: "migrate",
    summary: "Migrate the database to the schema of this version",
    load: async () => (await import("./migrate.ts")).migrateSchema,
  },
  {
    words: "nodes",
    summary: "List the nodes that run on this database",
    load: async () => (await import("./nodes.ts")).listAllNodes,
  },
  {
    words: "simulate",
    summary: "Run the built-in simulator, an upstream without a real model",
    load: async () => (await import("./simulate.ts")).simulate,
  },
  {
    words: "login",
    summary: "Sign this computer in at a gateway, for tools that call models",
    positionals: ["URL"],
    load: async () => (await import("./tools/sign-in.ts")).login,
  },
  {
    words: "logout",
    summary: "End the sign-in of this computer at a gateway",
    load: async () => (await import("./tools/sign-in.ts")).logout,
  },
  {
    words: "token",
    summary: "Print a valid access token of this computer",
    load: async () => (await import("./tools/sign-in.ts")).printToken,
  },
  {
    words: "setup",
    summary: "Set up a tool of this computer: claude, codex, gemini or opencode",
    positionals: ["TOOL"],
    load: async () => (await import("./tools/setup-tool.ts")).setupTool,
  },
  {
    words: "run",
    summary: "Run a tool of this computer with the gateway, without changing its files",
    positionals: ["TOOL", "[ARGUMENT...]"],
    load: async () => (await import("./tools/setup-tool.ts")).runTool,
  },
  {
    words: "completion",
    summary: "Print the completion script of a shell",
    positionals: ["SHELL"],
    load: async () => (await import("./completion.ts")).completionCommand(loadAllCommands),
  },
  {
    words: "master-key rotate",
    summary: "Encrypt all stored secrets with a new master key",
    load: async () => (await import("./master-key.ts")).rotateMasterKey,
  },
];

export function loadAllCommands(): Promise<Command[]> {
  return Promise.all(COMMANDS.map(loadCommand));
}
