/** Resolves where this process exports traces, and what it logs: variables override the file. */

import { decodeUriText } from "../../base/decode-uri.ts";
import { ACCESS_LOG_MODES, type AccessLogMode } from "../../observe/access-log.ts";
import { limits } from "../limits/product-limits.ts";
import { isHttpUrl, PUBLIC_URL_RULE } from "../schema/basic-values.ts";
import {
  DEFAULT_LOG_SAMPLE,
  type FileLog,
  type FileTelemetry,
  isHeaderName,
  isHeaderValue,
} from "../schema/telemetry.ts";

/** Null if nothing is exported. */
export interface TelemetrySettings {
  /** The whole URL that spans are posted to. */
  readonly tracesUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly compression: FileTelemetry["compression"];
  readonly serviceName: string;
  readonly resource: Readonly<Record<string, string>>;
  readonly sampleRatio: number;
  readonly slowMs: number;
  readonly clientContext: FileTelemetry["client_context"];
  readonly clientAddress: boolean;
  readonly traceUrl: string | null;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Adds the problems of invalid variables to `problems`. */
export function readTelemetrySettings(
  environment: Environment,
  file: FileTelemetry | undefined,
  problems: string[],
): TelemetrySettings | null {
  const variables = new Variables(environment, problems);
  if (variables.isDisabled()) return null;
  const tracesUrl =
    variables.tracesUrl() ?? (file?.endpoint === undefined ? null : `${file.endpoint}/v1/traces`);
  if (tracesUrl === null) return null;
  const sampler = variables.sampler();
  if (sampler === "off") return null;
  return {
    tracesUrl,
    headers: { ...file?.headers, ...variables.headers() },
    timeoutMs: variables.timeoutMs() ?? file?.timeout ?? limits.telemetry.timeoutMs,
    compression: variables.compression() ?? file?.compression ?? "gzip",
    serviceName: variables.read("OTEL_SERVICE_NAME") ?? file?.service_name ?? "model-gateway",
    resource: { ...file?.resource, ...variables.resource() },
    sampleRatio: sampler?.ratio ?? file?.sample ?? 1,
    slowMs: file?.slow ?? limits.telemetry.slowMs,
    clientContext: sampler?.clientContext ?? file?.client_context ?? "follow",
    clientAddress: file?.client_address ?? false,
    traceUrl: file?.trace_url ?? null,
  };
}

export interface AccessLogSettings {
  readonly mode: AccessLogMode;
  readonly sampleRatio: number;
}

/** Adds the problem of an invalid variable to `problems`. */
export function readAccessLogSettings(
  environment: Environment,
  file: FileLog | undefined,
  problems: string[],
): AccessLogSettings {
  const variable = environment.ACCESS_LOG || null;
  const mode = ACCESS_LOG_MODES.find((known) => known === variable);
  if (variable !== null && mode === undefined) problems.push("ACCESS_LOG must be off, on or sample.");
  return { mode: mode ?? file?.access ?? "off", sampleRatio: file?.sample ?? DEFAULT_LOG_SAMPLE };
}

/** The sampler of the environment; `off` exports nothing. */
type Sampler = "off" | { readonly ratio: number; readonly clientContext: "follow" | "continue" };

const EXPORTER = "OTEL_EXPORTER_OTLP_";

/** Reads and checks the standard variables. A variable for traces takes precedence over the general one. */
class Variables {
  readonly #environment: Environment;
  readonly #problems: string[];

  constructor(environment: Environment, problems: string[]) {
    this.#environment = environment;
    this.#problems = problems;
  }

  /** Compose files pass an empty variable for "not set". */
  read(name: string): string | null {
    return this.#environment[name] || null;
  }

  isDisabled(): boolean {
    const protocol = this.#exporterSetting("PROTOCOL");
    if (protocol?.value === "grpc") this.#reject(protocol.name, "http/json");
    return (
      this.read("OTEL_SDK_DISABLED")?.toLowerCase() === "true" || this.read("OTEL_TRACES_EXPORTER") === "none"
    );
  }

  tracesUrl(): string | null {
    const whole = this.read(`${EXPORTER}TRACES_ENDPOINT`);
    const base = this.read(`${EXPORTER}ENDPOINT`);
    const url = whole ?? base;
    if (url === null) return null;
    if (!isHttpUrl(url))
      this.#reject(`${EXPORTER}${whole === null ? "" : "TRACES_"}ENDPOINT`, PUBLIC_URL_RULE);
    return whole ?? `${url.replace(/\/+$/, "")}/v1/traces`;
  }

  headers(): Record<string, string> {
    const setting = this.#exporterSetting("HEADERS");
    if (setting === null) return {};
    const headers = parsePairs(setting.value);
    const isValid =
      headers !== null &&
      Object.entries(headers).every(([name, value]) => isHeaderName(name) && isHeaderValue(value));
    if (!isValid) this.#reject(setting.name, "a list like api-key=secret,tenant=a");
    return headers ?? {};
  }

  timeoutMs(): number | null {
    const setting = this.#exporterSetting("TIMEOUT");
    if (setting === null) return null;
    if (!/^[1-9]\d{2,4}$/.test(setting.value)) this.#reject(setting.name, "milliseconds from 100 to 99999");
    return Number(setting.value);
  }

  compression(): FileTelemetry["compression"] | null {
    const setting = this.#exporterSetting("COMPRESSION");
    if (setting === null) return null;
    if (setting.value === "gzip" || setting.value === "none") return setting.value;
    this.#reject(setting.name, "gzip or none");
    return null;
  }

  resource(): Record<string, string> {
    const text = this.read("OTEL_RESOURCE_ATTRIBUTES");
    if (text === null) return {};
    const attributes = parsePairs(text);
    if (attributes === null) this.#reject("OTEL_RESOURCE_ATTRIBUTES", "a list like key=value,key2=value2");
    return attributes ?? {};
  }

  sampler(): Sampler | null {
    const name = this.read("OTEL_TRACES_SAMPLER");
    if (name === null) return null;
    const clientContext = name.startsWith("parentbased_") ? "follow" : "continue";
    switch (name.replace(/^parentbased_/, "")) {
      case "always_on":
        return { ratio: 1, clientContext };
      case "always_off":
        return clientContext === "follow" ? { ratio: 0, clientContext } : "off";
      case "traceidratio":
        return { ratio: this.#ratio(), clientContext };
    }
    this.#reject(
      "OTEL_TRACES_SAMPLER",
      "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or parentbased_traceidratio",
    );
    return null;
  }

  #ratio(): number {
    const text = this.read("OTEL_TRACES_SAMPLER_ARG");
    if (text === null) return 1;
    const ratio = Number(text);
    if (!(ratio >= 0 && ratio <= 1)) this.#reject("OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1");
    return ratio;
  }

  #exporterSetting(name: string): { name: string; value: string } | null {
    for (const variable of [`${EXPORTER}TRACES_${name}`, `${EXPORTER}${name}`]) {
      const value = this.read(variable);
      if (value !== null) return { name: variable, value };
    }
    return null;
  }

  /** The value is not repeated: headers contain secrets. */
  #reject(name: string, rule: string): void {
    this.#problems.push(`${name} must be ${rule}.`);
  }
}

/** `a=1,b=2` with percent-encoding, as in the Baggage header. Returns null if the text has another form. */
function parsePairs(text: string): Record<string, string> | null {
  const pairs: Record<string, string> = {};
  for (const part of text.split(",")) {
    if (part.trim() === "") continue;
    const at = part.indexOf("=");
    if (at < 1) return null;
    const name = decodeUriText(part.slice(0, at).trim());
    const value = decodeUriText(part.slice(at + 1).trim());
    if (name === null || value === null) return null;
    pairs[name] = value;
  }
  return pairs;
}
