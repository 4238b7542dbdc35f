/**
 * The chart: its generated files, and what it renders. The templates need Helm on the PATH; where it is not packaged,
 * `go install helm.sh/helm/v4/cmd/helm@latest` builds it. Messages of Helm itself are not compared: they differ between
 * its versions.
 */

import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { parseAllDocuments } from "yaml";
import manifest from "../../package.json" with { type: "json" };
import { findFile, readTar } from "../archive/tar.ts";
import { ROOT } from "../source.ts";
import { buildGeneratedFiles, CHART } from "./files.ts";
import { renderManifests } from "./manifests.ts";
import { buildChart } from "./package.ts";
import { chartValues } from "./values.ts";

test.each(Object.entries(buildGeneratedFiles()))("%s is up to date (npm run docs:chart)", (path, content) => {
  expect(readFileSync(join(ROOT, path), "utf8")).toBe(content);
});

test("the values have the schema of gateway.yaml, and unknown fields are rejected", () => {
  const schema = JSON.parse(buildGeneratedFiles()[`${CHART}/values.schema.json`] ?? "");
  expect(schema.additionalProperties).toBe(false);
  expect(schema.properties.config.properties.server.properties.public_url.description).toContain(
    "public address",
  );
  expect(chartValues.safeParse({ replicaCount: 2 }).success).toBe(false);
  expect(chartValues.parse({})).toMatchObject({ replicas: 1, persistence: { enabled: true } });
});

test("every value that a template uses is declared", () => {
  const templates = [...new Bun.Glob("*").scanSync(join(ROOT, CHART, "templates"))];
  const used = templates.flatMap((name) =>
    [...readFileSync(join(ROOT, CHART, "templates", name), "utf8").matchAll(/\.Values((?:\.\w+)+)/g)].map(
      ([, path = ""]) => path.slice(1).split("."),
    ),
  );
  expect(used.length).toBeGreaterThan(40);
  const defaults: unknown = chartValues.parse({});
  const isDeclared = (path: readonly string[]) =>
    path.reduce<unknown>(
      (value, key) => (isMap(value) && key in value ? value[key] : undefined),
      defaults,
    ) !== undefined;
  expect(used.filter((path) => !isDeclared(path)).map((path) => path.join("."))).toEqual([]);
});

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

test("the packed chart has the version of the release", () => {
  const source = { version: "1.2.3", description: "", timeSeconds: 0, commit: null };
  const chart = findFile(readTar(gunzipSync(buildChart(source))), "model-gateway/Chart.yaml");
  expect(Buffer.from(chart).toString()).toContain('version: 1.2.3\nappVersion: "1.2.3"\n');
});

/** The manifests are what Helm rendered, so they show most of the chart where Helm is not installed. */
describe("the plain manifests", () => {
  const read = (name: string) =>
    parseAllDocuments(readFileSync(join(ROOT, "deploy/kubernetes", name), "utf8")).map((document) =>
      document.toJS(),
    );
  const nodes = (name: string) => read(name).find(({ kind }) => kind === "StatefulSet")?.spec;

  test("one node has SQLite on a volume, and no rights", () => {
    const { replicas, template, volumeClaimTemplates } = nodes("one-node.yaml");
    expect(replicas).toBe(1);
    expect(volumeClaimTemplates).toHaveLength(1);
    expect(template.spec.securityContext.runAsNonRoot).toBe(true);
    expect(template.spec.containers[0].securityContext.readOnlyRootFilesystem).toBe(true);
    expect(template.spec.containers[0].image).toBe(`model-gateway:${manifest.version}`);
  });

  test("a NetworkPolicy admits connections to the port of the gateway only", () => {
    for (const name of ["one-node.yaml", "several-nodes.yaml"])
      expect(read(name).find(({ kind }) => kind === "NetworkPolicy")?.spec).toMatchObject({
        policyTypes: ["Ingress", "Egress"],
        ingress: [{ ports: [{ port: "http" }] }],
        egress: [{}],
      });
  });

  test("several nodes share a database and a master key", () => {
    const { replicas, template } = nodes("several-nodes.yaml");
    expect(replicas).toBe(3);
    const names = template.spec.containers[0].env.map(({ name }: { name: string }) => name);
    expect(names).toEqual(expect.arrayContaining(["DATABASE_URL", "MODEL_GATEWAY_MASTER_KEY"]));
  });
});

const helm = Bun.which("helm");

/** Kubernetes of today; Helm would assume the version that it was built for. */
function render(...values: string[]): { ok: boolean; text: string } {
  const flags = values.flatMap((value) => ["--set-json", value]);
  const command = [helm ?? "helm", "template", "gw", join(ROOT, CHART), "--kube-version", "1.30.0", ...flags];
  const { exitCode, stdout, stderr } = Bun.spawnSync(command);
  return { ok: exitCode === 0, text: (exitCode === 0 ? stdout : stderr).toString() };
}

const SHARED = ['database={"existingSecret":"pg"}', 'masterKey={"existingSecret":"mk"}'];

describe.skipIf(helm === null)("helm template (needs helm)", () => {
  test("the plain manifests are up to date (npm run docs:chart)", () => {
    // Versions of Helm differ in blank lines.
    const parse = (text: string) => parseAllDocuments(text).map((document) => document.toJS());
    for (const [path, content] of Object.entries(renderManifests(helm ?? "")))
      expect({ path, objects: parse(readFileSync(join(ROOT, path), "utf8")) }).toEqual({
        path,
        objects: parse(content),
      });
  });

  const objects = (...values: string[]) =>
    parseAllDocuments(render(...values).text)
      .map((document) => document.toJS())
      .filter((one) => one !== null);
  const find = (kind: string, ...values: string[]) => objects(...values).find((one) => one.kind === kind);

  test("one node with SQLite is a StatefulSet with a volume", () => {
    const { spec } = find("StatefulSet");
    expect(spec.replicas).toBe(1);
    expect(spec.volumeClaimTemplates[0].spec.resources.requests.storage).toBe("5Gi");
    expect(find("PodDisruptionBudget")).toBeUndefined();
  });

  test.each([
    ["more than one node with SQLite", ["replicas=2"], "needs PostgreSQL"],
    ["autoscaling with SQLite", ['autoscaling={"enabled":true}'], "needs PostgreSQL"],
    ["more than one node without a master key", ["replicas=2", ...SHARED.slice(0, 1)], "common master key"],
    ["SQLite without a volume", ['persistence={"enabled":false}'], "would be lost"],
    ["metrics without a token", ['serviceMonitor={"enabled":true}'], "token of an administrator"],
    ["a misspelt field of gateway.yaml", ['config={"servr":{}}'], "servr"],
    ["a misspelt value", ["replicaCount=2"], "replicaCount"],
  ] as const)("%s is rejected", (_, values, message) => {
    const { ok, text } = render(...values);
    expect(ok).toBe(false);
    expect(text).toContain(message);
  });

  test("nodes on PostgreSQL share database and master key, and at most one is disrupted at a time", () => {
    const { spec } = find("StatefulSet", "replicas=3", ...SHARED);
    expect(spec.replicas).toBe(3);
    const names = spec.template.spec.containers[0].env.map(({ name }: { name: string }) => name);
    expect(names).toEqual(["MODEL_GATEWAY_DATA", "DATABASE_URL", "MODEL_GATEWAY_MASTER_KEY"]);
    expect(find("PodDisruptionBudget", "replicas=3", ...SHARED).spec.maxUnavailable).toBe(1);
  });

  test("pods run without rights, on a read-only root, and have time to finish requests", () => {
    const { template } = find("StatefulSet").spec;
    expect(template.spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 65_532 });
    expect(template.spec.terminationGracePeriodSeconds).toBe(150);
    expect(template.spec.containers[0].securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  });

  test("gateway.yaml is a ConfigMap whose change restarts the pods", () => {
    const values = ['config={"server":{"public_url":"https://gw.example"}}'];
    expect(find("ConfigMap", ...values).data["gateway.yaml"]).toContain("public_url: https://gw.example");
    const sum = (...set: string[]) =>
      find("StatefulSet", ...set).spec.template.metadata.annotations["checksum/config"];
    expect(sum(...values)).not.toBe(sum());
  });

  test("everything at once renders, each object with a name", () => {
    const all = objects(
      "replicas=2",
      ...SHARED,
      'persistence={"enabled":false}',
      'ingress={"enabled":true,"host":"gw.example","tlsSecret":"tls","className":"nginx"}',
      'httpRoute={"enabled":true,"parentRefs":[{"name":"edge"}],"hostnames":["gw.example"]}',
      'serviceMonitor={"enabled":true,"token":{"existingSecret":"t"}}',
      'networkPolicy={"enabled":true}',
      'autoscaling={"enabled":true}',
      'secretFiles="files"',
      'environment={"secrets":["keys"],"variables":{"PUBLIC_URL":"https://gw.example"}}',
      'config={"models":[{"id":"m","interfaces":["chat"]}]}',
    );
    expect(all.map(({ kind }) => kind).toSorted()).toEqual([
      "ConfigMap",
      "Deployment",
      "HTTPRoute",
      "HorizontalPodAutoscaler",
      "Ingress",
      "NetworkPolicy",
      "PodDisruptionBudget",
      "Service",
      "ServiceMonitor",
    ]);
    for (const { metadata } of all) expect(metadata.name).toBe("gw");
  });
});
