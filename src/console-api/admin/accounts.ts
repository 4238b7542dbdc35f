/** Routes for upstream accounts and their health. Credentials are write-only. */

import { z } from "zod";
import { accountToFile } from "../../config/state/to-file-shape.ts";
import { ApiError } from "../../errors.ts";
import { findTranslation } from "../../policy/translation.ts";
import type { AccountRecord } from "../../records/account.ts";
import { INTERFACES, type Interface } from "../../records/interfaces.ts";
import type { PolicyRecords } from "../../records/policy.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import { changePolicy } from "../changes/change.ts";
import type { ConsoleContext, PolicyContext, StoreContext } from "../context.ts";
import { accountForm, computeVersion } from "../forms/policy-forms.ts";
import { fieldError } from "../http/field-error.ts";
import { namedPage, selectMembers } from "../http/named-page.ts";
import { buildPage, groupQuery, pageQuery, searchQuery } from "../http/page.ts";
import { forAdmins } from "../http/route.ts";
import { probeResponse, testAccount } from "./account-test.ts";
import {
  accountFacts,
  accountFactsResponse,
  accountUsage,
  accountUsageResponse,
  usageObject,
} from "./account-view.ts";

const interfaceList = z.array(z.enum(INTERFACES));

const accountResponse = z.object({
  document: accountForm,
  /** Version of the document, to be sent back when it is saved. */
  version: z.string(),
  /** The credential is stored and never shown. */
  has_credential: z.boolean(),
  /** Names of the groups whose pool contains it. */
  groups: z.array(z.string()),
  created_at: z.number(),
  /** The interfaces that the account has itself, and those that requests are translated for. */
  interfaces: z.object({ native: interfaceList, translated: interfaceList }),
  facts: accountFactsResponse,
  usage: z.array(accountUsageResponse),
  /** Start of the counted usage. Later than requested if there were too many requests to count. */
  usage_since: z.number(),
});

/** Write-only. */
const credential = z.string().optional();
const byName = { params: z.strictObject({ name: z.string() }) };

export const adminAccountRoutes = {
  "admin.accounts.list": forAdmins({
    method: "GET",
    path: "/api/admin/accounts",
    summary: "List accounts, with their health in this process, upstream cost and charges",
    query: z.strictObject({ ...pageQuery, ...searchQuery, ...groupQuery }),
    response: buildPage(accountResponse),
    async run(context, { query }) {
      const records = await readPolicy(context.installation.db);
      const isListed = selectMembers(records, query.group, ({ accounts }) => accounts);
      const accounts = records.accounts.filter(({ id }) => isListed(id));
      const { page, next } = namedPage(accounts, ({ name }) => name, query);
      return {
        data: await Promise.all(page.map((account) => accountObject(context, account, records))),
        next,
      };
    },
  }),
  "admin.accounts.get": forAdmins({
    ...byName,
    method: "GET",
    path: "/api/admin/accounts/:name",
    summary: "Get an account, in the format of gateway.yaml, with its health and usage",
    response: accountResponse,
    run: (context, { params }) => readAccountResponse(context, params.name),
  }),
  "admin.accounts.create": forAdmins({
    method: "POST",
    path: "/api/admin/accounts",
    summary: "Create an account",
    body: z.strictObject({ document: accountForm, credential }),
    response: accountResponse,
    async run(context, input) {
      const { document, credential } = input.body;
      await changePolicy(context, input, async (context) => {
        const { accounts } = await readPolicy(context.installation.db);
        if (accounts.some(({ name }) => name === document.name)) {
          throw fieldError("name", "conflict", "another account already has this name. Choose another name.");
        }
        return { accounts: [withCredential(document, credential)] };
      });
      return readAccountResponse(context, document.name);
    },
  }),
  "admin.accounts.save": forAdmins({
    ...byName,
    method: "PUT",
    path: "/api/admin/accounts/:name",
    summary: "Replace the configuration of an account; an omitted credential is unchanged",
    body: z.strictObject({
      document: accountForm,
      credential,
      /** If omitted, the current document is replaced regardless of its version. */
      version: z.string().optional(),
    }),
    response: accountResponse,
    async run(context, input) {
      const { name } = input.params;
      const { document, credential, version } = input.body;
      await changePolicy(context, input, async (context) => {
        const { account } = await findAccount(context, name);
        if (document.name !== name) {
          throw fieldError(
            "name",
            "invalid_value",
            "the name of an account cannot be changed. Create another account, and disable this one.",
          );
        }
        if (version !== undefined && version !== computeVersion(accountToFile(account))) {
          throw new ApiError(
            "conflict",
            "This account was changed by another user after you opened it. Reload it and repeat your change.",
          );
        }
        return { accounts: [withCredential(document, credential)] };
      });
      return readAccountResponse(context, name);
    },
  }),
  "admin.accounts.delete": forAdmins({
    ...byName,
    method: "DELETE",
    path: "/api/admin/accounts/:name",
    summary: "Delete an account and remove it from every pool; requests in flight finish",
    response: z.object({ groups: z.array(z.string()) }),
    async run(context, input) {
      const { account, records } = await findAccount(context, input.params.name);
      await changePolicy(context, input, {}, { accounts: [account.name] });
      return { groups: listGroupNames(account, records) };
    },
  }),
  "admin.accounts.test": forAdmins({
    method: "POST",
    path: "/api/admin/account-test",
    summary: "Test an account, saved or not, by listing its models; an omitted credential is the stored one",
    body: z.strictObject({ document: accountForm, credential }),
    response: probeResponse,
    run: (context, { body }) => testAccount(context, withCredential(body.document, body.credential)),
  }),
  "admin.accounts.set_credential": forAdmins({
    ...byName,
    method: "PUT",
    path: "/api/admin/accounts/:name/credential",
    summary: "Replace the credential of an account, and unpark an account that was parked because of it",
    body: z.strictObject({ credential: z.string() }),
    response: accountResponse,
    async run(context, input) {
      await changePolicy(context, input, async (context) => {
        const { account } = await findAccount(context, input.params.name);
        return { accounts: [{ ...accountToFile(account), credential: input.body.credential }] };
      });
      return readAccountResponse(context, input.params.name);
    },
  }),
  "admin.accounts.act": forAdmins({
    ...byName,
    method: "POST",
    path: "/api/admin/accounts/:name/actions",
    summary: "Enable, drain and disable, park, or unpark an account",
    body: z.strictObject({
      /**
       * `disable` is a change of the policy; requests in flight finish. `park` takes the account out of use on all
       * nodes, until `unpark`, which also ends a cool-down.
       */
      action: z.enum(["enable", "disable", "park", "unpark"]),
    }),
    response: accountResponse,
    async run(context, input) {
      const { action } = input.body;
      if (action === "enable" || action === "disable") {
        await changePolicy(context, input, async (context) => {
          const { account } = await findAccount(context, input.params.name);
          return { accounts: [{ ...accountToFile(account), enabled: action === "enable" }] };
        });
      } else {
        const { account } = await findAccount(context, input.params.name);
        const { db, clock } = context.installation;
        const target = `account ${account.name}`;
        setParked(context, account, action === "park");
        await recordChange(db, input, {
          atMs: clock.nowMs(),
          action: `account.${action}`,
          target,
          changes: [],
        });
      }
      return readAccountResponse(context, input.params.name);
    },
  }),
};

function setParked(
  { gateway }: Pick<ConsoleContext, "gateway">,
  { id }: AccountRecord,
  parked: boolean,
): void {
  const { pool } = gateway.dispatcher;
  const account = gateway.policy.snapshot().accounts.get(id);
  if (account === undefined) {
    throw new ApiError("conflict", "The account is disabled and gets no requests. Enable it first.");
  }
  if (parked) pool.park(account);
  else pool.resetHealth(id);
}

function withCredential<Document extends object>(document: Document, credential: string | undefined) {
  return credential === undefined || credential === "" ? document : { ...document, credential };
}

interface AccountLookup {
  account: AccountRecord;
  records: PolicyRecords;
}

async function findAccount({ installation }: StoreContext, name: string): Promise<AccountLookup> {
  const records = await readPolicy(installation.db);
  const account = records.accounts.find((one) => one.name === name);
  if (account !== undefined) return { account, records };
  throw new ApiError("not_found", "This account does not exist. GET /api/admin/accounts lists the accounts.");
}

async function readAccountResponse(
  context: PolicyContext,
  name: string,
): Promise<z.input<typeof accountResponse>> {
  const { account, records } = await findAccount(context, name);
  return accountObject(context, account, records);
}

async function accountObject(
  context: PolicyContext,
  account: AccountRecord,
  records: PolicyRecords,
): Promise<z.input<typeof accountResponse>> {
  const { byAccount, sinceMs } = await accountUsage(context);
  const document = accountToFile(account);
  return {
    document,
    version: computeVersion(document),
    has_credential: account.sealedCredential !== null,
    groups: listGroupNames(account, records),
    created_at: account.createdAtMs,
    interfaces: {
      native: INTERFACES.filter((name) => findTranslation(account.interfaces, name) === null),
      translated: INTERFACES.filter((name) => isTranslated(account, name)),
    },
    facts: accountFacts(context, account),
    usage: usageObject(byAccount.get(account.id)),
    usage_since: sinceMs,
  };
}

function isTranslated({ interfaces }: AccountRecord, name: Interface): boolean {
  const translation = findTranslation(interfaces, name);
  return translation !== null && translation !== "none";
}

function listGroupNames({ id }: AccountRecord, { groups }: PolicyRecords): string[] {
  return groups.filter(({ accounts }) => accounts.includes(id)).map(({ name }) => name);
}
