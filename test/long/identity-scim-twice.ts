/** A directory of 5,000 people and 200 groups is pushed twice, as after a reset of the synchronization at the provider. */

import type { Db } from "../../src/store/engine/db.ts";
import { startPostgres } from "../support/postgres.ts";
import { startTestGateway } from "../support/running-gateway.ts";
import { openScimClient, type ScimClient } from "../support/scim-client.ts";

const PEOPLE = 5_000;
const GROUPS = 200;
const AT_ONCE = 4;

export async function pushTwice(): Promise<string> {
  const postgres = await startPostgres();
  const figures = [await pushTo("SQLite"), await pushTo("PostgreSQL", postgres.url)];
  await postgres.stop();
  return figures.join("; ");
}

async function pushTo(name: string, databaseUrl?: string): Promise<string> {
  const gateway = await startTestGateway(databaseUrl === undefined ? {} : { databaseUrl });
  try {
    await gateway.apply(`
groups: [{ name: engineering, access: members, models: [fast-chat], accounts: [sim] }]
sign_in:
  providers:
    - name: corp
      issuer: https://login.example.com
      client_id: gateway
      require_group: [${listNames(0, GROUPS)}]
      groups: { engineering: [${listNames(0, GROUPS / 2)}] }
scim: { provider: corp }
`);
    const { db } = gateway.installation;
    const scim = await openScimClient(gateway);
    const first = await push(scim);
    const before = await describeState(db);
    const second = await push(scim);
    const after = await describeState(db);
    if (before.text !== after.text) throw new Error(`${name}: the second push changed the state`);
    if (before.members !== PEOPLE / 2) throw new Error(`${name}: ${before.members} people are in the group`);
    return `${name}: ${Math.round(first / 1000)} s, again ${Math.round(second / 1000)} s, the same state`;
  } finally {
    await gateway.stop();
  }
}

function listNames(start: number, end: number): string {
  return Array.from({ length: end - start }, (_, i) => `team-${start + i}`).join(", ");
}

/** As Okta does: it looks for each resource by its name, then creates or replaces it. */
async function push(scim: ScimClient): Promise<number> {
  const startedMs = performance.now();
  const ids = await forEachIndex(PEOPLE, (i) => {
    const userName = `person-${i}@example.com`;
    const emails = [{ value: userName, type: "work", primary: true }];
    return put(scim, "/Users", `userName eq "${userName}"`, {
      userName,
      externalId: `00u${i}`,
      emails,
      active: true,
    });
  });
  await forEachIndex(GROUPS, (i) => {
    const displayName = `team-${i}`;
    const members = ids.filter((_, person) => person % GROUPS === i).map((value) => ({ value }));
    return put(scim, "/Groups", `displayName eq "${displayName}"`, { displayName, members });
  });
  return performance.now() - startedMs;
}

async function put(scim: ScimClient, path: string, filter: string, body: object): Promise<string> {
  const found = await scim.send("GET", `${path}?filter=${encodeURIComponent(filter)}&startIndex=1&count=100`);
  const id = found.body.Resources[0]?.id;
  const reply = await (id === undefined
    ? scim.send("POST", path, body)
    : scim.send("PUT", `${path}/${id}`, { id, ...body }));
  if (reply.status > 201) throw new Error(`${reply.status} ${JSON.stringify(reply.body)}`);
  return reply.body.id;
}

async function forEachIndex(count: number, work: (i: number) => Promise<string>): Promise<string[]> {
  const results: string[] = [];
  let next = 0;
  const workers = Array.from({ length: AT_ONCE }, async () => {
    for (let i = next++; i < count; i = next++) results[i] = await work(i);
  });
  await Promise.all(workers);
  return results;
}

/** Everything that a push could change. Without the audit log's own time stamps, but with its length. */
async function describeState(db: Db): Promise<{ text: string; members: number }> {
  const tables = [
    await db.sql`SELECT user_id, external_id, user_name, is_active, is_suspended, version, changed_at_ms
      FROM scim_user ORDER BY user_id`,
    await db.sql`SELECT id, display_name, version FROM scim_group ORDER BY id`,
    await db.sql`SELECT group_id, user_id FROM scim_member ORDER BY group_id, user_id`,
    await db.sql`SELECT user_id, group_id, is_local FROM directory_group ORDER BY user_id, group_id`,
    await db.sql`SELECT id, email, status, role FROM app_user ORDER BY id`,
    await db.sql`SELECT user_id, subject, granted_role, suspended_at_ms FROM external_identity ORDER BY user_id`,
    await db.sql`SELECT seq FROM audit_head`,
  ];
  const granted = tables[3]?.length ?? 0;
  return { text: tables.map((rows) => JSON.stringify(rows)).join("\n"), members: granted };
}
