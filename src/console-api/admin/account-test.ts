/** Tests an account as a form describes it, saved or not, with a call under the same rules as a request. */

import { z } from "zod";
import { type Probe, probeAccount } from "../../accounts/probe.ts";
import { probeSocket } from "../../accounts/websocket/probe-socket.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { compileUnsavedAccount } from "../../config/plan/unsaved-account.ts";
import { problemsError } from "../changes/change.ts";
import type { PolicyContext } from "../context.ts";

export const probeResponse = z.object({
  /** `answers` and `simulator` mean success; `list_denied`, `no_list` and `limited` may. */
  kind: z.enum([
    "answers",
    "simulator",
    "not_json",
    "refused",
    "list_denied",
    "no_list",
    "limited",
    "redirects",
    "fails",
    "unreachable",
    "forbidden_address",
    "unknown_host",
    "bad_url",
  ]),
  status: z.number().nullable(),
  /** The kind of failure, if the result is `unreachable`. */
  failure: z.enum(["refused", "tls", "reset", "connect_timeout", "bad_http", "late"]).nullable(),
  /** The models that the upstream lists, if it lists them. */
  models: z.array(z.string()),
  /** Whether an account that is configured for WebSocket supports it; null if that was not tested. */
  websocket: z.enum(["supported", "unsupported"]).nullable(),
  duration_ms: z.number(),
});

/** `document` is an account in file shape, with or without a credential. */
export async function testAccount(
  { installation, gateway }: PolicyContext,
  document: { name: string },
): Promise<z.input<typeof probeResponse>> {
  const compiled = await compileUnsavedAccount(installation, document);
  if (!compiled.ok) throw problemsError(compiled.problems, "accounts[0]");
  const { account } = compiled;
  if (account === null) {
    return { kind: "simulator", status: null, failure: null, models: [], websocket: null, duration_ms: 0 };
  }
  const { clock } = installation;
  const { dialer, http, accessTokens, deadlines, userAgent } = gateway.dispatcher;
  const startedMs = clock.monotonicMs();
  const probe = await probeAccount(account, {
    dialer,
    http,
    accessTokens,
    userAgent,
    timeoutMs: limits.doctorTimeoutMs,
    bytesMax: limits.probeBytesMax,
  });
  const durationMs = Math.round(clock.monotonicMs() - startedMs);
  const testsSocket = account.websocket && probe.kind === "answers";
  const handshake = testsSocket
    ? await probeSocket(account, { dialer, deadlines, clock, userAgent, limits })
    : null;
  return {
    ...probeObject(probe),
    websocket: handshake === null ? null : handshake.kind === "open" ? "supported" : "unsupported",
    duration_ms: durationMs,
  };
}

function probeObject(probe: Probe): Omit<z.input<typeof probeResponse>, "duration_ms" | "websocket"> {
  return {
    kind: probe.kind,
    status: "status" in probe ? probe.status : null,
    failure: probe.kind === "unreachable" ? probe.failure : null,
    models: probe.kind === "answers" ? probe.models : [],
  };
}
