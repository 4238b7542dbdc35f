/** Checks that a name in the file refers to an entry of the file or of the database. */

import { nearestName } from "../../policy/nearest-name.ts";
import type { FieldProblem, Path } from "../state/problem.ts";
import { type Item, readText } from "./items.ts";

/** Names that exist in the database: a file may define a part of the installation and refer to the rest. */
export interface KnownNames {
  models: ReadonlySet<string>;
  accounts: ReadonlySet<string>;
  request_policies: ReadonlySet<string>;
  groups: ReadonlySet<string>;
  plans: ReadonlySet<string>;
  /** E-mail addresses in lower case. */
  users: ReadonlySet<string>;
}

export const NO_KNOWN_NAMES: KnownNames = {
  models: new Set(),
  accounts: new Set(),
  request_policies: new Set(),
  groups: new Set(),
  plans: new Set(),
  users: new Set(),
};

/** Values from the environment must not appear in an error message. Only the caller knows which values those are. */
export interface CheckOptions {
  show(path: Path, value: string): string;
  isShowable(path: Path): boolean;
}

export type ReferenceKind = "model" | "account" | "request policy" | "group" | "plan" | "user";

/** The section of the file that has the entries of each kind. */
const SECTIONS: Readonly<Record<ReferenceKind, keyof KnownNames>> = {
  model: "models",
  account: "accounts",
  "request policy": "request_policies",
  group: "groups",
  plan: "plans",
  user: "users",
};

/** The field by which each kind is referred to. */
export const IDENTITY_FIELDS: Readonly<Record<ReferenceKind, string>> = {
  model: "id",
  account: "name",
  "request policy": "name",
  group: "name",
  plan: "name",
  user: "email",
};

/** Each suggestion compares a name with all others. The first few are enough to find the cause of a thousand errors. */
const PROPOSALS_MAX = 20;

export class ReferenceChecker {
  readonly #options: CheckOptions;
  readonly #names: Readonly<Record<ReferenceKind, NameTable>>;

  constructor(items: Readonly<Record<keyof KnownNames, Item[]>>, known: KnownNames, options: CheckOptions) {
    this.#options = options;
    const collect = (kind: ReferenceKind) =>
      new NameTable(known[SECTIONS[kind]], findNames(kind, items[SECTIONS[kind]], options));
    this.#names = {
      model: collect("model"),
      account: collect("account"),
      "request policy": collect("request policy"),
      group: collect("group"),
      plan: collect("plan"),
      user: collect("user"),
    };
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

  check(path: Path, name: string | undefined, kind: ReferenceKind): FieldProblem[] {
    const names = this.#names[kind];
    if (name === undefined || names.has(name)) return [];
    const near = this.#options.isShowable(path) ? names.findNearest(name) : null;
    const hint = near === null ? names.listKnown(kind) : `Did you mean "${near}"?`;
    return [{ path, message: `the ${kind} ${this.#options.show(path, name)} does not exist. ${hint}` }];
  }
}

interface FileName {
  name: string;
  isShowable: boolean;
}

function findNames(kind: ReferenceKind, items: readonly Item[], options: CheckOptions): FileName[] {
  const field = IDENTITY_FIELDS[kind];
  return items.flatMap((item) => {
    const name = readText(item, field);
    if (name === undefined) return [];
    const isShowable = options.isShowable([...item.path, field]);
    return [{ name: kind === "user" ? name.toLowerCase() : name, isShowable }];
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
    if (shown.length === 0) return `Add it to ${SECTIONS[kind]}.`;
    return `Known: ${shown.slice(0, 10).join(", ")}${shown.length > 10 ? ", …" : ""}.`;
  }
}
