import { describe, expect, test } from "bun:test";
import { telemetry } from "../schema/telemetry.ts";
import { readTelemetrySettings } from "./telemetry-settings.ts";

const FILE = telemetry.parse({ endpoint: "http://collector:4318/", sample: 0.25, headers: { a: "1" } });
const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318" };

function read(environment: Record<string, string>, file: typeof FILE | undefined = undefined) {
  const problems: string[] = [];
  return { settings: readTelemetrySettings(environment, file, problems), problems };
}

test("without an endpoint nothing is exported", () => {
  expect(read({}).settings).toBeNull();
  expect(read({}, telemetry.parse({ sample: 1 })).settings).toBeNull();
});

test("the endpoint of the file is the base of the URL", () => {
  expect(read({}, FILE).settings).toMatchObject({
    tracesUrl: "http://collector:4318/v1/traces",
    sampleRatio: 0.25,
    compression: "gzip",
    serviceName: "model-gateway",
    clientContext: "follow",
  });
});

describe("the standard variables", () => {
  test("override the file, and those for traces override the general ones", () => {
    const { settings, problems } = read(
      {
        ...ENDPOINT,
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://otlp.example.com/custom",
        OTEL_EXPORTER_OTLP_HEADERS: "a=2,authorization=Basic%20abc",
        OTEL_EXPORTER_OTLP_TIMEOUT: "2500",
        OTEL_EXPORTER_OTLP_COMPRESSION: "none",
        OTEL_SERVICE_NAME: "edge",
        OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=prod,team=ai",
        OTEL_TRACES_SAMPLER: "traceidratio",
        OTEL_TRACES_SAMPLER_ARG: "0.5",
      },
      FILE,
    );
    expect(problems).toEqual([]);
    expect(settings).toMatchObject({
      tracesUrl: "https://otlp.example.com/custom",
      headers: { a: "2", authorization: "Basic abc" },
      timeoutMs: 2_500,
      compression: "none",
      serviceName: "edge",
      resource: { "deployment.environment.name": "prod", team: "ai" },
      sampleRatio: 0.5,
      clientContext: "continue",
    });
  });

  test.each([
    ["always_on", { sampleRatio: 1, clientContext: "continue" }],
    ["parentbased_always_on", { sampleRatio: 1, clientContext: "follow" }],
    ["parentbased_always_off", { sampleRatio: 0, clientContext: "follow" }],
  ])("the sampler %s", (sampler, expected) => {
    expect(read({ ...ENDPOINT, OTEL_TRACES_SAMPLER: sampler }).settings).toMatchObject(expected);
  });

  test.each([
    { OTEL_SDK_DISABLED: "true" },
    { OTEL_TRACES_EXPORTER: "none" },
    { OTEL_TRACES_SAMPLER: "always_off" },
  ])("disable the export: %o", (variables) => {
    expect(read({ ...ENDPOINT, ...variables }, FILE)).toEqual({ settings: null, problems: [] });
  });

  test.each([
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "no-pair"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0ac"],
    ["OTEL_EXPORTER_OTLP_TIMEOUT", "soon"],
    ["OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"],
    ["OTEL_TRACES_SAMPLER", "sometimes"],
    ["OTEL_RESOURCE_ATTRIBUTES", "%zz=1"],
  ])("are rejected by name, without their value: %s", (name, value) => {
    const { problems } = read({ ...ENDPOINT, [name]: value });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toStartWith(`${name} must be `);
    expect(problems[0]).not.toContain(value);
  });
});
