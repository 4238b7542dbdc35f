/** Opens the export of traces, if it is configured. At shutdown it sends the last spans. */

import { openHttpClient } from "../net/http-client/client.ts";
import { Dialer } from "../net/http-client/dial.ts";
import { OtlpClient } from "../telemetry/otlp-client.ts";
import { buildFrame } from "../telemetry/resource.ts";
import { SpanExporter } from "../telemetry/span-exporter.ts";
import { Tracer } from "../telemetry/tracer.ts";
import { VERSION } from "../version.ts";
import type { NodeAddress } from "./node-address.ts";
import type { ProcessContext } from "./process-context.ts";
import type { Timers } from "./upstream.ts";

export function openTracer(
  context: ProcessContext,
  { deadlines, coarseClock }: Timers,
  address: NodeAddress,
): Tracer | null {
  const { installation, settings, limits, log, closers } = context;
  const { telemetry } = settings;
  if (telemetry === null) return null;
  const http = openHttpClient({
    deadlines,
    clock: coarseClock,
    connectTimeoutMs: limits.connectTimeoutMs,
    idleMs: limits.upstreamIdleMs,
    idlePerOriginMax: 1,
    headBytesMax: limits.upstreamHeadBytesMax,
  });
  closers.add(() => http.close());
  const client = new OtlpClient({
    dialer: new Dialer({
      clock: coarseClock,
      lookupTimeoutMs: limits.lookupTimeoutMs,
      cacheMs: limits.addressCacheMs,
    }),
    http,
    nowMs: installation.clock.nowMs,
    url: telemetry.tracesUrl,
    headers: telemetry.headers,
    compression: telemetry.compression,
    timeoutMs: telemetry.timeoutMs,
    userAgent: `model-gateway/${VERSION}`,
  });
  const exporter = new SpanExporter({
    client,
    // Called late: the port, which is part of the instance, is known once the server listens.
    frame: () =>
      buildFrame({
        serviceName: telemetry.serviceName,
        instanceId: address.node,
        attributes: telemetry.resource,
      }),
    log,
    limits: limits.telemetry,
  });
  closers.add(() => exporter.close());
  return new Tracer({ ...telemetry, exporter, randomBytes: installation.randomBytes });
}
