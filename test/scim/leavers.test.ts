/** People join, change and leave by SCIM: what they lose, what stays, and what other gateways got wrong here. */

import { describe, expect, test } from "bun:test";
import { applyWholeDirectory } from "../../src/console-api/scim/apply-directory.ts";
import { admitPerson } from "../../src/console-api/sign-in/admit-person.ts";
import { restorePerson } from "../../src/store/identity/directory-grants.ts";
import { findIdentityOfUser } from "../../src/store/identity/external-identities.ts";
import { readSignIn } from "../../src/store/settings/sections.ts";
import { createTokenClient, signInAs } from "../support/console-client.ts";
import { eachEngine } from "../support/each-engine.ts";
import { ToolClient } from "../support/tool-client.ts";
import { oktaUser, useScimGateway } from "./scim-gateway.ts";

eachEngine((engine) => {
  const one = useScimGateway(engine);
  const setActive = (id: string, value: boolean) =>
    one.patch(`/Users/${id}`, { op: "replace", value: { active: value } });

  async function expectAccess(
    access: Awaited<ReturnType<typeof one.openAccess>>,
    status: { api: number; key: number },
  ) {
    expect((await access.session.send("keys.list")).status).toBe(status.api);
    expect((await access.token.send("keys.list")).status).toBe(status.api);
    expect(await one.callModel(access.secret)).toBe(status.key);
  }

  describe("a leaver", () => {
    test("who is deactivated loses sessions, tokens and keys at once, and cannot sign in", async () => {
      const id = await one.push("ada");
      await one.pushGroup("eng-all", [id]);
      const access = await one.openAccess("ada");
      await expectAccess(access, { api: 200, key: 200 });
      await setActive(id, false);
      await expectAccess(access, { api: 401, key: 401 });
      const [, reply] = await one.signIn("ada");
      expect(reply.status).toBe(403);
      await setActive(id, true);
      expect(await one.callModel(access.secret)).toBe(200);
      // Sessions and tokens do not return.
      expect((await access.token.send("keys.list")).status).toBe(401);
      expect((await one.signIn("ada"))[1]).toMatchObject({ status: 200 });
    });

    // LiteLLM PR#26861: people removed by SCIM kept working keys.
    test("gets no tokens for a tool that was approved before", async () => {
      await one.gateway.apply("tool_sign_in: { groups: [default] }");
      await one.configure("      require_group: [tool-users]");
      const id = await one.push("tom");
      const group = await one.pushGroup("tool-users", [id]);
      const tool = new ToolClient(one.gateway.url);
      await tool.ready();
      const deactivated = { op: "replace", path: "active", value: false };
      for (const [path, operation] of [
        [`/Users/${id}`, deactivated],
        [`/Groups/${group}`, { op: "remove", path: "members" }],
      ] as const) {
        const session = await signInAs(one.gateway, "tom@example.com");
        const { userCode, deviceCode } = await tool.start();
        await session.call("tools.approve", { body: { user_code: userCode, name: path, group: "default" } });
        expect((await one.patch(path, operation)).status).toBeLessThan(300);
        expect(await tool.poll(deviceCode)).toMatchObject({ status: 400, error: "expired_token" });
        await one.patch(`/Users/${id}`, { ...deactivated, value: true });
      }
      await one.configure();
    });

    test("who is deleted keeps no key, is not listed, and returns with the same id, wallet and keys", async () => {
      const id = await one.push("bob");
      const group = await one.pushGroup("ml", [id]);
      const access = await one.openAccess("bob", "research");
      const body = { amount: "7.00", provider: "manual", reason: "test" };
      await one.admin.call("admin.money.top_up", { params: { id }, body });
      expect((await one.scim.send("DELETE", `/Users/${id}`)).status).toBe(204);
      await expectAccess(access, { api: 401, key: 401 });
      expect((await one.scim.send("GET", `/Users/${id}`)).status).toBe(404);
      const found = await one.scim.send("GET", `/Users?filter=${encodeURIComponent('externalId eq "bob"')}`);
      expect(found.body.totalResults).toBe(0);
      expect((await one.scim.send("GET", `/Groups/${group}`)).body.members).toBeUndefined();
      expect(Number((await one.detail(id)).balance)).toBe(7);
      expect(await one.push("bob")).toBe(id);
      expect(Number((await one.detail(id)).balance)).toBe(7);
      // The group was lost with the removal, so its key waits for the group.
      expect(await one.callModel(access.secret)).toBe(401);
      await one.patch(`/Groups/${group}`, { op: "add", path: "members", value: [{ value: id }] });
      expect(await one.callModel(access.secret)).toBe(200);
    });

    test("gives the address up to a new person, who gets another id and no key of the leaver", async () => {
      const id = await one.push("carl");
      await one.pushGroup("carls", [id]);
      const { secret } = await one.openAccess("carl", "default");
      await one.scim.send("DELETE", `/Users/${id}`);
      const { body } = await one.scim.send("POST", "/Users", oktaUser("carl", { externalId: "carl-2" }));
      expect(body.id).not.toBe(id);
      expect((await one.detail(body.id)).email).toBe("carl@example.com");
      expect((await one.detail(id)).email).toBe(`${id}@removed.invalid`);
      expect(await one.callModel(secret)).toBe(401);
    });

    test("cannot be enabled by an administrator, whose own decision stays with the administrator", async () => {
      const id = await one.push("dora");
      await setActive(id, false);
      const enable = { params: { id }, body: { status: "active" } };
      expect((await one.admin.callRejected("admin.users.change", enable)).message).toContain("deactivated");
      await setActive(id, true);
      await one.admin.call("admin.users.change", { params: { id }, body: { status: "disabled" } });
      await setActive(id, false);
      await setActive(id, true);
      // A push that activates does not undo what an administrator has disabled.
      expect(await one.detail(id)).toMatchObject({ status: "disabled", directory: { deactivated: false } });
      await one.admin.call("admin.users.change", enable);
      expect((await one.detail(id)).status).toBe("active");
    });

    test("who is unlinked stays disabled", async () => {
      const id = await one.push("emil");
      await setActive(id, false);
      await one.admin.call("admin.directory.unlink", { params: { id } });
      expect(await one.detail(id)).toMatchObject({ status: "disabled", directory: null });
      expect((await one.scim.send("GET", `/Users/${id}`)).status).toBe(404);
    });
  });

  describe("groups", () => {
    test("grant and suspend as claims do, and pruning removes none of it", async () => {
      const id = await one.push("fay");
      const group = await one.pushGroup("more eng");
      const engineering = (await one.scim.send("GET", '/Groups?filter=displayName eq "eng-all"')).body
        .Resources[0].id;
      await one.patch(`/Groups/${engineering}`, { op: "add", path: "members", value: [{ value: id }] });
      const { secret } = await one.openAccess("fay");
      expect(await one.callModel(secret)).toBe(200);
      await one.patch(`/Groups/${engineering}`, { op: "remove", path: `members[value eq "${id}"]` });
      expect(await one.callModel(secret)).toBe(401);
      await one.patch(`/Groups/${engineering}`, { op: "add", path: "members", value: [{ value: id }] });
      expect(await one.callModel(secret)).toBe(200);
      const plan = await one.admin.call("admin.config.plan", { body: { text: "users: []", prune: true } });
      expect(plan.changes.map(({ what }) => what)).not.toContain("user fay@example.com");
      expect((await one.scim.send("DELETE", `/Groups/${group}`)).status).toBe(204);
    });

    // LiteLLM #8211, #13077, #26582: roles were not given, or not taken away.
    test("give a role and take it away, which ends the sessions of the former administrator", async () => {
      const id = await one.push("gina");
      const admins = await one.pushGroup("llm-admins", [id]);
      const finance = await one.pushGroup("finance", [id]);
      expect(await one.detail(id)).toMatchObject({ role: "admin", local_role: "user" });
      const session = await signInAs(one.gateway, "gina@example.com");
      expect((await session.send("admin.users.list")).status).toBe(200);
      await one.scim.send("PUT", `/Groups/${admins}`, { displayName: "llm-admins", members: [] });
      expect((await one.detail(id)).role).toBe("auditor");
      expect((await session.send("admin.users.list")).status).toBe(401);
      await one.scim.send("DELETE", `/Groups/${finance}`);
      expect((await one.detail(id)).role).toBe("user");
    });

    test("of this moment count at a sign-in, not those that were read before it", async () => {
      const id = await one.push("ivo");
      const { installation } = one.gateway;
      const { providers } = await readSignIn(installation.db);
      const [provider] = providers;
      if (provider === undefined) throw new Error("There is no provider.");
      const { issuer } = provider;
      const email = "ivo@example.com";
      const person = { issuer, subject: "ivo", email, role: "admin", groups: ["engineering"] } as const;
      const client = { headers: new Headers(), clientAddress: "127.0.0.1", userAgent: "test" };
      await admitPerson(installation, client, { provider, person, linkUserId: null });
      expect(await one.detail(id)).toMatchObject({ role: "user", groups: [] });
    });

    test("that are required decide about all access", async () => {
      await one.configure("      require_group: [llm-users]");
      const id = await one.push("hal");
      const group = await one.pushGroup("llm-users", [id]);
      expect((await one.signIn("hal"))[1]).toMatchObject({ status: 200 });
      const { secret, token } = await one.openAccess("hal", "default");
      await one.patch(`/Groups/${group}`, { op: "remove", path: "members" });
      expect(await one.callModel(secret)).toBe(401);
      expect((await token.send("keys.list")).status).toBe(401);
      expect((await one.signIn("hal", { groups: ["llm-users"] }))[1]).toMatchObject({
        status: 403,
        code: "not_assigned",
      });
      // Restored by an administrator, but the group is still missing: the hourly check.
      const { installation } = one.gateway;
      expect(await restorePerson(installation.db, id)).toEqual(["tool"]);
      await applyWholeDirectory(installation);
      const keys = await one.admin.call("admin.keys.list", { query: { user: id } });
      expect(keys.data.map(({ status }) => status)).toEqual(["suspended"]);
      await one.patch(`/Groups/${group}`, { op: "add", path: "members", value: [{ value: id }] });
      expect(await one.callModel(secret)).toBe(200);
      await one.configure();
    });

    test("of the claims count instead, if the file says so", async () => {
      await one.configure("", "{ provider: corp, groups: claims }");
      const id = await one.push("ida");
      await one.patch(
        `/Groups/${(await one.scim.send("GET", '/Groups?filter=displayName eq "eng-all"')).body.Resources[0].id}`,
        {
          op: "add",
          path: "members",
          value: [{ value: id }],
        },
      );
      expect((await one.detail(id)).directory?.groups).toEqual([]);
      await one.signIn("ida", { groups: ["ml"] });
      expect((await one.detail(id)).directory?.groups).toEqual(["research"]);
      await one.configure();
    });
  });

  describe("who is who", () => {
    test("the first sign-in links by externalId, whatever the address", async () => {
      const id = await one.push("joe");
      const [, reply] = await one.signIn("joe", { email: "other-address@example.com" });
      expect(reply).toMatchObject({ status: 200, body: { user: { email: "joe@example.com" } } });
      expect((await one.detail(id)).signed_in_at).not.toBeNull();
    });

    test("a person who has signed in before becomes the pushed one, with the same id and keys", async () => {
      await one.signIn("kim");
      const user = await one.requireUser("kim@example.com");
      expect(await one.push("kim")).toBe(user.id);
    });

    // LiteLLM #14071: changed ids orphaned keys.
    test("a changed externalId keeps the id and the keys, and the new subject signs in", async () => {
      const id = await one.push("lea");
      const { secret } = await one.openAccess("lea", "default");
      const { body } = await one.patch(`/Users/${id}`, { op: "replace", path: "externalId", value: "lea-2" });
      expect(body).toMatchObject({ id, externalId: "lea-2" });
      expect(await one.callModel(secret)).toBe(200);
      expect((await one.signIn("lea-2"))[1]).toMatchObject({ status: 200, body: { user: { id } } });
      expect(await findIdentityOfUser(one.gateway.installation.db, id)).toMatchObject({ subject: "lea-2" });
    });

    test("the address of a local user is a conflict, except in adopted domains and never for administrators", async () => {
      await signInAs(one.gateway, "max@example.com");
      const taken = await one.scim.send("POST", "/Users", oktaUser("max"));
      expect(taken).toMatchObject({ status: 409, body: { scimType: "uniqueness" } });
      const emails = (name: string) => [{ value: `${name}@adopted.example.com`, primary: true }];
      const nina = await signInAs(one.gateway, "nina@adopted.example.com");
      const token = await createTokenClient(one.gateway, "nina@adopted.example.com", "read");
      expect(await one.push("nina", { emails: emails("nina") })).toBe(nina.user.id);
      // Another person may have registered the address: the session and the token end.
      expect((await nina.send("keys.list")).status).toBe(401);
      expect((await token.send("keys.list")).status).toBe(401);
      for (const role of ["admin", "auditor"] as const) {
        await signInAs(one.gateway, `${role}@adopted.example.com`, role);
        expect((await one.scim.send("POST", "/Users", oktaUser(role, { emails: emails(role) }))).status).toBe(
          409,
        );
      }
    });

    test("an administrator's subject and address cannot be changed by a push", async () => {
      const id = await one.push("olga");
      await one.admin.call("admin.users.change", { params: { id }, body: { role: "admin" } });
      const steal = await one.patch(`/Users/${id}`, { op: "replace", path: "externalId", value: "mallory" });
      expect(steal).toMatchObject({ status: 400, body: { scimType: "mutability" } });
      await one.patch(`/Users/${id}`, {
        op: "replace",
        path: "emails",
        value: [{ value: "mallory@example.com" }],
      });
      expect((await one.detail(id)).email).toBe("olga@example.com");
    });

    test("with create_users: scim, only pushed people sign in", async () => {
      await one.configure("      create_users: scim");
      const [, rejected] = await one.signIn("pat");
      expect(rejected).toMatchObject({ status: 403, code: "not_assigned" });
      await one.push("pat");
      expect((await one.signIn("pat"))[1]).toMatchObject({ status: 200 });
      const file = await one.admin.call("admin.config.export");
      expect(JSON.stringify(file)).toContain("create_users: scim");
      await one.configure();
    });
  });

  test("the page Directory shows the last push and the rejected ones, and the audit log names the service account", async () => {
    await one.scim.send("POST", "/Users", oktaUser("max"));
    const shown = await one.admin.call("admin.directory.scim");
    expect(shown).toMatchObject({ provider: "corp", groups_from: "pushed", last_push_by: "directory" });
    expect(shown.last_push_at).toBeGreaterThan(Date.now() - 60_000);
    expect(shown.rejected[0]).toMatchObject({
      request: "POST /scim/v2/Users",
      status: 409,
      service_account: "directory",
      reason: expect.stringContaining("max@example.com"),
    });
    const { data } = await one.admin.call("admin.audit.list", { query: { action: "directory.remove" } });
    expect(data[0]).toMatchObject({
      actor_kind: "service",
      actor: "directory",
      target: expect.stringContaining("carl"),
    });
    expect((await one.admin.call("admin.audit.verify", { query: { fresh: true } })).broken).toEqual([]);
  });
});
