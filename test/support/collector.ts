/** An OpenTelemetry collector on a loopback port: checks each message against the schema of OTLP/JSON, and keeps its spans. */

import { gunzipSync } from "node:zlib";
import { z } from "zod";
import { eventually } from "./eventually.ts";

const hex = (digits: number) => z.string().regex(new RegExp(`^(?!0+$)[0-9a-f]{${digits}}$`));
/** 64-bit integers are strings. */
const integer = z.string().regex(/^-?\d{1,19}$/);
const nanoseconds = z.string().regex(/^\d{19}$/);

const value = z.union([
  z.strictObject({ stringValue: z.string() }),
  z.strictObject({ intValue: integer }),
  z.strictObject({ doubleValue: z.number() }),
  z.strictObject({ boolValue: z.boolean() }),
  z.strictObject({
    arrayValue: z.strictObject({ values: z.array(z.strictObject({ stringValue: z.string() })) }),
  }),
]);
const attributes = z
  .array(z.strictObject({ key: z.string().min(1), value }))
  .refine((list) => new Set(list.map(({ key }) => key)).size === list.length, "an attribute appears twice");

const span = z.strictObject({
  traceId: hex(32),
  spanId: hex(16),
  parentSpanId: hex(16).optional(),
  flags: z.int(),
  name: z.string().min(1),
  kind: z.int().min(1).max(5),
  startTimeUnixNano: nanoseconds,
  endTimeUnixNano: nanoseconds,
  attributes,
  status: z.strictObject({ code: z.int().min(0).max(2) }).optional(),
});

const message = z.strictObject({
  resourceSpans: z
    .array(
      z.strictObject({
        resource: z.strictObject({ attributes }),
        scopeSpans: z
          .array(
            z.strictObject({
              scope: z.strictObject({ name: z.string(), version: z.string() }),
              spans: z.array(span).min(1),
            }),
          )
          .length(1),
      }),
    )
    .length(1),
});

export type OtlpMessage = z.output<typeof message>;

type PlainValue = string | number | boolean | readonly string[];

/** A span with its attributes as plain values. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: number;
  readonly durationMs: number;
  readonly isError: boolean;
  readonly attributes: Readonly<Record<string, PlainValue>>;
}

export interface Collector {
  readonly url: string;
  readonly messages: readonly OtlpMessage[];
  readonly requestHeaders: readonly Headers[];
  readonly spans: readonly CollectedSpan[];
  /** Every message that violates the schema. */
  readonly problems: readonly string[];
  /** Waits until this many spans of the request have arrived. */
  findSpans(requestId: string | null, count: number): Promise<readonly CollectedSpan[]>;
  /** The response from now on; a promise that does not settle is a collector that does not respond. */
  respond(response: () => Response | Promise<Response>): void;
  stop(): Promise<void>;
}

export function startCollector(): Collector {
  const messages: OtlpMessage[] = [];
  const requestHeaders: Headers[] = [];
  const spans: CollectedSpan[] = [];
  const problems: string[] = [];
  let respond: () => Response | Promise<Response> = () => Response.json({});
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      const bytes = new Uint8Array(await request.arrayBuffer());
      const response = await respond();
      if (!response.ok) return response;
      requestHeaders.push(request.headers);
      if (new URL(request.url).pathname !== "/v1/traces") problems.push(`posted to ${request.url}`);
      if (request.headers.get("content-type") !== "application/json") problems.push("not JSON");
      const isPacked = request.headers.get("content-encoding") === "gzip";
      const text = new TextDecoder("utf-8", { fatal: true }).decode(isPacked ? gunzipSync(bytes) : bytes);
      const parsed = message.safeParse(JSON.parse(text));
      if (!parsed.success) problems.push(z.prettifyError(parsed.error));
      else {
        messages.push(parsed.data);
        spans.push(...parsed.data.resourceSpans.flatMap(collectSpans));
      }
      return response;
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    messages,
    requestHeaders,
    spans,
    problems,
    findSpans: (requestId, count) =>
      eventually(() => {
        const found = spans.filter(({ attributes }) => attributes["gateway.request_id"] === requestId);
        return found.length >= count ? found : null;
      }),
    respond(response) {
      respond = response;
    },
    stop: () => server.stop(true),
  };
}

type AttributeList = z.output<typeof attributes>;

function plainValues(list: AttributeList): Record<string, PlainValue> {
  return Object.fromEntries(list.map(({ key, value }) => [key, plainValue(value)]));
}

function plainValue(given: AttributeList[number]["value"]): PlainValue {
  if ("stringValue" in given) return given.stringValue;
  if ("intValue" in given) return Number(given.intValue);
  if ("arrayValue" in given) return given.arrayValue.values.map(({ stringValue }) => stringValue);
  return "doubleValue" in given ? given.doubleValue : given.boolValue;
}

function collectSpans({ scopeSpans }: OtlpMessage["resourceSpans"][number]): CollectedSpan[] {
  return scopeSpans.flatMap(({ spans }) =>
    spans.map((one) => ({
      traceId: one.traceId,
      spanId: one.spanId,
      parentSpanId: one.parentSpanId,
      name: one.name,
      kind: one.kind,
      durationMs: Number((BigInt(one.endTimeUnixNano) - BigInt(one.startTimeUnixNano)) / 1_000_000n),
      isError: one.status?.code === 2,
      attributes: plainValues(one.attributes),
    })),
  );
}
