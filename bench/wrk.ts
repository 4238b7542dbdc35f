/** Driving wrk: a generated script in, numbers out. */

import { join } from "node:path";
import type { ProcessGroup } from "./processes.ts";

export interface WrkRun {
  url: string;
  body: string;
  key: string;
  connections: number;
  durationMs: number;
}

export interface WrkResult {
  requests: number;
  durationMs: number;
  latencyMs: { p50: number; p90: number; p99: number; max: number };
}

interface Printed {
  requests: number;
  durationMicros: number;
  errors: Record<string, number>;
  latencyMicros: { p50: number; p90: number; p99: number; max: number };
}

function script(bodyFile: string, key: string): string {
  return `
local file = assert(io.open(${JSON.stringify(bodyFile)}, "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = "Bearer ${key}"
file:close()

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '\\nRESULT {"requests":%d,"durationMicros":%d,' ..
    '"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d},' ..
    '"latencyMicros":{"p50":%.1f,"p90":%.1f,"p99":%.1f,"max":%.1f}}\\n',
    summary.requests, summary.duration, e.connect, e.read, e.write, e.status, e.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
`;
}

export interface Wrk {
  run(options: WrkRun): Promise<WrkResult>;
}

export function openWrk(path: string, stage: ProcessGroup, core: number | undefined): Wrk {
  return {
    async run({ url, body, key, connections, durationMs }) {
      const bodyFile = join(stage.dir, "wrk-body.json");
      const scriptFile = join(stage.dir, "wrk.lua");
      await Bun.write(bodyFile, body);
      await Bun.write(scriptFile, script(bodyFile, key));
      // wrk takes whole seconds only, so it is interrupted, upon which it still prints its summary.
      const seconds = Math.ceil(durationMs / 1_000) + 2;
      const flags = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "30s", "-s", scriptFile];
      const command = [path, ...flags, url];
      const printed = await stage.runToEnd({ name: "wrk", command, core, interruptAfterMs: durationMs });
      return result(printed, url);
    },
  };
}

function result(printed: string, url: string): WrkResult {
  const json = /^RESULT (.*)$/m.exec(printed)?.[1];
  if (json === undefined) throw new Error(`wrk gave no result for ${url}:\n${printed}`);
  const { requests, durationMicros, errors, latencyMicros }: Printed = JSON.parse(json);
  // A fast error is still an error: numbers that hold any are worth nothing.
  const failures = Object.entries(errors).filter(([, count]) => count > 0);
  if (failures.length > 0) {
    const list = failures.map(([kind, count]) => `${count} ${kind}`).join(", ");
    throw new Error(`${url} gave errors (${list}) beside ${requests} answers`);
  }
  return {
    requests,
    durationMs: durationMicros / 1_000,
    latencyMs: {
      p50: latencyMicros.p50 / 1_000,
      p90: latencyMicros.p90 / 1_000,
      p99: latencyMicros.p99 / 1_000,
      max: latencyMicros.max / 1_000,
    },
  };
}
