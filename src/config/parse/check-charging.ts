/** Finds configuration that cannot be billed: models without a price, keys without a user. */

import { needsPrices, openPricing } from "../../policy/pricing.ts";
import type { GroupRecord } from "../../records/group.ts";
import type { GatewayFile } from "../schema/schema.ts";
import type { FieldProblem } from "../state/problem.ts";
import type { ConfigState } from "../state/step.ts";

/** `after` is the state once the file is applied. */
export function chargingProblems(
  file: GatewayFile,
  after: ConfigState,
  options: { prune: boolean },
): FieldProblem[] {
  return [...findUnpriced(file, after, options), ...findKeysWithoutUser(file, after, options)];
}

const REMEDY =
  "Set a price in models[].price or in the group's billing.model_prices, or make the group free: charge: none, and no windows in usd.";

function findUnpriced(file: GatewayFile, after: ConfigState, { prune }: { prune: boolean }): FieldProblem[] {
  const openGroupPricing = openPricing(after);
  const models = new Map(after.models.map((model) => [model.id, model]));
  return after.groups.filter(needsPrices).flatMap((group) => {
    const lookUpTerms = openGroupPricing(group);
    const inFile = file.groups.findIndex(({ name }) => name === group.name);
    // Entries that the file does not touch are not checked here, even if they need attention: `doctor` reports
    // them.
    if (inFile === -1 && prune) return [];
    return group.models.flatMap((id, position): FieldProblem[] => {
      const model = models.get(id);
      if (model === undefined || lookUpTerms(model).price !== null) return [];
      if (inFile !== -1) {
        const isNamed = model.price !== null || Object.hasOwn(group.billing.modelPrices, id);
        const missing = isNamed
          ? `whose price has no unit for its interfaces (${model.interfaces.join(", ")})`
          : "without a price";
        return [
          {
            path: ["groups", inFile, "models", position],
            message: `is a model ${missing}, and the group ${describeCharge(group)}. ${REMEDY}`,
          },
        ];
      }
      const modelInFile = file.models.findIndex((wanted) => wanted.id === id);
      if (modelInFile === -1) return [];
      return [
        {
          path: ["models", modelInFile, "price"],
          message: `is missing, and the group "${group.name}" that publishes the model ${describeCharge(group)}. ${REMEDY}`,
        },
      ];
    });
  });
}

function describeCharge({ billing }: GroupRecord): string {
  return billing.charge === "none" ? "has a window in usd" : `charges (billing.charge: ${billing.charge})`;
}

export const NO_PAYER = "a key of a charging group needs a user to charge";

function findKeysWithoutUser(
  file: GatewayFile,
  after: ConfigState,
  { prune }: { prune: boolean },
): FieldProblem[] {
  const charging = new Map(
    after.groups.filter(({ billing }) => billing.charge !== "none").map((group) => [group.name, group]),
  );
  const inFile = file.keys.flatMap((key, i): FieldProblem[] =>
    key.user !== undefined || !charging.has(key.group)
      ? []
      : [
          {
            path: ["keys", i, "user"],
            message: `is missing: ${NO_PAYER}. Set a user, or choose a group with charge: none.`,
          },
        ],
  );
  if (prune) return inFile;
  const named = new Set(file.keys.filter(({ user }) => user === undefined).map(({ name }) => name));
  const stored = after.keys.filter(
    ({ status, userId, name }) => status === "active" && userId === null && !named.has(name),
  );
  const groupProblems = file.groups.flatMap(({ name }, i): FieldProblem[] => {
    const group = charging.get(name);
    const key = stored.find(({ groupId }) => groupId === group?.id);
    if (group === undefined || key === undefined) return [];
    return [
      {
        path: ["groups", i, "billing", "charge"],
        message: `the group has the key "${key.name}" without a user, and ${NO_PAYER}. Revoke it first: npx model-gateway keys revoke ${key.publicId}`,
      },
    ];
  });
  return [...inFile, ...groupProblems];
}
