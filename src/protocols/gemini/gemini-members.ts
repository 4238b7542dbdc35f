/** Reads members of Gemini's JSON, which Google accepts in camel case and in snake case. */

import { camelCase } from "../../base/name-case.ts";
import { isObject } from "../../json/parse.ts";
import type { Json } from "../hub/json-values.ts";

const snakeNames = new Map<string, string>();

function toSnakeCase(name: string): string {
  let snake = snakeNames.get(name);
  if (snake === undefined) {
    snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    snakeNames.set(name, snake);
  }
  return snake;
}

/** `name` is in camel case and one of the few names in this folder. */
export function member(json: Json, name: string): unknown {
  return json[name] ?? json[toSnakeCase(name)];
}

export function objectMember(json: Json, name: string): Json | null {
  const value = member(json, name);
  return isObject(value) ? value : null;
}

/** The members whose names are not listed, in either case, and which are set. */
export function unknownMembers(json: Json, known: ReadonlySet<string>): string[] {
  return Object.keys(json).filter((name) => json[name] !== null && !known.has(camelCase(name)));
}
