/** `apply --url`: applies a configuration file to a gateway on another machine, by the console API. */

import { readFileSync } from "node:fs";
import { z } from "zod";
import { parseFile } from "../config/parse/file.ts";
import { substituteVariables } from "../config/parse/substitute-variables.ts";
import type { FileSource } from "../config/plan/apply.ts";
import { isHttpUrl } from "../config/schema/basic-values.ts";
import { gatewayFile } from "../config/schema/schema.ts";
import { type PrintedPlan, printDifference, printOutcome, reportProblems } from "./apply-output.ts";
import { fail, type Input, misuse } from "./command.ts";
import { chooseSecretTarget, type SecretTarget, storeSecrets } from "./secret-output.ts";

const TIMEOUT_MS = 120_000;

const changesSchema = z.array(
  z.object({
    kind: z.enum(["create", "change", "remove"]),
    what: z.string(),
    fields: z.array(z.object({ field: z.string(), from: z.string().nullable(), to: z.string().nullable() })),
  }),
);
const planSchema = z.object({
  problems: z.array(
    z.object({ line: z.number(), column: z.number(), field: z.string(), message: z.string() }),
  ),
  changes: changesSchema,
  notes: z.array(z.string()),
  plan: z.string().nullable(),
});
const appliedSchema = z.object({
  changes: changesSchema,
  keys: z.array(z.object({ name: z.string(), secret: z.string() })),
});
const errorSchema = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

/** Shows the plan and applies exactly it: the gateway rejects a plan that has changed in the meantime. */
export async function applyRemotely(input: Input, source: FileSource): Promise<number> {
  const gateway = new RemoteGateway(readUrl(input), readToken(input));
  // Checked here first: these messages never contain the value of a variable, and the gateway receives only values.
  const parsed = parseFile(source.text, source, gatewayFile);
  if (!parsed.ok) return reportProblems(parsed.problems, input);
  const body = {
    text: substituteVariables(source.text, source.environment),
    prune: input.flag("prune"),
  };
  const planned = await gateway.post("plan", body, planSchema);
  if (planned.problems.length > 0) {
    const problems = planned.problems.map((problem) => ({ file: source.fileName, ...problem }));
    return reportProblems(problems, input);
  }
  const { changes, notes, plan } = planned;
  printDifference({ changes, notes }, input);
  if (input.flag("dry-run") || plan === null) {
    printOutcome({ changes, notes, shown: [] }, input, null);
    return 0;
  }
  const target = chooseTarget(input, changes);
  const { keys } = await gateway.post("apply", { ...body, plan }, appliedSchema);
  printOutcome({ changes, notes, shown: keys }, input, storeSecrets(target, keys));
  return 0;
}

/** Without a data folder here, secrets that may not be printed need a file. */
function chooseTarget(input: Input, changes: PrintedPlan["changes"]): SecretTarget {
  const target = chooseSecretTarget(input, { dataDir: "." }, "keys");
  const createsKeys = changes.some(({ kind, what }) => kind === "create" && what.startsWith("key "));
  if (createsKeys && target.kind === "append")
    fail(
      "The file creates keys, and their secrets need a destination.",
      "Set --secret-file FILE, or --print-secret.",
    );
  return target;
}

function readUrl(input: Input): string {
  const url = input.text("url");
  if (url === undefined) misuse("--token-file needs --url.", "For example: --url https://llm.example.com");
  if (!isHttpUrl(url))
    misuse("--url must be an https:// address.", "For example: --url https://llm.example.com");
  const { protocol, hostname } = new URL(url);
  // The token and the secrets of the file are sent.
  if (protocol !== "https:" && !["localhost", "127.0.0.1", "[::1]"].includes(hostname))
    misuse(
      "--url must be an https:// address, or http:// on this machine.",
      "The file and the token are secrets.",
    );
  return url.replace(/\/+$/, "");
}

function readToken(input: Input): string {
  const path = input.text("token-file");
  if (path === undefined)
    misuse(
      "--url needs --token-file.",
      "To create a token: service-accounts create ci --scopes config.apply",
    );
  try {
    const token = readFileSync(path, "utf8").trim();
    if (/^[\x21-\x7e]+$/.test(token)) return token;
  } catch {
    // The same message as for an unusable file.
  }
  return fail(`${path} is missing, empty, not readable, or not a token.`);
}

class RemoteGateway {
  readonly #url: string;
  readonly #token: string;

  constructor(url: string, token: string) {
    this.#url = url;
    this.#token = token;
  }

  async post<Schema extends z.ZodType>(
    operation: "plan" | "apply",
    body: object,
    schema: Schema,
  ): Promise<z.output<Schema>> {
    const response = await this.#send(operation, body);
    const content: unknown = await response.json().catch(() => null);
    const parsed = response.ok ? schema.safeParse(content) : null;
    if (parsed?.success) return parsed.data;
    const error = errorSchema.safeParse(content);
    if (!error.success)
      fail(`${this.#url} returned ${response.status} and no response of a gateway.`, "Check the address.");
    const { code, message } = error.data.error;
    return fail(`The gateway rejected the file (${code}):\n${message}`);
  }

  async #send(operation: string, body: object): Promise<Response> {
    try {
      return await fetch(`${this.#url}/api/admin/config/${operation}`, {
        method: "POST",
        headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        // A redirect could lead the token to another host.
        redirect: "error",
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return fail(`${this.#url} cannot be reached: ${reason}`, "Check the address. It must not redirect.");
    }
  }
}
