/**
 * The names of tools at an upstream. Upstreams know neither namespaces nor long names, so each tool of a request gets
 * a name that is valid there. The table is built from the request alone: the same tools have the same names in every
 * turn, which keeps the upstream's prompt cache valid.
 */

import type { ChangedToolName, ClientTool, ToolNames } from "./dialect-codec.ts";
import type { HubItem, HubTool } from "./hub-request.ts";

const TOOL_NAME_CHARS_MAX = 64;
const NAMESPACE_SEPARATOR = "__";
const DIGEST_CHARS = 6;

/** A name that the request does not contain is passed on: the client reports it to the model. */
export function resolveTool(
  toolNames: Pick<ToolNames, "resolve">,
  name: string,
  tool: ClientTool["tool"] = "function",
): ClientTool {
  return toolNames.resolve(name) ?? { name, namespace: null, tool };
}

export class ToolNameTable implements ToolNames {
  readonly #byClientName = new Map<string, string>();
  readonly #byUpstreamName = new Map<string, ClientTool>();

  /** Calls of earlier turns may name tools that the request no longer offers. */
  constructor(tools: readonly HubTool[], items: readonly HubItem[]) {
    const named = [
      ...tools.filter((tool) => tool.kind !== "hosted").map(({ kind, ...tool }) => ({ ...tool, tool: kind })),
      ...items.filter((item) => item.kind === "call"),
    ];
    // Plain names first: a tool without a namespace keeps its name if a flattened one would equal it.
    for (const tool of named) if (isPlain(tool)) this.#add(tool);
    for (const tool of named) if (!isPlain(tool)) this.#add(tool);
  }

  /** The name at the upstream. A tool that the request does not offer keeps its name as far as that is valid. */
  upstreamName(name: string, namespace: string | null): string {
    return this.#byClientName.get(clientKey(name, namespace)) ?? flatten(name, namespace);
  }

  resolve(upstreamName: string): ClientTool | null {
    return this.#byUpstreamName.get(upstreamName) ?? null;
  }

  /** `change` is what the upstream's dialect does to the names of this table. */
  listChanged(change: (upstreamName: string) => string = (name) => name): ChangedToolName[] {
    return [...this.#byUpstreamName]
      .map(([upstreamName, tool]): ChangedToolName => [change(upstreamName), tool])
      .filter(([upstreamName, tool]) => !isUnchanged(upstreamName, tool));
  }

  #add({ name, namespace, tool }: ClientTool): void {
    const key = clientKey(name, namespace);
    if (this.#byClientName.has(key)) return;
    const flat = flatten(name, namespace);
    const upstreamName = this.#byUpstreamName.has(flat) ? withDigest(flat, key) : flat;
    this.#byClientName.set(key, upstreamName);
    this.#byUpstreamName.set(upstreamName, { name, namespace, tool });
  }
}

function isUnchanged(upstreamName: string, { name, namespace, tool }: ClientTool): boolean {
  return name === upstreamName && namespace === null && tool === "function";
}

function isPlain({ name, namespace }: ClientTool): boolean {
  return namespace === null && isValid(name);
}

/** Whether upstreams accept the name as it is. */
function isValid(name: string): boolean {
  return name.length <= TOOL_NAME_CHARS_MAX && /^[A-Za-z0-9_-]+$/.test(name);
}

/** A name cannot contain a line break, so the pair is unambiguous. */
function clientKey(name: string, namespace: string | null): string {
  return namespace === null ? name : `${namespace}\n${name}`;
}

function flatten(name: string, namespace: string | null): string {
  const whole = namespace === null ? name : namespace + NAMESPACE_SEPARATOR + name;
  if (isValid(whole)) return whole;
  return withDigest(
    whole.slice(0, TOOL_NAME_CHARS_MAX).replace(/[^A-Za-z0-9_-]/g, "_"),
    clientKey(name, namespace),
  );
}

function withDigest(name: string, key: string): string {
  const digest = new Bun.CryptoHasher("sha256").update(key).digest("hex").slice(0, DIGEST_CHARS);
  return `${name.slice(0, TOOL_NAME_CHARS_MAX - DIGEST_CHARS - 1)}_${digest}`;
}
