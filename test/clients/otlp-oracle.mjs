// The OpenTelemetry packages as an oracle: reads a message of the gateway and headers of clients from standard input,
// writes the same spans as the SDK would, and what its propagator reads from the headers.

import { ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer";
import { resourceFromAttributes } from "@opentelemetry/resources";

const { message, headers } = JSON.parse(await new Response(process.stdin).text());

function plainValue({ stringValue, intValue, doubleValue, boolValue, arrayValue }) {
  if (arrayValue !== undefined) return arrayValue.values.map(plainValue);
  return stringValue ?? boolValue ?? (intValue === undefined ? doubleValue : Number(intValue));
}

const attributesOf = (list) => Object.fromEntries(list.map(({ key, value }) => [key, plainValue(value)]));
const timeOf = (nano) => [Number(nano.slice(0, -9)), Number(nano.slice(-9))];

function readableSpan(span, resource, instrumentationScope) {
  const { traceId, spanId, parentSpanId, flags } = span;
  const traceFlags = flags & 0xff;
  const isRemote = (flags & 0x200) !== 0;
  return {
    resource,
    instrumentationScope,
    name: span.name,
    kind: span.kind - 1,
    spanContext: () => ({ traceId, spanId, traceFlags }),
    parentSpanContext:
      parentSpanId === undefined ? undefined : { traceId, spanId: parentSpanId, traceFlags, isRemote },
    startTime: timeOf(span.startTimeUnixNano),
    endTime: timeOf(span.endTimeUnixNano),
    attributes: attributesOf(span.attributes),
    status: { code: span.status?.code ?? 0 },
    links: [],
    events: [],
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

const spans = message.resourceSpans.flatMap(({ resource, scopeSpans }) => {
  const shared = resourceFromAttributes(attributesOf(resource.attributes));
  return scopeSpans.flatMap(({ scope, spans }) => spans.map((span) => readableSpan(span, shared, scope)));
});

const propagator = new W3CTraceContextPropagator();
const getter = { get: (carrier, name) => carrier[name], keys: (carrier) => Object.keys(carrier) };
const contexts = headers.map((traceparent) => {
  const found = trace.getSpanContext(propagator.extract(ROOT_CONTEXT, { traceparent }, getter));
  if (found === undefined) return null;
  return { traceId: found.traceId, spanId: found.spanId, isSampled: (found.traceFlags & 1) === 1 };
});

const serialized = new TextDecoder().decode(JsonTraceSerializer.serializeRequest(spans));
process.stdout.write(JSON.stringify({ message: JSON.parse(serialized), contexts }));
