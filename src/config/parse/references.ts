/** Checks that a name in the file refers to an entry of the file or of the database. */

import { mapKinds } from "../../base/map-kinds.ts";
import { nearestName } from "../../policy/nearest-name.ts";
import type { FieldProblem, Path } from "../state/problem.ts";
import type { ConfigState } from "../state/step.ts";
import { type Item, readText } from "./items.ts";

/** What a reference can refer to: the section of the file that has its entries, and the field that names them. */
const KINDS = {
  model: { section: "models", identity: "id" },
  account: { section: "accounts", identity: "name" },
  "request policy": { section: "request_policies", identity: "name" },
  group: { section: "groups", identity: "name" },
  plan: { section: "plans", identity: "name" },
  user: { section: "users", identity: "email" },
} as const;
type ReferenceKind = keyof typeof KINDS;
const REFERENCE_KINDS = Object.keys(KINDS) as readonly ReferenceKind[];
export const REFERENCE_SECTIONS = REFERENCE_KINDS.map((kind) => KINDS[kind].section);
type ReferenceSection = (typeof REFERENCE_SECTIONS)[number];

/**
 * Names that exist in the database: a file may define a part of the installation and refer to the rest. E-mail addresses
 * are in lower case.
 */
export type KnownNames = Readonly<Record<ReferenceSection, ReadonlySet<string>>>;

export const NO_KNOWN_NAMES: KnownNames = mapKinds(REFERENCE_SECTIONS, () => new Set<string>());

type NamedRecords = Pick<
  ConfigState,
  "models" | "accounts" | "requestPolicies" | "groups" | "plans" | "users"
>;

export function readKnownNames(state: NamedRecords): KnownNames {
  const readNames = (records: readonly { name: string }[]) => new Set(records.map(({ name }) => name));
  return {
    models: new Set(state.models.map(({ id }) => id)),
    accounts: readNames(state.accounts),
    request_policies: readNames(state.requestPolicies),
    groups: readNames(state.groups),
    plans: readNames(state.plans),
    users: new Set(state.users.map(({ email }) => email.toLowerCase())),
  };
}

/** Values from the environment must not appear in an error message. Only the caller knows which values those are. */
export interface CheckOptions {
  show(path: Path, value: string): string;
  isShowable(path: Path): boolean;
}

/** Each suggestion compares a name with all others. The first few are enough to find the cause of a thousand errors. */
const PROPOSALS_MAX = 20;

type SectionItems = Readonly<Record<ReferenceSection, Item[]>>;

export class ReferenceChecker {
  readonly #options: CheckOptions;
  readonly #names: Readonly<Record<ReferenceKind, NameTable>>;

  constructor(items: SectionItems, known: KnownNames, options: CheckOptions) {
    this.#options = options;
    this.#names = mapKinds(REFERENCE_KINDS, (kind) => {
      const { section } = KINDS[kind];
      return new NameTable(known[section], findNames(kind, items[section], options));
    });
  }

  checkList(item: Item, field: string, kind: ReferenceKind): FieldProblem[] {
    const list = item.value[field];
    if (!Array.isArray(list)) return [];
    const seen = new Set<string>();
    return list.flatMap((name: unknown, i) => {
      if (typeof name !== "string") return [];
      const path = [...item.path, field, i];
      if (seen.has(name)) {
        return [
          {
            path,
            message: `lists the ${kind} ${this.#options.show(path, name)} twice. Remove one of them.`,
          },
        ];
      }
      seen.add(name);
      return this.check(path, name, kind);
    });
  }

  /** Checks a map whose keys are names. */
  checkKeys({ path, value }: Item, kind: ReferenceKind): FieldProblem[] {
    return Object.keys(value).flatMap((name) => this.check([...path, name], name, kind));
  }

  check(path: Path, name: string | undefined, kind: ReferenceKind): FieldProblem[] {
    const names = this.#names[kind];
    if (name === undefined || names.has(name)) return [];
    const near = this.#options.isShowable(path) ? names.findNearest(name) : null;
    const hint = near === null ? names.listKnown(kind) : `Did you mean "${near}"?`;
    return [{ path, message: `the ${kind} ${this.#options.show(path, name)} does not exist. ${hint}` }];
  }
}

/** All problems of entries with a name that another one has. */
export function findRepeatedNames(items: SectionItems): FieldProblem[] {
  return REFERENCE_KINDS.flatMap((kind) => {
    const { section, identity } = KINDS[kind];
    return findDuplicates(items[section], identity, (item) => readIdentity(item, kind), NAME_TWICE);
  });
}

/** E-mail addresses are compared in lower case. */
function readIdentity(item: Item, kind: ReferenceKind): string | undefined {
  const name = readText(item, KINDS[kind].identity);
  return kind === "user" ? name?.toLowerCase() : name;
}

export const NAME_TWICE = "is used twice. Names must be unique.";

export function findDuplicates(
  items: readonly Item[],
  field: string,
  identity: (item: Item) => string | undefined,
  message: string,
): FieldProblem[] {
  const seen = new Set<string>();
  return items.flatMap((item) => {
    const id = identity(item);
    if (id === undefined) return [];
    if (seen.has(id)) return [{ path: [...item.path, field], message }];
    seen.add(id);
    return [];
  });
}

interface FileName {
  name: string;
  isShowable: boolean;
}

function findNames(kind: ReferenceKind, items: readonly Item[], options: CheckOptions): FileName[] {
  const { identity } = KINDS[kind];
  return items.flatMap((item) => {
    const name = readIdentity(item, kind);
    return name === undefined ? [] : [{ name, isShowable: options.isShowable([...item.path, identity]) }];
  });
}

/** The names of one kind, in the database and in the file. */
class NameTable {
  readonly #all: ReadonlySet<string>;
  /** The names that an error message may contain. */
  readonly #shown: readonly string[];
  #proposals = 0;

  constructor(stored: ReadonlySet<string>, inFile: readonly FileName[]) {
    this.#all = new Set([...stored, ...inFile.map(({ name }) => name)]);
    const showable = inFile.filter(({ isShowable }) => isShowable).map(({ name }) => name);
    this.#shown = [...new Set([...stored, ...showable])];
  }

  has(name: string): boolean {
    return this.#all.has(name);
  }

  findNearest(name: string): string | null {
    return this.#proposals++ < PROPOSALS_MAX ? nearestName(name, this.#shown) : null;
  }

  listKnown(kind: ReferenceKind): string {
    const shown = this.#shown;
    if (shown.length === 0) return `Add it to ${KINDS[kind].section}.`;
    return `Known: ${shown.slice(0, 10).join(", ")}${shown.length > 10 ? ", …" : ""}.`;
  }
}
