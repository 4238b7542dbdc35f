/** The values of the Helm chart: every field with its description and default, and the files generated from them. */

import { stringify } from "yaml";
import { z } from "zod";
import { limits } from "../../src/config/limits/product-limits.ts";
import { buildJsonSchema } from "../../src/config/reference/json-schema.ts";
import { buildOutline } from "../../src/config/reference/outline.ts";
import { gatewayFile } from "../../src/config/schema/schema.ts";

const name = z.string().regex(/^$|^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/);
const labels = z.record(z.string(), z.string()).default({});
/** Parts of a pod that Kubernetes itself describes and checks. */
const kubernetesMap = z.record(z.string(), z.unknown()).default({});
const kubernetesList = z.array(z.unknown()).default([]);

const section = (description: string, shape: z.core.$ZodLooseShape) =>
  z.strictObject(shape).prefault({}).describe(description);

const secretKey = (description: string, key: string) =>
  section(description, {
    existingSecret: name.default("").describe("Name of the Secret."),
    key: z.string().min(1).default(key).describe("Key in the Secret."),
  });

const image = section("The container image.", {
  repository: z.string().min(1).default("model-gateway").describe("Registry and name of the image."),
  tag: z.string().default("").describe("Tag; the version of the chart if empty."),
  pullPolicy: z.enum(["Always", "IfNotPresent", "Never"]).default("IfNotPresent").describe("When to pull."),
  pullSecrets: z.array(name).default([]).describe("Names of Secrets with the credentials of the registry."),
});

const persistence = section(
  "The data folder of each node. It holds SQLite, and with PostgreSQL the journal of charges that are not booked yet.",
  {
    enabled: z
      .boolean()
      .default(true)
      .describe(
        "Without a volume the data folder is lost with the pod. Only with PostgreSQL, and only if no group charges.",
      ),
    size: z.string().min(1).default("5Gi").describe("Size of the volume of each node."),
    storageClass: z
      .string()
      .default("")
      .describe("Storage class; the default class of the cluster if empty."),
  },
);

const service = section("The Service.", {
  type: z
    .enum(["ClusterIP", "NodePort", "LoadBalancer"])
    .default("ClusterIP")
    .describe("Type of the Service."),
  port: z.int().min(1).max(65_535).default(80).describe("Port of the Service."),
  annotations: labels.describe("Annotations of the Service."),
});

const ingress = section("An Ingress for clients outside the cluster.", {
  enabled: z.boolean().default(false).describe("Create the Ingress."),
  className: z.string().default("").describe("Class of the Ingress controller."),
  host: z
    .string()
    .default("")
    .describe("Host name of the gateway. Set config.server.public_url to the same."),
  tlsSecret: name.default("").describe("Name of the Secret with the certificate; no TLS if empty."),
  annotations: z
    .record(z.string(), z.string())
    .default({
      "nginx.ingress.kubernetes.io/proxy-buffering": "off",
      "nginx.ingress.kubernetes.io/proxy-request-buffering": "off",
      "nginx.ingress.kubernetes.io/proxy-read-timeout": "3600",
      "nginx.ingress.kubernetes.io/proxy-body-size": "0",
    })
    .describe("Annotations. The defaults let responses stream through ingress-nginx."),
});

const httpRoute = section("A route of the Gateway API, instead of an Ingress.", {
  enabled: z.boolean().default(false).describe("Create the HTTPRoute."),
  parentRefs: kubernetesList.describe("The Gateways that serve the route."),
  hostnames: z.array(z.string()).default([]).describe("Host names of the gateway."),
});

const serviceMonitor = section("Metrics for the Prometheus operator.", {
  enabled: z.boolean().default(false).describe("Create the ServiceMonitor."),
  interval: z.string().default("30s").describe("How often metrics are read."),
  labels: labels.describe("Labels by which Prometheus selects the ServiceMonitor."),
  token: secretKey("An administrator's personal access token with the scope read.", "token"),
});

const networkPolicy = section("A NetworkPolicy for the pods.", {
  enabled: z
    .boolean()
    .default(true)
    .describe("Create the NetworkPolicy: all egress, and ingress to the port of the gateway only."),
  from: kubernetesList.describe("Peers that may connect; all if empty."),
});

const autoscaling = section("Scales the number of nodes by their CPU. Needs PostgreSQL.", {
  enabled: z.boolean().default(false).describe("Create the HorizontalPodAutoscaler."),
  minReplicas: z.int().min(1).default(2).describe("Fewest nodes."),
  maxReplicas: z.int().min(1).default(6).describe("Most nodes."),
  targetCpu: z
    .int()
    .min(1)
    .max(100)
    .default(70)
    .describe("CPU use in percent of the request. One process uses one core at most."),
});

export const chartValues = z.strictObject({
  nameOverride: name.default("").describe("Name of the resources; that of the release if empty."),
  replicas: z.int().min(0).default(1).describe("Number of nodes. More than one needs PostgreSQL."),
  processes: z
    .union([z.literal("auto"), z.int().min(1).max(limits.processes.max)])
    .default(1)
    .describe(
      "Processes of each pod, or auto: one for each core of its CPU limit. More than one needs PostgreSQL.",
    ),
  sysctls: kubernetesList.describe(
    'Kernel settings of the pods. With several processes, net.ipv4.tcp_migrate_req: "1" keeps connections when one is replaced; the kubelet must allow it.',
  ),
  image,
  config: kubernetesMap.describe(
    `gateway.yaml, applied at each start. \`\${NAME}\` is a variable of \`environment\`, \`\${file:NAME}\` a key of \`secretFiles\`.`,
  ),
  database: secretKey(
    "PostgreSQL: a Secret with its address, postgres://user:password@host/database. SQLite if no Secret is named.",
    "url",
  ),
  masterKey: secretKey(
    "The key that seals stored credentials. Required for more than one node; otherwise it is in the data folder.",
    "master-key",
  ),
  environment: section("Variables of the process.", {
    secrets: z.array(name).default([]).describe("Names of Secrets whose keys become variables."),
    variables: labels.describe("Variables that are no secrets."),
  }),
  secretFiles: name.default("").describe(`Name of a Secret whose keys become files for \`\${file:NAME}\`.`),
  persistence,
  service,
  ingress,
  httpRoute,
  serviceMonitor,
  networkPolicy,
  autoscaling,
  resources: z
    .record(z.string(), z.unknown())
    .default({ requests: { cpu: "500m", memory: "256Mi" }, limits: { memory: "1Gi" } })
    .describe("Requests and limits. No CPU limit: throttling delays every stream."),
  podAnnotations: labels.describe("Annotations of the pods."),
  podLabels: labels.describe("Labels of the pods."),
  nodeSelector: labels.describe("Labels of the machines."),
  tolerations: kubernetesList.describe("Tolerations of the pods."),
  affinity: kubernetesMap.describe("Affinity of the pods."),
  priorityClassName: z.string().default("").describe("Priority class of the pods."),
  serviceAccountName: name
    .default("")
    .describe("Service account; the default one if empty. No token is mounted."),
});

/** The schema that Helm checks values against. `config` has the schema of gateway.yaml. */
export function buildValuesSchema(): string {
  const { $schema, ...gateway } = buildJsonSchema(buildOutline(gatewayFile));
  const { properties = {}, ...schema } = z.toJSONSchema(chartValues, { target: "draft-7", io: "input" });
  const { config } = properties;
  const description = typeof config === "object" ? config.description : undefined;
  // Parent charts pass global values to each of their charts.
  const all = {
    ...properties,
    config: { ...gateway, title: undefined, description },
    global: { type: "object" },
  };
  return `${JSON.stringify({ ...schema, $schema, title: "Values of the chart model-gateway", properties: all }, null, 2)}\n`;
}

/** values.yaml: the defaults, each below its description. */
export function buildDefaultValues(): string {
  const head =
    "# Generated from release/chart/values.ts by npm run docs:chart. Every field, with its default.\n";
  return head + printFields(chartValues, chartValues.parse({}), "");
}

function printFields(schema: z.ZodObject, values: Readonly<Record<string, unknown>>, indent: string): string {
  return Object.entries(schema.shape)
    .map(([field, type]) => {
      const inner = unwrap(type);
      const value = values[field];
      const comment = `${indent}# ${z.globalRegistry.get(type as z.ZodType)?.description ?? ""}\n`;
      const blank = indent === "" ? "\n" : "";
      if (inner instanceof z.ZodObject)
        return `${blank}${comment}${indent}${field}:\n${printFields(inner, value as Record<string, unknown>, `${indent}  `)}`;
      // Helm reads YAML 1.1, in which `off` is a boolean unless it is quoted.
      const text = stringify({ [field]: value }, { lineWidth: 0, version: "1.1" });
      return blank + comment + text.replaceAll(/^(?=.)/gm, indent);
    })
    .join("");
}

function unwrap(type: z.core.$ZodType): z.core.$ZodType {
  return type instanceof z.ZodDefault || type instanceof z.ZodPrefault ? unwrap(type.unwrap()) : type;
}
