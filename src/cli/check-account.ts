/** The account check of `doctor`, over HTTP. */

import type { PolicyAccount } from "../accounts/account.ts";
import { AccessTokens } from "../accounts/cloud/access-tokens.ts";
import { type Probe, type ProbeFailure, probeAccount } from "../accounts/probe.ts";
import { systemClock } from "../base/clock.ts";
import { type Deadlines, openDeadlines } from "../base/deadlines.ts";
import { limits } from "../config/limits/product-limits.ts";
import { openHttpClient } from "../net/http-client/client.ts";
import type { HttpClient } from "../net/http-client/contract.ts";
import { Dialer } from "../net/http-client/dial.ts";
import { VERSION } from "../version.ts";
import { type Finding, failed, passed, warned } from "./finding.ts";

/** Probes an account and describes the result in words. */
export async function checkAccount(
  account: PolicyAccount,
  dialer: Dialer,
  http: HttpClient,
): Promise<Finding> {
  return describeProbe(await sendProbe(account, dialer, http), account);
}

function sendProbe(account: PolicyAccount, dialer: Dialer, http: HttpClient): Promise<Probe> {
  const userAgent = `model-gateway/${VERSION}`;
  return probeAccount(account, {
    dialer,
    http,
    accessTokens: new AccessTokens({
      dialer,
      http,
      clock: systemClock,
      userAgent,
      limits: limits.accessTokens,
    }),
    userAgent,
    timeoutMs: limits.doctorTimeoutMs,
    bytesMax: limits.probeBytesMax,
  });
}

type ListedModels =
  | { readonly ok: true; readonly models: readonly string[] }
  | { readonly ok: false; readonly finding: Finding };

/** Lists the models of one account, with connections that end with the call. */
export async function listAccountModels(account: PolicyAccount): Promise<ListedModels> {
  return withConnections(async ({ dialer, http }) => {
    const probe = await sendProbe(account, dialer, http);
    return probe.kind === "answers"
      ? { ok: true, models: probe.models }
      : { ok: false, finding: describeProbe(probe, account) };
  });
}

export interface CheckConnections {
  readonly dialer: Dialer;
  readonly http: HttpClient;
  readonly deadlines: Deadlines;
}

/** Opens what checks of accounts need, and closes it afterwards. */
export async function withConnections<T>(work: (connections: CheckConnections) => Promise<T>): Promise<T> {
  const dialer = new Dialer({
    clock: systemClock,
    lookupTimeoutMs: limits.lookupTimeoutMs,
    cacheMs: limits.addressCacheMs,
  });
  const deadlines = openDeadlines(limits.deadlineScanMs, systemClock);
  const http = openHttpClient({
    deadlines,
    clock: systemClock,
    connectTimeoutMs: limits.connectTimeoutMs,
    idleMs: limits.upstreamIdleMs,
    idlePerOriginMax: 0,
    headBytesMax: limits.upstreamHeadBytesMax,
  });
  try {
    return await work({ dialer, http, deadlines });
  } finally {
    http.close();
    deadlines.stop();
  }
}

function describeProbe(probe: Probe, account: PolicyAccount): Finding {
  const what = `account ${account.name}`;
  switch (probe.kind) {
    case "answers":
      return passed(what, "is reachable and accepts the credential");
    case "not_json":
      return failed(
        what,
        "returned a response that is not JSON",
        `${account.baseUrl} serves a page, not an API. Check base_url, which usually ends in /v1.`,
      );
    case "refused":
      return failed(
        what,
        `rejected the credential (${probe.status})`,
        account.credential === null
          ? "Set the account's credential in the configuration file and apply it."
          : "Set a valid credential in the configuration file and apply it.",
      );
    case "list_denied":
      return warned(
        what,
        `is reachable, but the credential may not list models (${probe.status})`,
        "The credential is invalid, or it may call models only. Send a request to find out.",
      );
    case "no_list":
      return warned(
        what,
        `is reachable, but does not list models (${probe.status})`,
        "Some upstreams do not support this. Otherwise check base_url, which usually ends in /v1.",
      );
    case "limited":
      return warned(what, "is rate limited or out of quota (429)", "Check the quota at the provider.");
    case "redirects":
      return failed(
        what,
        `redirects (${probe.status}); redirects are not followed`,
        "Set base_url to the final address.",
      );
    case "fails":
      return failed(
        what,
        `returned an error (${probe.status})`,
        "Check the provider's status page, or try again later.",
      );
    case "unreachable":
      return failed(what, ...PROBE_FAILURES[probe.failure]);
    case "forbidden_address":
      return failed(
        what,
        probe.reason,
        account.privateNetwork
          ? "This address is blocked, because it serves the secrets of the machine (metadata service). Use another address."
          : "If this is intended, set private_network: true for the account in the configuration file and apply it.",
      );
    case "unknown_host":
      return failed(
        what,
        "has a host name that cannot be resolved",
        "Check the host name of base_url, and the DNS of this machine.",
      );
    case "bad_url":
      return failed(what, "cannot be reached", "Check base_url.");
  }
}

export const PROBE_FAILURES: Readonly<Record<ProbeFailure, readonly [message: string, todo: string]>> = {
  refused: [
    "cannot be connected to",
    "Check that the upstream is running, and check host and port of base_url and firewalls.",
  ],
  connect_timeout: ["cannot be connected to", "The connection timed out. Check base_url and firewalls."],
  tls: [
    "has a certificate that is not trusted",
    "Check that base_url uses the host name of the certificate, and that the certificate has not expired.",
  ],
  reset: ["closes the connection", "Check the scheme of base_url: http or https."],
  bad_http: ["does not speak HTTP", "Check the scheme and the port of base_url."],
  late: [`did not respond within ${limits.doctorTimeoutMs / 1_000} s`, "Check base_url and firewalls."],
};
