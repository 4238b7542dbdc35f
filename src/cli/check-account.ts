import { limits } from "../config/limits.ts";
import type { Account } from "../policy/snapshot.ts";
import { credentialHeader, upstreamPath } from "../upstreams/address.ts";
import { DialError, type Dialer, type Target } from "../upstreams/dial.ts";
import type { HttpClient, HttpFailure } from "../upstreams/http/client.ts";
import { VERSION } from "../version.ts";
import type { Finding } from "./finding.ts";

/** One cheap question to an account, asked the way the gateway would ask it, and what its answer means. */
export async function checkAccount(account: Account, dialer: Dialer, http: HttpClient): Promise<Finding> {
  const what = `account ${account.name}`;
  try {
    const target = await dialer.resolve(account.baseUrl, account.privateNetwork);
    const reply = await listModels(account, target, http);
    if (reply.kind === "answered") return { what, ...meaning(reply.status, reply.contentType, account) };
    return { what, ...failureMeaning(reply.kind) };
  } catch (error) {
    return { what, ...dialMeaning(error, account) };
  }
}

type Reply =
  | { kind: "answered"; status: number; contentType: string | null }
  | { kind: HttpFailure["kind"] | "late" };

function listModels(account: Account, target: Target, http: HttpClient): Promise<Reply> {
  const credential = credentialHeader(account);
  const headers = [
    "accept: application/json",
    `user-agent: model-gateway/${VERSION}`,
    ...(credential === null ? [] : [`${credential[0]}: ${credential[1]}`]),
  ];
  return new Promise((resolve) => {
    const request = {
      target,
      method: "GET" as const,
      path: modelsPath(account),
      headers: `${headers.join("\r\n")}\r\n`,
      body: null,
    };
    const answer = (reply: Reply) => {
      clearTimeout(late);
      exchange.abort();
      resolve(reply);
    };
    const exchange = http.send(request, {
      // The body is not needed, and an upstream's text is nothing to print.
      head: (status, told) => answer({ kind: "answered", status, contentType: told.get("content-type") }),
      data() {},
      end() {},
      failed: ({ kind }) => answer({ kind }),
    });
    const late = setTimeout(() => answer({ kind: "late" }), limits.doctorTimeoutMs);
  });
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

const FAILURES: Readonly<Record<HttpFailure["kind"] | "late", readonly [says: string, todo: string]>> = {
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

function failureMeaning(kind: HttpFailure["kind"] | "late"): Meaning {
  const [says, todo] = FAILURES[kind];
  return { state: "broken", says, todo };
}

function dialMeaning(error: unknown, account: Account): Meaning {
  if (error instanceof DialError && error.reason === "forbidden_address") {
    return {
      state: "broken",
      says: error.message,
      todo: account.privateNetwork
        ? "This address is never dialled, because it serves a machine's own secrets. Use another one."
        : "If it is yours, write private_network: true at the account in the file and apply it.",
    };
  }
  if (error instanceof DialError && error.reason !== "bad_url") {
    return {
      state: "broken",
      says: "has a host name that cannot be found",
      todo: "Check the host name of base_url, and the DNS of this machine.",
    };
  }
  return { state: "broken", says: "cannot be reached", todo: "Check base_url." };
}
