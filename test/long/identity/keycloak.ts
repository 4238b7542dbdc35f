/**
 * Keycloak, started from its distribution in Maven Central, and three nodes on one PostgreSQL database: each browser
 * starts its sign-in on one node and returns to another.
 */

import { expect } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";
import { startPostgres } from "../../support/postgres.ts";
import { readProcessResult } from "../../support/process-result.ts";
import { ProviderBrowser } from "../../support/provider-browser.ts";
import { type RunningGateway, startTestGateway } from "../../support/running-gateway.ts";

const VERSION = "26.0.7";
const ARTIFACT = `org.keycloak:keycloak-quarkus-dist:${VERSION}:zip`;
const SECRET = "a-secret-of-the-gateway-at-keycloak";
const PASSWORD = "a-password-of-a-person";
const NODES = 3;
const READY_WITHIN_MS = 900_000;

export async function keycloakSignsIn({ say }: { say(text: string): void }): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-keycloak-"));
  const stops: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })];
  try {
    const ports = Array.from({ length: NODES }, () => freePort());
    const publicUrl = `http://127.0.0.1:${ports[0]}`;
    const keycloak = await startKeycloak(folder, `${publicUrl}/console/sign-in/callback`);
    stops.push(keycloak.stop);
    say(`Keycloak ${VERSION} is ready`);
    const postgres = await startPostgres();
    stops.push(postgres.stop);
    const environment = {
      MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
      PUBLIC_URL: publicUrl,
    };
    const nodes: RunningGateway[] = [];
    for (const port of ports) {
      const file = nodes.length === 0 ? {} : { file: "models: []" };
      const node = await startTestGateway({ databaseUrl: postgres.url, environment, port, ...file });
      stops.push(node.stop);
      nodes.push(node);
    }
    await nodes[0]?.apply(gatewayFile(keycloak.issuer));
    await signInEverywhere(nodes, publicUrl);
    return `${NODES} people signed in at Keycloak ${VERSION}, each from one of ${NODES} nodes to the next; the role and groups follow its claims`;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

const gatewayFile = (issuer: string) => `
groups:
  - { name: engineering, access: members, models: [fast-chat], accounts: [sim] }
sign_in:
  providers:
    - name: corp
      issuer: ${issuer}
      client_id: model-gateway
      client_secret: ${SECRET}
      private_network: true
      require_group: [llm-users]
      roles: { auditor: [finance] }
      groups: { engineering: [eng-all] }
`;

async function signInEverywhere(nodes: readonly RunningGateway[], publicUrl: string): Promise<void> {
  for (const [i, start] of nodes.entries()) {
    const next = nodes[(i + 1) % nodes.length] ?? start;
    const leaving = new ProviderBrowser(start, publicUrl);
    const callback = await visitKeycloak(await leaving.start("corp"), `person-${i}`);
    const returned = new ProviderBrowser(next, publicUrl);
    for (const [name, value] of leaving.cookies) returned.cookies.set(name, value);
    const user = { email: `person-${i}@example.com`, role: i === 0 ? "auditor" : "user", provider: "corp" };
    expect(await returned.finish(callback)).toMatchObject({ status: 200, body: { user } });
    const { body } = await returned.post("/api/keys", { name: "tool", group: "engineering" });
    for (const node of nodes) {
      await eventually(async () => {
        const headers = { authorization: `Bearer ${body.secret}` };
        const messages = [{ role: "user", content: "Hello" }];
        const response = await node.call(
          "/v1/chat/completions",
          { model: "fast-chat", messages },
          { headers },
        );
        await response.text();
        return response.status === 200;
      });
    }
    // The browser that left still has its cookie: the response of the provider works once, on any node.
    expect(await leaving.finish(callback)).toMatchObject({ status: 400, code: "sign_in_expired" });
  }
  const [first] = nodes;
  if (first === undefined) throw new Error("There is no node.");
  const outsider = new ProviderBrowser(first, publicUrl);
  const callback = await visitKeycloak(await outsider.start("corp"), "outsider");
  expect(await outsider.finish(callback)).toMatchObject({ status: 403, code: "not_assigned" });
}

/** Fills in the form of Keycloak, and returns the address to which it sends the browser back. */
async function visitKeycloak(url: string, username: string): Promise<URL> {
  const page = await fetch(url, { redirect: "manual" });
  const cookie = page.headers
    .getSetCookie()
    .map((line) => line.split(";", 1)[0])
    .join("; ");
  const action = /action="([^"]+)"/.exec(await page.text())?.[1]?.replaceAll("&amp;", "&");
  if (action === undefined) throw new Error(`Keycloak returned ${page.status} without a form.`);
  const sent = await fetch(action, {
    method: "POST",
    redirect: "manual",
    headers: { cookie, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ username, password: PASSWORD }).toString(),
  });
  const location = sent.headers.get("location");
  if (location === null) throw new Error(`Keycloak rejected ${username}: ${sent.status}`);
  return new URL(location);
}

interface Keycloak {
  readonly issuer: string;
  stop(): Promise<unknown>;
}

async function startKeycloak(folder: string, redirectUri: string): Promise<Keycloak> {
  await run(["mvn", "-q", "-B", "dependency:copy", `-Dartifact=${ARTIFACT}`, `-DoutputDirectory=${folder}`]);
  await run(["unzip", "-q", join(folder, `keycloak-quarkus-dist-${VERSION}.zip`), "-d", folder]);
  const home = join(folder, `keycloak-${VERSION}`);
  mkdirSync(join(home, "data/import"), { recursive: true });
  writeFileSync(join(home, "data/import/corp.json"), JSON.stringify(describeRealm(redirectUri)));
  const program = join(home, "bin/kc.sh");
  chmodSync(program, 0o755);
  const port = freePort();
  const options = ["--http-host=127.0.0.1", `--http-port=${port}`, "--cache=local", "--import-realm"];
  const log = Bun.file(join(folder, "keycloak.log"));
  const child = Bun.spawn([program, "start-dev", ...options], {
    env: { PATH: process.env.PATH ?? "", JAVA_OPTS_KC_HEAP: "-Xms64m -Xmx512m" },
    stdout: log,
    stderr: log,
  });
  const issuer = `http://127.0.0.1:${port}/realms/corp`;
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`Keycloak ended: ${await log.text()}`);
    const response = await fetch(`${issuer}/.well-known/openid-configuration`).catch(() => null);
    await response?.text();
    return response?.ok;
  }, READY_WITHIN_MS);
  return {
    issuer,
    async stop() {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

function describeRealm(redirectUri: string): unknown {
  const groups = ["llm-users", "eng-all", "finance"];
  const person = (username: string, of: readonly string[]) => ({
    username,
    email: `${username}@example.com`,
    emailVerified: true,
    firstName: "A",
    lastName: "Person",
    enabled: true,
    groups: of.map((group) => `/${group}`),
    credentials: [{ type: "password", value: PASSWORD, temporary: false }],
  });
  const mapper = {
    name: "groups",
    protocol: "openid-connect",
    protocolMapper: "oidc-group-membership-mapper",
    config: { "full.path": "false", "id.token.claim": "true", "claim.name": "groups" },
  };
  return {
    realm: "corp",
    enabled: true,
    sslRequired: "none",
    groups: groups.map((name) => ({ name })),
    clients: [
      {
        clientId: "model-gateway",
        protocol: "openid-connect",
        publicClient: false,
        secret: SECRET,
        standardFlowEnabled: true,
        redirectUris: [redirectUri],
        protocolMappers: [mapper],
      },
    ],
    users: [
      person("person-0", groups),
      person("person-1", ["llm-users", "eng-all"]),
      person("person-2", ["llm-users", "eng-all"]),
      person("outsider", ["eng-all"]),
    ],
  };
}

async function run(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], { stdout: "pipe", stderr: "pipe" });
  const { code, out, err } = await readProcessResult(child);
  if (code !== 0) throw new Error(`${command.join(" ")}: ${out}${err}`);
}
