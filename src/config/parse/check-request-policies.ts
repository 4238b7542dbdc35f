/** Finds request policies that leave no model: an empty set is always a mistake. */

import { allowsModel, matchesModel } from "../../policy/request-policy.ts";
import type { GatewayFile } from "../schema/schema.ts";
import type { FieldProblem, Path } from "../state/problem.ts";
import type { ConfigState } from "../state/step.ts";

/** `after` is the state once the file is applied. Entries that the file does not touch are not checked. */
export function requestPolicyProblems(file: GatewayFile, after: ConfigState): FieldProblem[] {
  return [...findUnknownModels(file, after), ...findEmptyGroups(file, after), ...findEmptyKeys(file, after)];
}

function findUnknownModels(file: GatewayFile, { models }: ConfigState): FieldProblem[] {
  return file.request_policies.flatMap(({ models: patterns = [] }, i) =>
    patterns.flatMap((pattern, j) =>
      models.some(({ id }) => matchesModel(pattern, id))
        ? []
        : [{ path: ["request_policies", i, "models", j], message: "matches no model of `models`." }],
    ),
  );
}

function findEmptyGroups(file: GatewayFile, after: ConfigState): FieldProblem[] {
  return file.groups.flatMap(({ models, request_policy: policy }, i) =>
    policy === undefined ? [] : findEmptySet(after, [policy], models, ["groups", i, "request_policy"]),
  );
}

function findEmptyKeys(file: GatewayFile, after: ConfigState): FieldProblem[] {
  return file.keys.flatMap(({ group: groupName, request_policy: policy }, i) => {
    const group = after.groups.find(({ name }) => name === groupName);
    if (policy === undefined || group === undefined) return [];
    const policies = group.requestPolicy === null ? [policy] : [group.requestPolicy, policy];
    return findEmptySet(after, policies, group.models, ["keys", i, "request_policy"]);
  });
}

/** A group without models is not finished yet. */
function findEmptySet(
  { requestPolicies }: ConfigState,
  names: readonly string[],
  models: readonly string[],
  path: Path,
): FieldProblem[] {
  const lists = requestPolicies.flatMap(({ name, rules }) =>
    names.includes(name) && rules?.models !== undefined ? [rules.models] : [],
  );
  if (models.length === 0 || models.some((model) => allowsModel({ models: lists }, model))) return [];
  return [
    {
      path,
      message: "leaves no model of the group. Change `models` of the request policy, or of the group.",
    },
  ];
}
