/**
 * Pushes of a directory at their bounds, for groups with as many members as a group may have: none holds the event loop.
 * SQLite runs on the thread that calls it.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { readSettings } from "../../src/config/installation/environment.ts";
import { type Installation, openPresent } from "../../src/config/installation/installation.ts";
import { limits } from "../../src/config/limits/product-limits.ts";
import { createServiceClient } from "../support/console-client.ts";
import { gatewayFile } from "../support/running-gateway.ts";
import { type ScimReply, sendScim } from "../support/scim-client.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(180_000);

const ISSUER = "https://login.example.com";
const { membersMax, operationsMax, emailsMax, pageMax } = limits.scim;
const PEOPLE = membersMax;
/** One body has no room for more: each member is two JSON values. */
const PUSHED = limits.apiBulkValuesMax / 2 - 100;

let target: AttackTarget;
let installation: Installation;
let push: ReturnType<typeof sendScim>;

beforeAll(async () => {
  const file = `${gatewayFile({})}
sign_in: { providers: [{ name: corp, issuer: "${ISSUER}", client_id: gateway }] }
scim: { provider: corp, adopt_domains: [example.com] }
`;
  target = await startAttackTarget({ file });
  const settings = readSettings({ flags: { data: join(target.folder, "data") }, environment: {} });
  if (!settings.ok) throw new Error(settings.problems.join("\n"));
  installation = await openPresent(settings.settings, {});
  const { secret } = await createServiceClient({ url: target.url, installation }, "directory", ["scim"]);
  push = sendScim(target.url, secret);
  for (const statement of FILL) await installation.db.sql.script(statement);
  // The first pushes compile the code.
  for (let run = 0; run < 5; run++) {
    const { body } = await push("POST", "/Groups", { displayName: `warm ${run}`, members: members(0, 300) });
    await push("PATCH", `/Groups/${body.id}`, patch("remove", members(0, 200)));
    await push("GET", "/Users?count=50");
    await push("DELETE", `/Groups/${body.id}`);
  }
});
afterAll(async () => {
  await installation?.db.close();
  await target?.stop();
});

const NUMBERS = `WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${PEOPLE - 1})`;
const PROFILE = JSON.stringify({
  displayName: "A Person",
  name: { formatted: "A Person", familyName: "Person", givenName: "A" },
  emails: Array.from({ length: emailsMax }, (_, at) => ({
    value: `person.${at}@example.com`,
    type: "work",
    primary: at === 0,
  })),
});
const FILL = [
  `INSERT INTO app_user (id, email, email_folded, role, created_at_ms) ${NUMBERS}
   SELECT 'user_' || n, 'person.' || n || '@example.com', 'person.' || n || '@example.com', 'user', n FROM numbers`,
  `INSERT INTO scim_user (user_id, issuer, external_id, user_name, user_name_folded, display_name_folded, profile,
     is_active, local_status, is_suspended, version, created_at_ms, changed_at_ms) ${NUMBERS}
   SELECT 'user_' || n, '${ISSUER}', 'external ' || n, 'person.' || n, 'person.' || n, 'a person', '${PROFILE}',
     1, 'active', 0, 1, n, n FROM numbers`,
  "ANALYZE",
];

const members = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => ({ value: `user_${from + at}` }));
const patch = (op: string, value: unknown, path = "members") => ({ Operations: [{ op, path, value }] });
const repeat = (operation: (at: number) => object) => ({
  Operations: Array.from({ length: operationsMax }, (_, at) => operation(at)),
});

async function attack(
  name: string,
  method: string,
  path: string,
  body?: object,
): Promise<Pick<ScimReply, "status" | "body">> {
  let reply: Pick<ScimReply, "status" | "body"> = { status: 0, body: null };
  await measureAttack(name, target, {
    bytes: path.length + JSON.stringify(body ?? "").length,
    async run() {
      reply = await push(method, path, body);
    },
  });
  return reply;
}

test("a group of the most members is created, read, changed, replaced and deleted", async () => {
  const whole = { displayName: "everybody", members: members(0, PUSHED) };
  const created = await attack("a group of 12,188 members", "POST", "/Groups", whole);
  expect([created.status, created.body.members?.length]).toEqual([201, PUSHED]);
  const path = `/Groups/${created.body.id}`;
  const rest = members(PUSHED, membersMax);
  expect((await attack("adding 7,812", "PATCH", path, patch("add", rest))).status).toBe(204);
  expect((await attack("reading 20,000", "GET", path)).body.members).toHaveLength(membersMax);
  expect((await attack("listing them", "GET", "/Groups")).status).toBe(200);
  const half = members(0, membersMax / 2);
  expect((await attack("removing half of it", "PATCH", path, patch("remove", half))).status).toBe(204);
  expect((await attack("adding it again", "PATCH", path, patch("add", half))).status).toBe(204);
  const one = repeat((at) => ({ op: "remove", path: `members[value eq "user_${at}"]` }));
  expect((await attack("removing 1,000 one by one", "PATCH", path, one)).status).toBe(204);
  expect((await attack("renaming it", "PATCH", path, patch("replace", "all", "displayName"))).status).toBe(
    204,
  );
  expect((await attack("replacing it", "PUT", path, whole)).status).toBe(200);
  expect((await attack("deleting it", "DELETE", path)).status).toBe(204);
});

test("members who are no people of the directory are found out", async () => {
  const { status, body } = await attack("a group of 12,188 unknown members", "POST", "/Groups", {
    displayName: "nobody",
    members: members(membersMax, membersMax + PUSHED),
  });
  expect([status, body.detail]).toEqual([400, expect.stringContaining("no person with the id user_20000")]);
});

test("pages of people, searches and changes of a person", async () => {
  const page = await attack("the longest page of people", "GET", `/Users?count=${pageMax}&startIndex=19000`);
  expect(page.body.Resources).toHaveLength(pageMax);
  for (const filter of [
    'displayName eq "a person"',
    'emails.value eq "nobody@example.com"',
    "active eq true",
  ]) {
    const path = `/Users?filter=${encodeURIComponent(filter)}`;
    expect((await attack(`people with ${filter}`, "GET", path)).status).toBe(200);
  }
  const address = repeat((at) => ({
    op: "replace",
    path: `emails[type eq "t${at % emailsMax}"].value`,
    value: `a${at}@example.com`,
  }));
  const { status } = await attack("1,000 changes of a person", "PATCH", "/Users/user_5", address);
  expect([200, 400]).toContain(status);
});
