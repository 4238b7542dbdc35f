/** Converts the draft to the request that is sent, and to the request of a snippet. */

import { formText, type SnippetRequest } from "../snippets/snippet.ts";
import type { ExplorerOperation } from "./described.ts";
import { isObject, parsed } from "./json-value.ts";
import type { Chosen } from "./picture-files.tsx";
import type { RunRequest } from "./run.ts";

export interface Typed {
  operation: ExplorerOperation;
  body: string;
  parameters: Readonly<Record<string, string>>;
  files: Chosen;
}

/** With the values of its path and its query. */
export function buildPath({ operation, parameters }: Pick<Typed, "operation" | "parameters">): string {
  const value = (name: string) => parameters[name]?.trim() ?? "";
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(value(name)));
  const query = new URLSearchParams(
    operation.parameters
      .filter((one) => one.in === "query" && value(one.name) !== "")
      .map(({ name }) => [name, value(name)]),
  );
  return query.size === 0 ? path : `${path}?${query}`;
}

export function buildRequest(typed: Typed): RunRequest {
  const { operation, body, files } = typed;
  const base = { method: operation.method, path: buildPath(typed) };
  if (operation.body === null) return { ...base, body: null, isJson: false };
  if (files.images.length === 0 || operation.id !== "editImages") return { ...base, body, isJson: true };
  const form = new FormData();
  for (const [name, value] of Object.entries(formFields(body))) form.set(name, formText(value));
  const field = files.images.length === 1 ? "image" : "image[]";
  for (const image of files.images) form.append(field, image);
  if (files.mask !== null) form.set("mask", files.mask);
  return { ...base, body: form, isJson: false };
}

/** Without the fields that are files. */
function formFields(body: string): Record<string, unknown> {
  const value = parsed(body);
  if (!isObject(value)) return {};
  const { images: _, mask: __, ...fields } = value;
  return fields;
}

export function buildSnippetRequest(typed: Typed, baseUrl: string): SnippetRequest {
  const { operation, body, files } = typed;
  const value = parsed(body);
  const hasFiles = operation.id === "editImages" && files.images.length > 0;
  const field = files.images.length === 1 ? "image" : "image[]";
  return {
    baseUrl,
    method: operation.method,
    path: buildPath(typed),
    isSocket: operation.isSocket,
    body:
      operation.body === null && !operation.isSocket
        ? null
        : hasFiles
          ? formFields(body)
          : isObject(value)
            ? value
            : {},
    files: hasFiles
      ? [
          ...files.images.map(({ name }) => ({ field, name })),
          ...(files.mask === null ? [] : [{ field: "mask", name: files.mask.name }]),
        ]
      : [],
  };
}
