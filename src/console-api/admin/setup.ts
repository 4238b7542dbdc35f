/** Routes for the first hour of an installation: what is still missing, and a vendor account with its models in one step. */

import { z } from "zod";
import { isBuiltIn } from "../../accounts/kinds/table.ts";
import {
  accountFields,
  buildSetupDocument,
  chooseName,
  type ProposedModel,
  proposeModels,
  SETUP_VENDORS,
  type SetupVendor,
} from "../../config/first-run/setup.ts";
import { groupToFile, nameRecords } from "../../config/state/to-file-shape.ts";
import type { PolicyGroup } from "../../policy/snapshot.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import type { PolicyRecords } from "../../records/policy.ts";
import type { Db } from "../../store/engine/db.ts";
import { listLinks } from "../../store/identity/links.ts";
import { listUserPage } from "../../store/identity/user-list.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { readPriceList } from "../../store/policy/price-list.ts";
import { listUsage } from "../../store/reports/usage-list.ts";
import { changePolicy } from "../changes/change.ts";
import type { ConsoleContext } from "../context.ts";
import { nameField } from "../forms/fields.ts";
import { priceForm } from "../forms/policy-forms.ts";
import { fieldError } from "../http/field-error.ts";
import { forAdmins } from "../http/route.ts";
import { hasVendor } from "../keys/usable-groups.ts";
import { flushUsage } from "../usage/flush-usage.ts";
import { probeResponse, testAccount } from "./account-test.ts";

const vendorId = z.string().max(40);
const credential = z.string().min(1).max(8_192);
const DEFAULT_GROUP = "team";

const stepsResponse = z.object({
  /** An account of a vendor. The simulator does not count, here and below. */
  account: z.boolean(),
  /** A group publishes a model of such an account. */
  models: z.boolean(),
  /** All of these models have a price. */
  price: z.boolean(),
  /** There is a second user, or an invitation. */
  person: z.boolean(),
  /** A key can call one of these models. */
  tool: z.boolean(),
  /** One of these models has responded. */
  request: z.boolean(),
});

export const adminSetupRoutes = {
  "admin.setup.get": forAdmins({
    method: "GET",
    path: "/api/admin/setup",
    summary: "Get the steps of the first setup that are done, and the vendors to choose from",
    response: z.object({
      steps: stepsResponse,
      vendors: z.array(z.object({ id: z.string(), label: z.string() })),
    }),
    async run(context) {
      return {
        steps: await computeSteps(context),
        vendors: SETUP_VENDORS.map(({ id, label }) => ({ id, label })),
      };
    },
  }),
  "admin.setup.propose": forAdmins({
    method: "POST",
    path: "/api/admin/setup-proposal",
    summary:
      "List the models of a vendor account that is not saved yet, with their list prices. Calls no model",
    body: z.strictObject({ vendor: vendorId, credential }),
    response: z.object({
      probe: probeResponse,
      /** Names that are not taken. */
      account: z.string(),
      group: z.string(),
      models: z.array(
        z.object({ id: z.string(), interfaces: z.array(z.enum(INTERFACES)), price: priceForm.nullable() }),
      ),
    }),
    async run(context, { body }) {
      const { db } = context.installation;
      const vendor = findVendor(body.vendor);
      const records = await readPolicy(db);
      const account = chooseAccountName(vendor, records);
      const document = { ...accountFields(vendor, account), credential: body.credential };
      const probe = await testAccount(context, document);
      const models = proposeModels(probe.models, vendor, await readPriceList(db));
      return { probe, account, group: DEFAULT_GROUP, models: models.map(proposedObject) };
    },
  }),
  "admin.setup.publish": forAdmins({
    method: "POST",
    path: "/api/admin/setup",
    summary:
      "Create a vendor account, its models, and a group that publishes them; an existing group is extended",
    body: z.strictObject({
      vendor: vendorId,
      credential,
      models: z.array(z.string()).min(1).max(1_000),
      group: nameField.default(DEFAULT_GROUP),
    }),
    response: z.object({ account: z.string(), group: z.string() }),
    async run(context, input) {
      const { models: ids, group, credential } = input.body;
      const vendor = findVendor(input.body.vendor);
      let accountName = "";
      await changePolicy(context, input, async ({ installation }) => {
        const records = await readPolicy(installation.db);
        const models = proposeModels(ids, vendor, await readPriceList(installation.db));
        accountName = chooseAccountName(vendor, records);
        const document = buildSetupDocument({ vendor, accountName, models, groupName: group });
        return {
          accounts: document.accounts.map((account) => ({ ...account, credential })),
          models: document.models.filter(({ id }) => !records.models.some((model) => model.id === id)),
          groups: document.groups.map((created) => extendGroup(records, created)),
        };
      });
      return { account: accountName, group };
    },
  }),
};

function findVendor(id: string): SetupVendor {
  const vendor = SETUP_VENDORS.find((one) => one.id === id);
  if (vendor !== undefined) return vendor;
  throw fieldError("vendor", "invalid_value", "is not one of the vendors that GET /api/admin/setup lists.");
}

function chooseAccountName({ id }: SetupVendor, { accounts }: PolicyRecords): string {
  return chooseName(
    id,
    accounts.map(({ name }) => name),
  );
}

function proposedObject({ id, interfaces, price }: ProposedModel) {
  return { id, interfaces: [...interfaces], price };
}

interface NewGroup {
  name: string;
  models: string[];
  accounts: string[];
}

function extendGroup(records: PolicyRecords, { name, models, accounts }: NewGroup) {
  const group = records.groups.find((one) => one.name === name);
  if (group === undefined) return { name, models, accounts };
  const names = nameRecords(records);
  const written = groupToFile(group, names);
  return {
    ...written,
    models: [...new Set([...group.models, ...models])],
    accounts: [...group.accounts.flatMap((id) => names.accounts.get(id) ?? []), ...accounts],
  };
}

async function computeSteps(context: ConsoleContext): Promise<z.input<typeof stepsResponse>> {
  const { installation, gateway } = context;
  const { db, clock } = installation;
  const { accounts, groups } = gateway.policy.snapshot();
  const offers = [...groups.values()]
    .map((group) => ({ group, models: [...group.models.values()].filter(hasVendor) }))
    .filter(({ models }) => models.length > 0);
  const realGroups = new Set(offers.map(({ group }) => group.id));
  await flushUsage(context);
  return {
    account: [...accounts.values()].some(({ kind }) => !isBuiltIn(kind)),
    models: offers.length > 0,
    price: offers.length > 0 && offers.every(({ models }) => models.every(({ tariff }) => tariff !== null)),
    person: await hasSecondPerson(db, clock.nowMs()),
    tool: [...gateway.policy.keys.values()].some(({ groupId }) => realGroups.has(groupId)),
    request: await hasResponded(
      db,
      offers.map(({ group }) => group),
    ),
  };
}

const LINKS_READ = 100;

async function hasSecondPerson(db: Db, nowMs: number): Promise<boolean> {
  const { users } = await listUserPage(db, {}, { after: null, limit: 2, usedSinceMs: nowMs });
  if (users.length > 1) return true;
  const links = await listLinks(db, nowMs, { after: null, limit: LINKS_READ });
  return links.some(({ purpose }) => purpose === "invite");
}

async function hasResponded(db: Db, groups: readonly PolicyGroup[]): Promise<boolean> {
  for (const { id } of groups) {
    const filter = { groupId: id, outcome: "completed" } as const;
    const { rows } = await listUsage(db, filter, { after: null, limit: 1 });
    if (rows.length > 0) return true;
  }
  return false;
}
