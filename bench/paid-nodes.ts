/** Installations with paid requests: one node on SQLite, or several on one PostgreSQL database. */

import { randomBytes } from "node:crypto";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { uuidV7 } from "../src/base/clock.ts";
import { mintAccessToken } from "../src/secrets/random-secret.ts";
import { openDb } from "../src/store/engine/db.ts";
import { insertAccessToken } from "../src/store/identity/access-tokens.ts";
import { findUserByEmail } from "../src/store/identity/users.ts";
import { type AddressedService, startPostgres, startRedis } from "./cluster-services.ts";
import { buildUpstreamAccount, dataFolder, type GatewayProcess, startConfigured } from "./gateway-process.ts";
import { processTree } from "./measure.ts";
import { PUBLIC_MODEL } from "./request-bodies.ts";
import type { BenchHost } from "./single-measures.ts";

/** Every user pays, and has one key of each kind. */
export const SUBJECT_COUNT = 50;
/** `limited`: limits that are never reached. `tight`: see `TIGHT_RPM`. `unlimited`: no limits. */
export const KEY_KINDS = ["limited", "unlimited", "tight"] as const;
export type KeyKind = (typeof KEY_KINDS)[number];

/** At 20 requests a second a key uses 60 % of this. A node has a third of it, so it needs parts of the others. */
export const TIGHT_RPM = 2_000;

const ADMIN = "admin@example.com";
const KEY_LIMITS: Readonly<Record<KeyKind, string>> = {
  limited: "limits: { rpm: 1000000, tpm: 1000000000, concurrency: 1000 }, ",
  unlimited: "",
  tight: `limits: { rpm: ${TIGHT_RPM}, concurrency: 1000 }, `,
};
const MASTER_KEY = randomBytes(32).toString("base64");

export function listKeys(kind: KeyKind): string[] {
  return Array.from({ length: SUBJECT_COUNT }, (_, i) => `bench-${kind}-key-${String(i).padStart(32, "0")}`);
}

function buildConfiguration(upstreamPort: number): string {
  const emails = Array.from({ length: SUBJECT_COUNT }, (_, i) => `payer-${i}@example.com`);
  const keys = KEY_KINDS.flatMap((kind) =>
    listKeys(kind).map(
      (secret, i) =>
        `  - { name: ${kind}-${i}, user: ${emails[i]}, group: paying, ${KEY_LIMITS[kind]}secret: "${secret}" }`,
    ),
  );
  return `registration: closed
models:
  - { id: ${PUBLIC_MODEL}, interfaces: [chat], price: { input: "0.25", output: "1.00" } }
accounts:
${buildUpstreamAccount(upstreamPort, { name: "bench-upstream", interfaces: ["chat"], model: PUBLIC_MODEL })}
groups:
  - name: paying
    interfaces: [chat]
    models: [${PUBLIC_MODEL}]
    accounts: [bench-upstream]
    billing: { charge: balance }
users:
  - { email: ${ADMIN}, role: admin }
${emails.map((email) => `  - { email: ${email}, balance: "100000" }`).join("\n")}
keys:
${keys.join("\n")}
`;
}

export interface Installation {
  readonly name: "sqlite" | "postgres";
  readonly nodes: GatewayProcess[];
  /** Null if the database is part of the node. */
  readonly server: AddressedService | null;
  /** Null if limits are divided through PostgreSQL. */
  readonly redis: AddressedService | null;
  /** A token for `/metrics`. */
  readonly token: string;
}

export async function startSqlite(place: BenchHost, upstreamPort: number): Promise<Installation> {
  const node = await startNode(place, { name: "paid-sqlite", upstreamPort, env: {} });
  const token = await createToken(`sqlite:${join(dataFolder(place.stage, "paid-sqlite"), "gateway.db")}`);
  return { name: "sqlite", nodes: [node], server: null, redis: null, token };
}

export async function startCluster(
  place: BenchHost,
  options: { name: string; nodes: number; upstreamPort: number; coordinator: "postgres" | "redis" },
): Promise<Installation> {
  const { name, upstreamPort, coordinator } = options;
  const { stage, loadCore } = place;
  // PostgreSQL runs as another user, if this one is root.
  chmodSync(stage.dir, 0o711);
  const server = await startPostgres(join(stage.dir, `${name}-database`));
  stage.track(server.process);
  pinTree(server.process.pid, loadCore);
  const redis = coordinator === "redis" ? await startRedis(join(stage.dir, `${name}-redis`)) : null;
  if (redis !== null) {
    stage.track(redis.process);
    pinTree(redis.process.pid, loadCore);
  }
  const env = {
    DATABASE_URL: server.url,
    MODEL_GATEWAY_MASTER_KEY: MASTER_KEY,
    DRAIN_DELAY: "0s",
    ...(redis === null ? {} : { REDIS_URL: redis.url }),
  };
  const nodes: GatewayProcess[] = [];
  for (let i = 0; i < options.nodes; i++)
    nodes.push(await startNode(place, { name: `${name}-${i}`, upstreamPort, env }));
  return { name: "postgres", nodes, server, redis, token: await createToken(server.url) };
}

export async function stopInstallation({ nodes, server, redis }: Installation): Promise<void> {
  for (const node of nodes) await node.running.stop();
  await redis?.stop();
  await server?.stop();
}

function startNode(
  { stage, subjectCore }: BenchHost,
  { name, upstreamPort, env }: { name: string; upstreamPort: number; env: Record<string, string> },
): Promise<GatewayProcess> {
  return startConfigured(stage, { core: subjectCore, name, text: buildConfiguration(upstreamPort), env });
}

/** Processes that a server starts later inherit its core. */
function pinTree(pid: number, core: number | undefined): void {
  if (core === undefined) return;
  for (const one of processTree(pid)) Bun.spawnSync(["taskset", "-cp", String(core), String(one)]);
}

async function createToken(databaseUrl: string): Promise<string> {
  const db = await openDb(databaseUrl);
  try {
    const admin = await findUserByEmail(db, ADMIN);
    if (admin === null) throw new Error("the configuration file was not applied");
    const { secret, digest } = mintAccessToken(randomBytes);
    await insertAccessToken(
      db,
      {
        id: uuidV7("pat"),
        userId: admin.id,
        name: "bench",
        last4: secret.slice(-4),
        scope: "admin",
        createdAtMs: Date.now(),
        expiresAtMs: null,
        usedAtMs: null,
      },
      digest,
    );
    return secret;
  } finally {
    await db.close();
  }
}
