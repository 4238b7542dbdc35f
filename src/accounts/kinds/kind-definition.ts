/** What each kind of account declares. The gateway, the configuration and the console read it from `table.ts`. */

import type { ResponseSink } from "../../net/http-client/contract.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { AccountProfile } from "../../protocols/hub/account-profile.ts";
import type { HostedForm, RequestBody, UpstreamBody } from "../../protocols/shared/request.ts";
import type { Dialect, Interface } from "../../records/interfaces.ts";
import type { PolicyAccount } from "../account.ts";
import type { UpstreamFailure } from "../failure.ts";
import type { RateLimitHeaders } from "../rate-limit-headers.ts";
import type { VendorErrors } from "../vendor-errors.ts";

/** Fields of the configuration that only some kinds have. */
export const KIND_FIELDS = ["vendor", "api_version", "region", "project"] as const;
type KindField = (typeof KIND_FIELDS)[number];

/** `service_account`: the key is never sent, only the access token that it signs for. */
export const CREDENTIAL_FORMS = ["none", "api_key", "service_account"] as const;
type CredentialForm = (typeof CREDENTIAL_FORMS)[number];

/** What decides the base URL of an account whose configuration names none. */
export const ADDRESS_SOURCES = ["configuration", "kind", "region", "process"] as const;
type KindAddress =
  /** Nothing: the configuration must name it. `suggested` is the initial value of the console's form. */
  | { readonly from: "configuration"; readonly suggested: string }
  | { readonly from: "kind"; readonly baseUrl: string }
  | {
      readonly from: "region";
      /** The region of an account whose configuration names none; null if it must name one. */
      readonly regionDefault: string | null;
      /** The initial value of the console's form. */
      readonly regionSuggested: string;
      baseUrl(region: string): string;
    }
  /** The simulator of this process, whose port is known only at run time. */
  | { readonly from: "process" };

/** An account in the configuration file, before its values are checked. */
export type FileFields = Readonly<Record<string, unknown>>;

export interface FieldFault {
  readonly field: string;
  readonly message: string;
}

export interface PathTarget {
  /** The path in the API of the dialect's inventor, such as `/chat/completions`. */
  readonly path: string;
  readonly upstreamModel: string;
  readonly wantsEvents: boolean;
}

export interface ClientHeaders {
  readonly path: string;
  readonly clientHeaders: HeaderReader;
}

/** A vendor that serves the API of another one in a form of its own. */
interface Hosting {
  /** The flags of `anthropic-beta` that the vendor accepts. It rejects a request with any other. */
  readonly betas: readonly string[];
  form(iface: Interface, betas: readonly string[]): HostedForm;
}

/** A stream that has another form than server-sent events. */
interface StreamFraming {
  readonly contentType: string;
  /** Passes the stream on as server-sent events. */
  open(sink: ResponseSink<UpstreamFailure>, options: FramingOptions): ResponseSink<UpstreamFailure>;
}

export interface FramingOptions {
  readonly eventBytesMax: number;
  /** The response cannot be read further: the call must be aborted. */
  onFault(failure: UpstreamFailure): void;
}

interface ModelLists {
  readonly baseUrl: string;
  readonly paths: readonly string[];
}

export interface CountedRequest {
  readonly body: RequestBody;
  readonly upstreamModel: string;
  readonly iface: Interface;
}

/** How an account counts the tokens of a request. */
interface TokenCount {
  /** Returns null if the account cannot count the tokens of this request. */
  body(request: CountedRequest): UpstreamBody | null;
  /** The field of the response; null if it is that of the dialect's inventor. */
  readonly field: string | null;
  /** Whether a rejected count means that the request itself is invalid. */
  readonly isRejectionFinal: boolean;
}

export interface KindSetup {
  /** The name of the vendor. */
  readonly label: string;
  /** The environment variable in which people usually have the credential. */
  readonly variable: string;
}

export interface KindDefinition {
  // Configuration.
  readonly interfaces: readonly Interface[];
  readonly address: KindAddress;
  readonly fields: readonly KindField[];
  readonly credential: CredentialForm;
  /** For the first setup: a kind whose accounts need nothing but a credential. Null for the others. */
  readonly setup: KindSetup | null;
  check(account: FileFields): readonly FieldFault[];

  // Abilities.
  /** The APIs in which it has the endpoints that are not conversations, such as embeddings. */
  readonly apis: readonly ("openai" | "google")[];
  /** The one interface that serves a model; null if each interface of the account serves every model. */
  readonly modelInterface: ((upstreamModel: string) => Interface) | null;
  /** Whether it stores conversations of Messages. */
  readonly holdsThreads: boolean;
  /** `dialect` is the one that the request is written in. */
  profile(account: PolicyAccount, dialect: Dialect): AccountProfile;
  /** The name of the vendor in OpenTelemetry; null if the host name decides. */
  readonly provider: string | null;

  // Requests and responses.
  /** The path below the account's origin, query included. */
  path(account: PolicyAccount, target: PathTarget): string;
  /** Whether a path without the name of a model is the same for every model, so that it can be cached. */
  readonly hasStablePaths: boolean;
  credentialHeader(credential: string): readonly [name: string, value: string];
  /** The client's headers that are forwarded, as lines of the request head. */
  forwardedHeaders(account: PolicyAccount, client: ClientHeaders): string;
  /** Null if it has the API of the dialect's inventor. */
  readonly hosting: Hosting | null;
  readonly framing: StreamFraming | null;
  readonly tokenCount: TokenCount;
  /** Recognized by their form at every account: compatible servers pass on the errors of the vendor behind them. */
  readonly errors: VendorErrors | null;
  readonly rateLimits: RateLimitHeaders | null;

  // Probes.
  modelLists(account: PolicyAccount): ModelLists;
  readonly listHeaders: readonly string[];
  /** What a status of the list means, if it is something else than usual. */
  readonly listFailures: Readonly<Record<number, "refused" | "list_denied">>;
}
