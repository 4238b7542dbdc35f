/** Judges the requests that the upstreams of a tool session received: calls, results, and the state of reasoning. */

import { type SessionUpstreams, STATE_FIELDS, type UpstreamRequest } from "./session-upstreams.ts";

type Json = Record<string, unknown>;

export interface PlannedCall {
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** What the tool returns. */
  readonly output: string;
}

export interface JudgedSession {
  /** Turns that an upstream has served. */
  readonly turns: number;
  /** Of these, turns of the second upstream. */
  readonly moved: number;
  /** Changes from one upstream to the other. */
  readonly switches: number;
  /** Requests with state of the other account of the same vendor, which the upstream did not serve. */
  readonly stateRejections: number;
  readonly problems: readonly string[];
}

type Part =
  | { readonly kind: "call"; readonly id: string; readonly name: string; readonly input: unknown }
  | { readonly kind: "result"; readonly id: string; readonly output: string }
  | { readonly kind: "other" };

const OTHER: Part = { kind: "other" };
/** Google's signature for a call that another model made. */
const PLACEHOLDER = "skip_thought_signature_validator";
/** The gateway's envelope, as it is and in Base64. */
const ENVELOPE = /gws1\.|Z3dzMS/;

/** Each turn before the last one makes all of `calls`. */
export function judgeSession(
  { requests, issued }: Pick<SessionUpstreams, "requests" | "issued">,
  calls: readonly PlannedCall[],
): JudgedSession {
  const problems: string[] = [];
  let stateRejections = 0;
  for (const [at, request] of requests.entries()) {
    const where = `request ${at} (${request.role}, ${request.path}, turn ${request.turn})`;
    const found = judgeTurn(request, calls);
    const foreign = findState(request.body).filter(
      (state) => !issued[request.role].has(state) && state !== PLACEHOLDER,
    );
    if (foreign.length > 0 && isOfSameVendor(foreign, request, { requests, issued })) stateRejections++;
    else if (foreign.length > 0) found.push(`state of another account: ${foreign[0]}`);
    else if (request.outcome === "rejected") found.push("the upstream rejected the request");
    if (ENVELOPE.test(JSON.stringify(request.body))) found.push("an envelope of the gateway");
    problems.push(...found.map((problem) => `${where}: ${problem}`));
  }
  const served = requests.filter(({ outcome }) => outcome === "served").map(({ role }) => role);
  return {
    turns: served.length,
    moved: served.filter((role) => role === "second").length,
    switches: served.filter((role, at) => at > 0 && role !== served[at - 1]).length,
    stateRejections,
    problems,
  };
}

/**
 * The state of another account of the same vendor passes through, because that account may accept it. These upstreams
 * do not, and the gateway repeats the request without it.
 */
function isOfSameVendor(
  foreign: readonly string[],
  { role, path, outcome }: UpstreamRequest,
  { requests, issued }: Pick<SessionUpstreams, "requests" | "issued">,
): boolean {
  const other = role === "first" ? "second" : "first";
  return (
    outcome !== "served" &&
    requests.some((request) => request.role === other && request.path === path) &&
    foreign.every((state) => issued[other].has(state))
  );
}

/** Each call has exactly one result, before anything else is said; none was lost, and none was changed. */
function judgeTurn({ body, path, turn }: UpstreamRequest, planned: readonly PlannedCall[]): string[] {
  const problems: string[] = [];
  const open = new Map<string, PlannedCall>();
  const ids = new Set<string>();
  let count = 0;
  for (const part of readParts(path, body)) {
    if (part.kind === "call") {
      const plan = planned[count++ % planned.length];
      if (ids.has(part.id)) problems.push(`the call ${part.id} is repeated`);
      ids.add(part.id);
      if (plan === undefined) continue;
      open.set(part.id, plan);
      if (part.name !== plan.name || !Bun.deepEquals(part.input, plan.input))
        problems.push(`the call ${part.id} is ${part.name} ${JSON.stringify(part.input)}`);
    } else if (part.kind === "result") {
      const plan = open.get(part.id);
      if (plan === undefined) problems.push(`the result ${part.id} has no call`);
      else if (!part.output.includes(plan.output))
        problems.push(`the result ${part.id} is ${JSON.stringify(part.output)}`);
      open.delete(part.id);
    } else if (open.size > 0) {
      problems.push(`no result of ${[...open.keys()].join(", ")} before the next message`);
      open.clear();
    }
  }
  if (open.size > 0) problems.push(`no result of ${[...open.keys()].join(", ")}`);
  const expected = turn * planned.length;
  if (count !== expected) problems.push(`${count} calls instead of ${expected}`);
  return problems;
}

function readParts(path: string, body: Json): Part[] {
  if (path.endsWith("/messages")) return list(body.messages).flatMap(readMessage);
  if (path.endsWith("/chat/completions")) return list(body.messages).flatMap(readChatMessage);
  if (path.endsWith("/responses")) return list(body.input).map(readItem);
  if (path.includes(":streamGenerateContent") || path.includes(":generateContent"))
    return readContents(list(body.contents));
  throw new Error(`the oracle does not know ${path}`);
}

function readMessage({ content }: Json): Part[] {
  return list(content).map((block) => {
    switch (block.type) {
      case "tool_use":
        return { kind: "call", id: String(block.id), name: String(block.name), input: block.input };
      case "tool_result":
        return { kind: "result", id: String(block.tool_use_id), output: JSON.stringify(block.content) };
      default:
        return OTHER;
    }
  });
}

function readChatMessage({ role, tool_calls, tool_call_id, content }: Json): Part[] {
  if (role === "tool") return [{ kind: "result", id: String(tool_call_id), output: JSON.stringify(content) }];
  const calls = list(tool_calls).map(({ id, function: called }): Part => {
    const { name, arguments: input } = called as Json;
    return { kind: "call", id: String(id), name: String(name), input: JSON.parse(String(input)) };
  });
  return [OTHER, ...calls];
}

function readItem({ type, call_id, name, arguments: input, output }: Json): Part {
  switch (type) {
    case "function_call":
      return {
        kind: "call",
        id: String(call_id),
        name: String(name),
        input: JSON.parse(String(input)),
      };
    case "function_call_output":
      return { kind: "result", id: String(call_id), output: JSON.stringify(output) };
    default:
      return OTHER;
  }
}

/** Calls and results of Gemini may have no ids: then they match in order. */
function readContents(contents: readonly Json[]): Part[] {
  let calls = 0;
  let results = 0;
  return contents
    .flatMap(({ parts }) => list(parts))
    .map(({ functionCall, functionResponse }) => {
      if (functionCall !== undefined) {
        const { id, name, args } = functionCall as Json;
        return { kind: "call", id: String(id ?? calls++), name: String(name), input: args };
      }
      if (functionResponse === undefined) return OTHER;
      const { id, response } = functionResponse as Json;
      return { kind: "result", id: String(id ?? results++), output: JSON.stringify(response) };
    });
}

/** The opaque state in a body, without that of images and the like. */
function findState(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(findState);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    typeof inner === "string" && inner !== "" && STATE_FIELDS.includes(name) ? [inner] : findState(inner),
  );
}

function list(value: unknown): Json[] {
  return Array.isArray(value) ? (value as Json[]) : [];
}
