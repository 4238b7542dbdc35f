/**
 * Finds fallback steps that could not serve a request, or not at a price that can be charged. The steps of all groups
 * and models are checked, because a change of their target may break them.
 */

import { type LookUpTerms, openPricing } from "../../policy/pricing.ts";
import { FALLBACK_STEPS_MAX, type FallbackStep } from "../../records/fallback.ts";
import type { GroupRecord } from "../../records/group.ts";
import type { ModelRecord } from "../../records/model.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { durationText } from "../schema/usage-limits.ts";
import type { FieldProblem, Path } from "../state/problem.ts";
import type { ConfigState } from "../state/step.ts";
import { NO_PAYER } from "./check-charging.ts";

interface RemovedTargets {
  readonly groups?: readonly string[];
  readonly models?: readonly string[];
}

interface FallbackCheckOptions {
  readonly prune: boolean;
  readonly removals?: RemovedTargets | undefined;
}

/** `after` is the state once the file is applied. It may still have entries that are removed. */
export function fallbackProblems(
  file: GatewayFile,
  after: ConfigState,
  options: FallbackCheckOptions,
): FieldProblem[] {
  const hasSteps = ({ fallback }: GroupRecord | ModelRecord) => fallback.length > 0;
  if (!after.groups.some(hasSteps) && !after.models.some(hasSteps)) return [];
  const checker = new FallbackChecker(file, after, options);
  return [...checker.checkGroups(), ...checker.checkModels(), ...checker.checkCounts()];
}

/** A step on the way of one request: from the model of a group to the model of a group. */
interface Hop {
  readonly from: { readonly group: GroupRecord; readonly model: ModelRecord };
  readonly to: { readonly group: GroupRecord; readonly model: ModelRecord };
}

/** A group or model with steps, and one of these. */
interface StepPlace {
  readonly section: "groups" | "models";
  readonly owner: string;
  readonly index: number;
  readonly step: FallbackStep;
}

class FallbackChecker {
  readonly #file: GatewayFile;
  readonly #options: FallbackCheckOptions;
  readonly #groups: readonly GroupRecord[];
  readonly #allGroupNames: ReadonlyMap<string, string>;
  readonly #groupById: ReadonlyMap<string, GroupRecord>;
  readonly #models: ReadonlyMap<string, ModelRecord>;
  readonly #positions: Readonly<Record<"groups" | "models", ReadonlyMap<string, number>>>;
  readonly #openTerms: (group: GroupRecord) => LookUpTerms;
  readonly #terms = new Map<string, LookUpTerms>();
  readonly #keysWithoutUser: ReadonlyMap<string, string>;

  constructor(file: GatewayFile, after: ConfigState, options: FallbackCheckOptions) {
    this.#file = file;
    this.#options = options;
    this.#positions = {
      groups: new Map(file.groups.map(({ name }, at) => [name, at])),
      models: new Map(file.models.map(({ id }, at) => [id, at])),
    };
    this.#allGroupNames = new Map(after.groups.map(({ id, name }) => [id, name]));
    this.#groups = after.groups.filter(({ name }) => this.#remains("groups", name));
    this.#groupById = new Map(this.#groups.map((group) => [group.id, group]));
    this.#models = new Map(
      after.models.filter(({ id }) => this.#remains("models", id)).map((model) => [model.id, model]),
    );
    this.#openTerms = openPricing(after);
    this.#keysWithoutUser = this.#findKeysWithoutUser(after);
  }

  checkGroups(): FieldProblem[] {
    const cycles = findCycles(
      new Map(this.#groups.map(({ id, fallback }) => [id, fallback.flatMap(({ group }) => group ?? [])])),
    );
    return this.#groups.flatMap((group) =>
      group.fallback.flatMap((step, index) => {
        const place: StepPlace = { section: "groups", owner: group.name, index, step };
        const target = step.group === null ? undefined : this.#groupById.get(step.group);
        if (target === undefined) return this.#reportGone(place);
        if (target === group) return this.#report(place, "group", "is this group itself.", []);
        const cycle = cycles(group.id, target.id);
        if (cycle !== null) {
          const names = cycle.map((id) => this.#groupById.get(id)?.name ?? id);
          return this.#report(place, "group", cycleMessage(names), [target]);
        }
        const missing = group.models.filter((model) => !target.models.includes(model));
        if (missing.length > 0) {
          const message = `does not publish ${listSome(missing)}, which this group publishes. Add the models to the group "${target.name}".`;
          return this.#report(place, "group", message, [target]);
        }
        const hops = group.models
          .flatMap((id) => this.#models.get(id) ?? [])
          .map((model) => ({ from: { group, model }, to: { group: target, model } }));
        return this.#checkStep(place, hops);
      }),
    );
  }

  checkModels(): FieldProblem[] {
    const models = [...this.#models.values()];
    const cycles = findCycles(
      new Map(models.map(({ id, fallback }) => [id, fallback.flatMap(({ model }) => model ?? [])])),
    );
    const publishing = this.#indexPublications();
    return models.flatMap((model) =>
      model.fallback.flatMap((step, index) => {
        const place: StepPlace = { section: "models", owner: model.id, index, step };
        const target = step.model === null ? undefined : this.#models.get(step.model);
        if (target === undefined) return this.#reportGone(place);
        if (target === model) return this.#report(place, "model", "is this model itself.", []);
        const cycle = cycles(model.id, target.id);
        if (cycle !== null) return this.#report(place, "model", cycleMessage(cycle), [target]);
        const groups = publishing.get(model.id) ?? [];
        const hops = groups
          .filter(({ models }) => models.includes(target.id))
          .map((group) => ({ from: { group, model }, to: { group, model: target } }));
        if (groups.length > 0 && hops.length === 0) {
          const message = "is in no group that publishes this model. Add it to one of these groups.";
          return this.#report(place, "model", message, [target, ...groups]);
        }
        return this.#checkStep(place, hops);
      }),
    );
  }

  /** The steps of a model come after those of the group, and a request takes no more than the first ones. */
  checkCounts(): FieldProblem[] {
    return this.#groups.flatMap((group) => {
      const taken = FALLBACK_STEPS_MAX - group.fallback.length;
      for (const { id, fallback } of group.models.flatMap((name) => this.#models.get(name) ?? [])) {
        const index = fallback.findIndex(
          ({ model }, at) => at >= taken && group.models.includes(model ?? id),
        );
        const step = fallback[index];
        if (step === undefined) continue;
        const message = `is never taken in the group "${group.name}": a request has at most ${FALLBACK_STEPS_MAX} steps, and ${group.fallback.length} of the group come first. Remove steps of the group or of the model.`;
        return this.#report({ section: "models", owner: id, index, step }, "model", message, [group]);
      }
      return [];
    });
  }

  #checkStep(place: StepPlace, hops: readonly Hop[]): FieldProblem[] {
    const { step, section } = place;
    const target = section === "groups" ? "group" : "model";
    const involved = ({ from, to }: Hop) => [from.group, from.model, to.group, to.model];
    const rule = (
      field: keyof typeof FIELD_NAMES | "target",
      test: (hop: Hop) => string | null,
    ): FieldProblem[] => {
      for (const hop of hops) {
        const message = test(hop);
        const name = field === "target" ? target : FIELD_NAMES[field];
        if (message !== null) return this.#report(place, name, message, involved(hop));
      }
      return [];
    };
    return [
      ...rule("target", findMissingInterfaces),
      ...rule(step.pay === null ? "target" : "pay", ({ to }) =>
        resolveCharge(step, to.group) === "none" || this.#findTerms(to).price !== null
          ? null
          : `has no price for ${to.model.id}, and the step charges. Set a price in models[].price or in billing.model_prices of the group "${to.group.name}".`,
      ),
      ...rule("maxPrice", ({ from }) => {
        const { tariff } = this.#findTerms(from);
        if (step.maxPrice === null || (tariff !== null && tariff.multiplierTrillionths > 0n)) return null;
        return `compares with the price of the first step, and ${from.model.id} has no price in the group "${from.group.name}". Set a price, or remove max_price.`;
      }),
      ...rule("leaveAfterMs", ({ from: { group } }) => {
        if (step.leaveAfterMs === null) return null;
        if (!step.when.includes("busy")) return "is allowed only with the condition busy. Remove it.";
        return step.leaveAfterMs <= group.queue.timeoutMs
          ? null
          : `is longer than queue.timeout of the group "${group.name}" (${durationText(group.queue.timeoutMs)}).`;
      }),
      ...rule(step.pay === null ? "target" : "pay", ({ from, to }) => {
        const key = this.#keysWithoutUser.get(from.group.id);
        if (key === undefined || resolveCharge(step, to.group) === "none") return null;
        return `charges, and the group "${from.group.name}" has the key "${key}" without a user: ${NO_PAYER}. Give the key a user, or set fallback: deny for it.`;
      }),
    ];
  }

  /** The group of each key without a user that may take fallback steps, with the name of one such key. */
  #findKeysWithoutUser(after: ConfigState): ReadonlyMap<string, string> {
    const idByName = new Map(this.#groups.map(({ id, name }) => [name, id]));
    const named = new Set(this.#file.keys.filter(({ user }) => user === undefined).map(({ name }) => name));
    const stored = this.#options.prune
      ? []
      : after.keys.filter(
          ({ status, userId, fallback, name }) =>
            status === "active" && userId === null && fallback === null && !named.has(name),
        );
    const inFile = this.#file.keys.filter(({ user, fallback }) => user === undefined && fallback !== "deny");
    return new Map([
      ...stored.map(({ groupId, name }): [string, string] => [groupId, name]),
      ...inFile.map(({ group, name }): [string, string] => [idByName.get(group) ?? "", name]),
    ]);
  }

  #indexPublications(): ReadonlyMap<string, readonly GroupRecord[]> {
    const publishing = new Map<string, GroupRecord[]>();
    for (const group of this.#groups) {
      for (const model of group.models) {
        const groups = publishing.get(model) ?? [];
        groups.push(group);
        publishing.set(model, groups);
      }
    }
    return publishing;
  }

  #findTerms({ group, model }: Hop["to"]): ReturnType<LookUpTerms> {
    const lookUp = this.#terms.get(group.id) ?? this.#openTerms(group);
    this.#terms.set(group.id, lookUp);
    return lookUp(model);
  }

  #remains(section: "groups" | "models", name: string): boolean {
    if (this.#options.prune) return this.#positions[section].has(name);
    return this.#options.removals?.[section]?.includes(name) !== true;
  }

  /** References within the file are checked before: this is a stored step whose target the change removes. */
  #reportGone(place: StepPlace): FieldProblem[] {
    const { section, step } = place;
    const name = step.model ?? this.#allGroupNames.get(step.group ?? "") ?? "";
    const removedAt = this.#options.removals?.[section]?.indexOf(name) ?? -1;
    if (removedAt === -1 || this.#positions[section].has(place.owner)) return [];
    const message = `"${name}" is the target of ${nameStep(place)}. Remove that step first.`;
    return [{ path: [section, removedAt], message }];
  }

  /** A step that the file does not have is reported at an entry that takes part in it, if the file has one. */
  #report(
    place: StepPlace,
    field: string,
    message: string,
    involved: readonly (GroupRecord | ModelRecord)[],
  ): FieldProblem[] {
    const at = this.#positions[place.section].get(place.owner);
    if (at !== undefined) return [{ path: [place.section, at, "fallback", place.index, field], message }];
    const path = involved.map((record) => this.#locate(record)).find((found) => found !== null);
    return path === undefined ? [] : [{ path, message: `${nameStep(place)}: ${field} ${message}` }];
  }

  #locate(record: GroupRecord | ModelRecord): Path | null {
    const section = "queue" in record ? "groups" : "models";
    const at = this.#positions[section].get("queue" in record ? record.name : record.id);
    return at === undefined ? null : [section, at];
  }
}

/** Whether requests of the group may take a step that charges. */
export function hasChargingStep(
  group: GroupRecord,
  groups: readonly GroupRecord[],
  models: readonly ModelRecord[],
): boolean {
  const ownSteps = group.fallback.some((step) =>
    groups.some((target) => target.id === step.group && resolveCharge(step, target) !== "none"),
  );
  const modelSteps = models.filter(({ id }) => group.models.includes(id)).flatMap(({ fallback }) => fallback);
  return ownSteps || modelSteps.some((step) => resolveCharge(step, group) !== "none");
}

const FIELD_NAMES = { pay: "pay", maxPrice: "max_price", leaveAfterMs: "leave_after" } as const;

function resolveCharge({ pay }: FallbackStep, target: GroupRecord) {
  return pay ?? target.billing.charge;
}

function findMissingInterfaces({ from, to }: Hop): string | null {
  const missing = from.model.interfaces.filter(
    (name) =>
      from.group.interfaces.includes(name) &&
      !(to.model.interfaces.includes(name) && to.group.interfaces.includes(name)),
  );
  if (missing.length === 0) return null;
  return `does not serve ${from.model.id} through ${missing.join(", ")}, as the first step does. Add the interfaces to the target.`;
}

function cycleMessage(names: readonly string[]): string {
  return `leads into a cycle: ${names.join(" → ")}. Remove one of these steps.`;
}

function listSome(names: readonly string[]): string {
  return `${names.slice(0, 5).join(", ")}${names.length > 5 ? ", …" : ""}`;
}

function nameStep({ section, owner, index }: StepPlace): string {
  return `step ${index + 1} of the fallback of the ${section === "groups" ? "group" : "model"} "${owner}"`;
}

/**
 * Finds the cycle that an edge leads into. Nodes that lead nowhere are removed until none is left, so each edge is
 * visited once; the remaining nodes lead into a cycle.
 */
function findCycles(
  targets: ReadonlyMap<string, readonly string[]>,
): (from: string, to: string) => readonly string[] | null {
  const sources = new Map<string, string[]>();
  const open = new Map<string, number>();
  for (const [from, list] of targets) {
    const known = list.filter((to) => targets.has(to));
    open.set(from, known.length);
    for (const to of known) sources.set(to, [...(sources.get(to) ?? []), from]);
  }
  const ended = [...open].filter(([, count]) => count === 0).map(([id]) => id);
  for (let id = ended.pop(); id !== undefined; id = ended.pop()) {
    open.delete(id);
    for (const from of sources.get(id) ?? []) {
      const left = (open.get(from) ?? 0) - 1;
      open.set(from, left);
      if (left === 0) ended.push(from);
    }
  }
  return (from, to) => {
    if (!open.has(from) || !open.has(to)) return null;
    const way = [from];
    for (let next: string | undefined = to; next !== undefined; ) {
      const seenAt = way.indexOf(next);
      way.push(next);
      if (seenAt !== -1 || way.length > CYCLE_SHOWN_MAX) return way.slice(Math.max(seenAt, 0));
      next = targets.get(next)?.find((id) => open.has(id));
    }
    return way;
  };
}

const CYCLE_SHOWN_MAX = 10;
