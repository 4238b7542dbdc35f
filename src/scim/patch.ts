/** Reads the operations of a PATCH (RFC 7644, section 3.5.2). */

import { limits } from "../config/limits/product-limits.ts";
import { type AttributePath, parsePath } from "./filter.ts";
import { ScimError } from "./scim-error.ts";
import { readList, readMembers } from "./values.ts";

export interface PatchOperation {
  readonly op: "add" | "replace" | "remove";
  readonly path: AttributePath;
  readonly value: unknown;
}

/** An operation without a path becomes one for each member of its value. */
export function readOperations(body: unknown): PatchOperation[] {
  const { operationsMax } = limits.scim;
  const operations = readList(readMembers(body, "body").get("operations"), "Operations", operationsMax);
  if (operations.length === 0) throw new ScimError("invalidSyntax", "Operations: is required.");
  const read = operations.flatMap((operation, i) => readOperation(operation, `Operations[${i}]`));
  if (read.length > operationsMax)
    throw new ScimError("tooMany", `Operations: change more than ${operationsMax} attributes.`);
  return read;
}

function readOperation(operation: unknown, what: string): PatchOperation[] {
  const members = readMembers(operation, what);
  const op = readOp(members.get("op"), what);
  const path = members.get("path");
  const value = members.get("value");
  if (typeof path === "string") return [{ op, path: parsePath(path), value }];
  if (path !== undefined && path !== null) throw new ScimError("invalidPath", `${what}.path: must be text.`);
  if (op === "remove") throw new ScimError("noTarget", `${what}.path: is required to remove.`);
  // Names of members are paths too: Entra sends `name.givenName`.
  return [...readMembers(value, `${what}.value`)].map(([name, member]) => ({
    op,
    path: parsePath(name),
    value: member,
  }));
}

/** Microsoft Entra sends `Add`. */
function readOp(value: unknown, what: string): PatchOperation["op"] {
  const op = typeof value === "string" ? value.toLowerCase() : value;
  if (op === "add" || op === "replace" || op === "remove") return op;
  throw new ScimError("invalidSyntax", `${what}.op: must be add, replace or remove.`);
}
