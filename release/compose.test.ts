/** The compose file is consistent: what a service names exists, and the gateways are confined and apart. */

import { expect, test } from "bun:test";
import { parse } from "yaml";
import { z } from "zod";
import manifest from "../package.json" with { type: "json" };
import { readText } from "./source.ts";

const service = z.looseObject({
  image: z.string(),
  volumes: z.array(z.string()).default([]),
  configs: z.array(z.object({ source: z.string(), target: z.string() })).default([]),
  secrets: z.array(z.string()).default([]),
  depends_on: z.union([z.array(z.string()), z.record(z.string(), z.unknown())]).default([]),
});
const named = z.record(z.string(), z.unknown());
const file = z
  .looseObject({
    services: z.record(z.string(), service),
    volumes: named,
    configs: z.record(z.string(), z.object({ content: z.string() })),
    secrets: named,
  })
  .parse(parse(readText("deploy/compose.yaml"), { merge: true }));

test("every volume, config, secret and dependency of a service is declared", () => {
  for (const { volumes, configs, secrets, depends_on } of Object.values(file.services)) {
    for (const volume of volumes) {
      const [source = ""] = volume.split(":");
      if (!source.startsWith("./")) expect(Object.keys(file.volumes)).toContain(source);
    }
    for (const { source } of configs) expect(Object.keys(file.configs)).toContain(source);
    for (const secret of secrets) expect(Object.keys(file.secrets)).toContain(secret);
    const needed = Array.isArray(depends_on) ? depends_on : Object.keys(depends_on);
    for (const name of needed) expect(Object.keys(file.services)).toContain(name);
  }
});

test("two gateways of this version share a database, have a data folder each, and a read-only root", () => {
  const gateways = Object.entries(file.services).filter(([name]) => name.startsWith("gateway-"));
  expect(gateways).toHaveLength(2);
  for (const [name, gateway] of gateways) {
    expect(gateway.image).toContain(`model-gateway:${manifest.version}}`);
    expect(gateway.volumes).toEqual([`${name}:/data`]);
    expect(gateway).toMatchObject({ read_only: true, cap_drop: ["ALL"], stop_grace_period: "150s" });
    expect(file.configs.nginx?.content).toContain(`server ${name}:8787`);
    expect(file.configs.prometheus?.content).toContain(`${name}:8787`);
  }
});

test("no service has a default password", () => {
  const text = readText("deploy/compose.yaml");
  const passwords = [...text.matchAll(/\$\{(\w*(?:PASSWORD|KEY|TOKEN|SECRET)\w*)([^}]*)\}/g)];
  expect(new Set(passwords.map(([, name]) => name))).toEqual(
    new Set(["POSTGRES_PASSWORD", "VALKEY_PASSWORD", "MASTER_KEY"]),
  );
  // Compose ends with this message if the variable is not set.
  for (const [, name, rule] of passwords) expect(rule).toBe(`:?Set ${name} in .env`);
  expect(file.services.valkey?.command).toContain("--requirepass");
  expect(file.services.grafana).toMatchObject({
    environment: { GF_SECURITY_ADMIN_PASSWORD__FILE: "/run/secrets/grafana-password" },
    secrets: ["grafana-password"],
  });
});

test("variables of nginx are escaped, because compose replaces its own", () => {
  expect(file.configs.nginx?.content.replaceAll("$$", "")).not.toContain("$");
});

test("the configuration of Prometheus and Grafana is YAML", () => {
  for (const name of ["prometheus", "grafana-datasource", "grafana-dashboards"])
    expect(parse(file.configs[name]?.content ?? "")).toBeObject();
});
