/** The account check of `doctor`, over HTTP. */

import { type Probe, type ProbeFailure, probeAccount } from "../accounts/probe.ts";
import { limits } from "../config/product-limits.ts";
import type { HttpClient } from "../net/http-client/client.ts";
import type { Dialer } from "../net/http-client/dial.ts";
import type { PolicyAccount } from "../policy/snapshot.ts";
import { VERSION } from "../version.ts";
import type { Finding } from "./finding.ts";

/** Probes an account and describes the result in words. */
export async function checkAccount(
  account: PolicyAccount,
  dialer: Dialer,
  http: HttpClient,
): Promise<Finding> {
  const probe = await probeAccount(account, {
    dialer,
    http,
    userAgent: `model-gateway/${VERSION}`,
    timeoutMs: limits.doctorTimeoutMs,
    bytesMax: limits.probeBytesMax,
  });
  return { what: `account ${account.name}`, ...describeProbe(probe, account) };
}

export type Meaning = Omit<Finding, "what">;

function describeProbe(probe: Probe, account: PolicyAccount): Meaning {
  switch (probe.kind) {
    case "answers":
      return { state: "good", says: "answers and takes the credential", todo: null };
    case "not_json":
      return createBroken(
        "answers with something that is not JSON",
        `A page, not an API, is at ${account.baseUrl}: check base_url, which usually ends in /v1.`,
      );
    case "refused":
      return createBroken(
        `refuses the credential (${probe.status})`,
        account.credential === null
          ? "Give the account a credential in the file and apply it."
          : "Put a valid credential into the file and apply it.",
      );
    case "no_list":
      return {
        state: "doubtful",
        says: `is there, but has no list of models (${probe.status})`,
        todo: "Some upstreams have none. Otherwise check base_url, which usually ends in /v1.",
      };
    case "limited":
      return {
        state: "doubtful",
        says: "answers, but is at its rate limit or out of quota (429)",
        todo: "Check its quota with the provider.",
      };
    case "redirects":
      return createBroken(
        `redirects (${probe.status}), which is never followed`,
        "Write the final address into base_url.",
      );
    case "fails":
      return createBroken(
        `answers with an error (${probe.status})`,
        "Ask the provider's status page, or try again later.",
      );
    case "unreachable":
      return createBroken(...FAILURES[probe.failure]);
    case "forbidden_address":
      return createBroken(
        probe.reason,
        account.privateNetwork
          ? "This address is never dialled, because it serves a machine's own secrets. Use another one."
          : "If it is yours, write private_network: true at the account in the file and apply it.",
      );
    case "unknown_host":
      return createBroken(
        "has a host name that cannot be found",
        "Check the host name of base_url, and the DNS of this machine.",
      );
    case "bad_url":
      return createBroken("cannot be reached", "Check base_url.");
  }
}

function createBroken(says: string, todo: string): Meaning {
  return { state: "broken", says, todo };
}

const FAILURES: Readonly<Record<ProbeFailure, readonly [says: string, todo: string]>> = {
  refused: ["cannot be connected to", "Is it running? Check host and port of base_url, and firewalls."],
  connect_timeout: [
    "cannot be connected to",
    "Nothing answers there. Check base_url, and firewalls on the way.",
  ],
  tls: [
    "has a certificate that cannot be trusted",
    "Check that base_url uses the name on the certificate, and that it has not expired.",
  ],
  reset: ["closes the connection", "Check the scheme of base_url: http or https."],
  bad_http: ["does not speak HTTP", "Check the scheme and the port of base_url."],
  late: [
    `does not answer within ${limits.doctorTimeoutMs / 1_000} s`,
    "Check base_url, and firewalls on the way.",
  ],
};

export function failureMeaning(kind: ProbeFailure): Meaning {
  return createBroken(...FAILURES[kind]);
}
