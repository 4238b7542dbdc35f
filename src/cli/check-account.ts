import { limits } from "../config/limits.ts";
import type { Account } from "../policy/snapshot.ts";
import { credentialHeader, upstreamPath } from "../upstreams/address.ts";
import { classifyFetchError, DIRECT, DialError, type Dialer, type FetchFailure } from "../upstreams/dial.ts";
import { VERSION } from "../version.ts";
import type { Finding } from "./finding.ts";

/** One cheap question to an account, asked the way the gateway would ask it, and what its answer means. */
export async function checkAccount(account: Account, dialer: Dialer): Promise<Finding> {
  const what = `account ${account.name}`;
  try {
    const target = await dialer.resolve(account.baseUrl, account.privateNetwork);
    const credential = credentialHeader(account);
    const response = await fetch(target.origin + modelsPath(account), {
      ...DIRECT,
      headers: {
        accept: "application/json",
        "accept-encoding": "identity",
        "user-agent": `model-gateway/${VERSION}`,
        ...(target.hostHeader === null ? {} : { host: target.hostHeader }),
        ...(credential === null ? {} : { [credential[0]]: credential[1] }),
      },
      ...(target.tls === null ? {} : { tls: target.tls }),
      signal: AbortSignal.timeout(limits.doctorTimeoutMs),
    });
    // The body is not needed, and an upstream's text is nothing to print.
    await response.body?.cancel();
    return { what, ...meaning(response.status, response.headers.get("content-type"), account) };
  } catch (error) {
    return { what, ...failureMeaning(error, account) };
  }
}

function modelsPath(account: Account): string {
  if (account.kind !== "azure" || account.apiVersion === null) return upstreamPath(account, "/models", "");
  // Azure's dated API lists models beside its deployments, not below one of them.
  const base = new URL(account.baseUrl).pathname.replace(/\/+$/, "");
  return `${base}/openai/models?api-version=${encodeURIComponent(account.apiVersion)}`;
}

type Meaning = Omit<Finding, "what">;

function meaning(status: number, contentType: string | null, account: Account): Meaning {
  const json = contentType?.includes("json") ?? false;
  if (status >= 200 && status < 300) {
    if (json) return { state: "good", says: "answers and takes the credential", todo: null };
    return {
      state: "broken",
      says: "answers with something that is not JSON",
      todo: `A page, not an API, is at ${account.baseUrl}: check base_url, which usually ends in /v1.`,
    };
  }
  if (status === 401 || status === 403) {
    return {
      state: "broken",
      says: `refuses the credential (${status})`,
      todo:
        account.credential === null
          ? "Give the account a credential in the file and apply it."
          : "Put a valid credential into the file and apply it.",
    };
  }
  if (status === 404 || status === 405) {
    return {
      state: "doubtful",
      says: `is there, but has no list of models (${status})`,
      todo: "Some upstreams have none. Otherwise check base_url, which usually ends in /v1.",
    };
  }
  if (status === 429) {
    return {
      state: "doubtful",
      says: "answers, but is at its rate limit or out of quota (429)",
      todo: "Check its quota with the provider.",
    };
  }
  if (status >= 300 && status < 400) {
    return {
      state: "broken",
      says: `redirects (${status}), which is never followed`,
      todo: "Write the final address into base_url.",
    };
  }
  return {
    state: "broken",
    says: `answers with an error (${status})`,
    todo: "Ask the provider's status page, or try again later.",
  };
}

const FAILURES: Readonly<Record<FetchFailure, readonly [says: string, todo: string]>> = {
  refused: ["cannot be connected to", "Is it running? Check host and port of base_url, and firewalls."],
  dns: [
    "has a host name that cannot be found",
    "Check the host name of base_url, and the DNS of this machine.",
  ],
  tls: [
    "has a certificate that cannot be trusted",
    "Check that base_url uses the name on the certificate, and that it has not expired.",
  ],
  reset: ["closes the connection", "Check the scheme of base_url: http or https."],
  timeout: [
    `does not answer within ${limits.doctorTimeoutMs / 1_000} s`,
    "Check base_url, and firewalls on the way.",
  ],
  aborted: [
    `does not answer within ${limits.doctorTimeoutMs / 1_000} s`,
    "Check base_url, and firewalls on the way.",
  ],
  unknown: ["cannot be reached", "Check base_url."],
};

function failureMeaning(error: unknown, account: Account): Meaning {
  if (error instanceof DialError && error.reason === "forbidden_address") {
    return {
      state: "broken",
      says: error.message,
      todo: account.privateNetwork
        ? "This address is never dialled, because it serves a machine's own secrets. Use another one."
        : "If it is yours, write private_network: true at the account in the file and apply it.",
    };
  }
  const [says, todo] = FAILURES[classifyFetchError(error)];
  return { state: "broken", says, todo };
}
