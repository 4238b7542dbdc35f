/** Finds request policies that leave no model: an empty set is always a mistake. */

import { allowsModel, matchesModel } from "../../policy/request-policy.ts";
import type { GatewayFile } from "../schema/schema.ts";
import type { FieldProblem, Path } from "../state/problem.ts";
import type { ConfigState } from "../state/step.ts";

interface PolicyCheckOptions {
  readonly prune: boolean;
}

/** `after` is the state once the file is applied. Entries that the file does not affect are not checked. */
export function requestPolicyProblems(
  file: GatewayFile,
  after: ConfigState,
  { prune }: PolicyCheckOptions,
): FieldProblem[] {
  const unknown = findUnknownModels(file, after);
  const checker = new EmptySetChecker(file, after);
  const inFile = [...checker.checkGroups(), ...checker.checkKeys()];
  // Pruning removes the groups and keys that the file does not name.
  const stored = prune ? [] : [...checker.checkStoredGroups(), ...checker.checkStoredKeys()];
  return [...unknown, ...inFile, ...stored];
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

/** Finds groups and keys whose policies leave no model of the group. */
class EmptySetChecker {
  readonly #file: GatewayFile;
  readonly #after: ConfigState;
  readonly #modelsOfPolicy: ReadonlyMap<string, readonly string[]>;
  readonly #policyAt: ReadonlyMap<string, number>;
  readonly #groupAt: ReadonlyMap<string, number>;

  constructor(file: GatewayFile, after: ConfigState) {
    this.#file = file;
    this.#after = after;
    this.#modelsOfPolicy = new Map(
      after.requestPolicies.flatMap(({ name, rules }) =>
        rules?.models === undefined ? [] : [[name, rules.models]],
      ),
    );
    this.#policyAt = new Map(file.request_policies.map(({ name }, at) => [name, at]));
    this.#groupAt = new Map(file.groups.map(({ name }, at) => [name, at]));
  }

  checkGroups(): FieldProblem[] {
    return this.#file.groups.flatMap(({ models, request_policy: policy }, at) =>
      policy !== undefined && this.#isEmpty(models, [policy])
        ? [{ path: ["groups", at, "request_policy"], message: LEAVES_NONE }]
        : [],
    );
  }

  checkKeys(): FieldProblem[] {
    return this.#file.keys.flatMap(({ group: groupName, request_policy: policy }, at) => {
      const group = this.#after.groups.find(({ name }) => name === groupName);
      return policy !== undefined &&
        group !== undefined &&
        this.#isEmpty(group.models, [group.requestPolicy, policy])
        ? [{ path: ["keys", at, "request_policy"], message: LEAVES_NONE }]
        : [];
    });
  }

  /** The file changes only their policy. */
  checkStoredGroups(): FieldProblem[] {
    return this.#after.groups.flatMap(({ name, models, requestPolicy }) => {
      const path = this.#groupAt.has(name) ? null : this.#locatePolicy([requestPolicy]);
      return path !== null && this.#isEmpty(models, [requestPolicy])
        ? [{ path, message: `leaves no model of the group "${name}", which has this request policy.` }]
        : [];
    });
  }

  /** The file changes their policy, their group, or the policy of this. */
  checkStoredKeys(): FieldProblem[] {
    const groups = new Map(this.#after.groups.map((group) => [group.id, group]));
    const inFile = new Set(this.#file.keys.map(({ name, user }) => identifyKey(name, user)));
    const emails = new Map(this.#after.users.map(({ id, email }) => [id, email]));
    const found = new Map<string, FieldProblem>();
    for (const { name, userId, groupId, requestPolicy, status } of this.#after.keys) {
      const group = groups.get(groupId);
      if (
        requestPolicy === null ||
        status !== "active" ||
        group === undefined ||
        inFile.has(identifyKey(name, emails.get(userId ?? "")))
      )
        continue;
      const policies = [group.requestPolicy, requestPolicy];
      const groupAt = this.#groupAt.get(group.name);
      const path = groupAt === undefined ? this.#locatePolicy(policies) : ["groups", groupAt];
      if (
        path === null ||
        this.#isEmpty(group.models, [group.requestPolicy]) ||
        !this.#isEmpty(group.models, policies)
      )
        continue;
      const message = `leaves no model to the key "${name}", which is in the group "${group.name}" and has the request policy "${requestPolicy}".`;
      // Any number of keys may have the same group and policy.
      found.set(JSON.stringify([groupId, requestPolicy]), { path, message });
    }
    return [...found.values()];
  }

  /** The place of the first of these policies that the file has. */
  #locatePolicy(names: readonly (string | null)[]): Path | null {
    for (const name of names) {
      const at = name === null ? undefined : this.#policyAt.get(name);
      if (at !== undefined) return ["request_policies", at, "models"];
    }
    return null;
  }

  /** A group without models is not finished yet. */
  #isEmpty(models: readonly string[], policies: readonly (string | null)[]): boolean {
    const lists = policies.flatMap((name) => {
      const allowed = name === null ? undefined : this.#modelsOfPolicy.get(name);
      return allowed === undefined ? [] : [allowed];
    });
    return models.length > 0 && !models.some((model) => allowsModel({ models: lists }, model));
  }
}

function identifyKey(name: string, user: string | undefined): string {
  return JSON.stringify([user?.toLowerCase() ?? null, name]);
}

const LEAVES_NONE = "leaves no model of the group. Change `models` of the request policy, or of the group.";
