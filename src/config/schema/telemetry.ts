/** Schemas of `telemetry` and `log`: where a process exports traces, and what it logs. */

import { z } from "zod";
import { ACCESS_LOG_MODES } from "../../observe/access-log.ts";
import { CLIENT_CONTEXTS } from "../../telemetry/span-context.ts";
import { limits } from "../limits/product-limits.ts";
import { describeFields, text, url } from "./basic-values.ts";
import { durationWithin } from "./limits.ts";
import { durationText } from "./usage-limits.ts";

const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/;
const HEADER_VALUE = /^[\x20-\x7e]{1,4096}$/;
export const isHeaderName = (value: string): boolean => HEADER_NAME.test(value);
export const isHeaderValue = (value: string): boolean => HEADER_VALUE.test(value);

const headerName = text("the name of a header", isHeaderName);
const headerValue = text("the value of a header: visible ASCII characters and spaces", isHeaderValue);

const ATTRIBUTE_RULE = "a text of 1 to 256 characters, without control characters";
const attributeText = text(ATTRIBUTE_RULE, (value) => /^[^\p{C}]{1,256}$/u.test(value));

/** The longest time that a request may take before its span counts as slow. */
const SLOW_MS_MAX = 3_600_000;

export const DEFAULT_LOG_SAMPLE = 0.01;

const RATIO_RULE = "a number from 0 to 1, like 0.1";
/** An interpolated variable is always text. */
const ratio = z.preprocess(
  (value) => (typeof value === "string" && /^\d(\.\d{1,9})?$/.test(value) ? Number(value) : value),
  z.number({ error: RATIO_RULE }).min(0, { error: RATIO_RULE }).max(1, { error: RATIO_RULE }),
);

const TRACE_URL_RULE = "an http:// or https:// address that contains {trace_id}";

/** The address becomes a link in the console. */
function isTraceUrl(value: string): boolean {
  return /^https?:\/\/\S{1,2000}$/.test(value) && URL.canParse(value) && value.includes("{trace_id}");
}

export const telemetry = describeFields({
  endpoint: {
    is: url.optional(),
    means:
      "the address of an OpenTelemetry collector; spans are posted to `/v1/traces` below it as OTLP/HTTP JSON (`OTEL_EXPORTER_OTLP_ENDPOINT`)",
    leftOut: "no spans are exported",
  },
  headers: {
    is: z.record(headerName, headerValue).default(() => ({})),
    means: "headers for the collector, such as its API key (`OTEL_EXPORTER_OTLP_HEADERS`)",
    leftOut: "none",
  },
  timeout: {
    is: durationWithin(100, 60_000, "30s").prefault(durationText(limits.telemetry.timeoutMs)),
    means: "the deadline of one export, a [duration](#durations) (`OTEL_EXPORTER_OTLP_TIMEOUT`)",
  },
  compression: {
    is: z.enum(["gzip", "none"]).default("gzip"),
    means: "the compression of exports (`OTEL_EXPORTER_OTLP_COMPRESSION`)",
  },
  service_name: {
    is: attributeText.default("model-gateway"),
    means: "the name of this service in traces (`OTEL_SERVICE_NAME`)",
  },
  resource: {
    is: z.record(attributeText, attributeText).default(() => ({})),
    means: "further attributes of this process (`OTEL_RESOURCE_ATTRIBUTES`)",
    leftOut: "none",
  },
  sample: {
    is: ratio.default(1),
    means:
      "the share of traces that are exported (`OTEL_TRACES_SAMPLER_ARG`). Requests that fail in the gateway or at an upstream, and slow ones, are always exported",
  },
  slow: {
    is: durationWithin(1, SLOW_MS_MAX, "30s").prefault(durationText(limits.telemetry.slowMs)),
    means: "requests that take at least this long are always exported, a [duration](#durations)",
  },
  client_context: {
    is: z.enum(CLIENT_CONTEXTS).default("follow"),
    means:
      "what `traceparent` of a client decides. `follow`: its trace is continued and exported if the client samples it. `continue`: its trace is continued, and `sample` decides. `ignore`: every request starts a new trace",
  },
  client_address: {
    is: z.boolean().default(false),
    means: "whether spans contain the IP address of the client",
  },
  trace_url: {
    is: text(TRACE_URL_RULE, isTraceUrl).optional(),
    means:
      "the address of a trace in your tracing tool, with `{trace_id}`; the request page of the console links to it",
    leftOut: "no link",
  },
});

export const log = describeFields({
  access: {
    is: z.enum(ACCESS_LOG_MODES).default("off"),
    means:
      "the [access log](observability.md#access-log): one JSON line a request on standard output (`ACCESS_LOG`). `sample` logs a share of the requests, and every request that failed",
  },
  sample: {
    is: ratio.default(DEFAULT_LOG_SAMPLE),
    means: "the share of requests in the access log if `access` is `sample`",
  },
});

export type FileLog = z.output<typeof log>;
export type FileTelemetry = z.output<typeof telemetry>;
