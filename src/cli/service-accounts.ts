/** `model-gateway service-accounts`: creates, lists and deletes service accounts and their tokens. */

import { instantText } from "../base/time.ts";
import type { Installation } from "../config/installation/installation.ts";
import { limits } from "../config/limits/product-limits.ts";
import { applyChanges, type DocumentOptions, planDocument } from "../config/plan/apply.ts";
import { issueServiceToken } from "../config/plan/issue-service-token.ts";
import { serviceAccountTitle } from "../config/plan/plan-service-accounts.ts";
import type { GatewayDocument } from "../config/schema/schema.ts";
import { durationMs } from "../config/schema/usage-limits.ts";
import { formatProblem } from "../config/state/problem.ts";
import { usdText } from "../money/nano.ts";
import { SERVICE_SCOPES, type ServiceAccountRecord } from "../records/service-account.ts";
import type { Db } from "../store/engine/db.ts";
import { listServiceAccounts } from "../store/identity/service-accounts.ts";
import { deleteServiceTokens, listServiceTokens } from "../store/identity/service-tokens.ts";
import { type CommandDefinition, DATA_OPTION, fail, type Input, JSON_OPTION, misuse } from "./command.ts";
import { EXPIRES_OPTION } from "./instants.ts";
import { operator, runLogged } from "./operator.ts";
import { printJson, printList } from "./output.ts";
import {
  chooseSecretTarget,
  SECRET_OPTIONS,
  SECRET_RULE,
  type SecretTarget,
  secretFileText,
  storeSecrets,
} from "./secret-output.ts";
import { withInstallation } from "./store-access.ts";

export const createServiceAccount: CommandDefinition = {
  changes: "access",
  about: `For a payment system: --scopes wallet.top_up,wallet.read --usd-per-call 500 --usd-per-day 5000
For CI: --scopes config.apply
${SECRET_RULE}`,
  options: {
    scopes: { value: "SCOPES", about: `separated by commas: ${SERVICE_SCOPES.join(", ")}`, required: true },
    "usd-per-call": { value: "USD", about: "for wallet.top_up: the largest top-up of one call" },
    "usd-per-day": { value: "USD", about: "for wallet.top_up: the sum of the top-ups of a day (UTC)" },
    expires: EXPIRES_OPTION,
    ...SECRET_OPTIONS,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const name = input.require("NAME");
      const target = chooseSecretTarget(input, installation.settings, "tokens");
      if ((await findByName(installation.db, name)) !== undefined)
        fail(`A service account "${name}" already exists.`, `See: ${input.command("service-accounts list")}`);
      await applyDocument(installation, { service_accounts: [readOptions(input, name)] });
      return deliverToken(input, installation, { name, target, overlapMs: 0 });
    }),
};

/** In file shape, so that its rules apply. */
function readOptions(input: Input, name: string): object {
  const usdPerCall = input.text("usd-per-call");
  const usdPerDay = input.text("usd-per-day");
  const hasBounds = usdPerCall !== undefined || usdPerDay !== undefined;
  const expires = input.text("expires");
  return {
    name,
    scopes: input.require("scopes").split(","),
    ...(hasBounds ? { bounds: { usd_per_call: usdPerCall, usd_per_day: usdPerDay } } : {}),
    ...(expires === undefined ? {} : { expires }),
  };
}

export const createServiceToken: CommandDefinition = {
  changes: "access",
  about: SECRET_RULE,
  options: {
    overlap: { value: "DURATION", about: "how long earlier tokens still work, like 1h or 7d (1d)" },
    ...SECRET_OPTIONS,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, (installation) => {
      const target = chooseSecretTarget(input, installation.settings, "tokens");
      const overlapMs = readOverlap(input);
      return deliverToken(input, installation, { name: input.require("NAME"), target, overlapMs });
    }),
};

function readOverlap(input: Input): number {
  const text = input.text("overlap") ?? "1d";
  const overlapMs = text === "0" ? 0 : durationMs(text);
  if (overlapMs === null || overlapMs > limits.rotationOverlapMsMax)
    misuse("--overlap must be 0 or a duration of at most 30d.", "For example: --overlap 1h");
  return overlapMs;
}

interface TokenDelivery {
  name: string;
  target: SecretTarget;
  overlapMs: number;
}

async function deliverToken(
  input: Input,
  installation: Installation,
  { name, target, overlapMs }: TokenDelivery,
): Promise<void> {
  const { secret } = await runLogged(
    installation,
    async (tx) =>
      issueServiceToken(tx.db, tx, { account: await requireByName(tx.db, name, input), overlapMs }),
    ({ changes }) => ({
      action: "service_account.create_token",
      target: serviceAccountTitle(name),
      changes,
    }),
  );
  const file = storeSecrets(target, [{ name, secret }]);
  const { print, paint } = input.terminal;
  if (input.flag("json")) printJson(input, { name, ...(file === null ? { secret } : { secret_file: file }) });
  else {
    const title = `Token of the service account ${paint.bold(name)}`;
    print(
      file === null
        ? `${title}, shown only once:\n\n  ${paint.bold(secret)}\n`
        : `${title}: ${secretFileText(file)}`,
    );
  }
}

export const listAllServiceAccounts: CommandDefinition = {
  changes: "nothing",
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, clock }) => {
      const accounts = await listServiceAccounts(db);
      const tokens = await listServiceTokens(
        db,
        accounts.map(({ id }) => id),
        clock.nowMs(),
      );
      const json = accounts.map(({ id, name, scopes, bounds, expiresAtMs }) => {
        const own = tokens.filter(({ serviceAccountId }) => serviceAccountId === id);
        const usedAtMs = Math.max(0, ...own.map((token) => token.usedAtMs ?? 0));
        return {
          name,
          scopes: [...scopes],
          bounds: bounds && { usd_per_call: usdText(bounds.callNano), usd_per_day: usdText(bounds.dayNano) },
          expires: instantText(expiresAtMs),
          tokens: own.length,
          used: usedAtMs === 0 ? null : instantText(usedAtMs),
        };
      });
      printList(input, {
        json,
        header: ["NAME", "SCOPES", "PER CALL", "PER DAY", "EXPIRES", "TOKENS", "USED"],
        rows: json.map(({ name, scopes, bounds, expires, tokens: count, used }) => [
          name,
          scopes.join(", "),
          bounds === null ? "-" : `$${bounds.usd_per_call}`,
          bounds === null ? "-" : `$${bounds.usd_per_day}`,
          expires?.slice(0, 10) ?? "-",
          String(count),
          used?.slice(0, 10) ?? "never",
        ]),
        empty: "No service accounts yet.",
      });
    }),
};

export const revokeServiceTokens: CommandDefinition = {
  changes: "access",
  options: { data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const name = input.require("NAME");
      const revoked = await runLogged(
        installation,
        async ({ db }) => deleteServiceTokens(db, (await requireByName(db, name, input)).id),
        (count) => ({
          action: "service_account.revoke_tokens",
          target: serviceAccountTitle(name),
          changes: [{ field: "tokens", from: String(count), to: "0" }],
        }),
      );
      input.terminal.print(
        `${name}: ${revoked} revoked. To create a new token: ${input.command("service-accounts token", name)}`,
      );
    }),
};

export const deleteServiceAccount: CommandDefinition = {
  changes: "access",
  options: { data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { name } = await requireByName(installation.db, input.require("NAME"), input);
      await applyDocument(installation, {}, { removals: { service_accounts: [name] } });
      input.terminal.print(`The service account ${name} was deleted.`);
    }),
};

async function findByName(db: Db, name: string): Promise<ServiceAccountRecord | undefined> {
  return (await listServiceAccounts(db)).find((one) => one.name === name);
}

async function requireByName(db: Db, name: string, input: Input): Promise<ServiceAccountRecord> {
  return (
    (await findByName(db, name)) ??
    fail(`The service account "${name}" does not exist.`, `See: ${input.command("service-accounts list")}`)
  );
}

/** With the rules of a configuration file. */
async function applyDocument(
  installation: Installation,
  document: GatewayDocument,
  options: Pick<DocumentOptions, "removals"> = {},
): Promise<void> {
  const result = await planDocument(installation, document, options);
  if (!result.ok) fail(result.problems.map(formatProblem).join("\n"));
  await applyChanges(installation, result.plan, { actor: operator(), address: null });
}
