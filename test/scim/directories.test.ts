/** Requests exactly as Okta and Microsoft Entra send them, by their public documentation. */

import { describe, expect, test } from "bun:test";
import { eachEngine } from "../support/each-engine.ts";
import { GROUP, oktaUser, PATCH_OP, USER, useScimGateway } from "./scim-gateway.ts";

const LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse";
const ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

eachEngine((engine) => {
  const one = useScimGateway(engine);

  describe("Okta", () => {
    test("tests the connection, finds no one, creates a person and reads it again", async () => {
      const start = await one.scim.send("GET", "/Users?startIndex=1&count=2");
      expect(start).toMatchObject({ status: 200, body: { schemas: [LIST], totalResults: 0, Resources: [] } });
      const filter = `/Users?filter=${encodeURIComponent('userName eq "ada@example.com"')}&startIndex=1&count=100`;
      expect((await one.scim.send("GET", filter)).body.totalResults).toBe(0);
      const created = await one.scim.send("POST", "/Users", oktaUser("ada"));
      expect(created).toMatchObject({
        status: 201,
        body: { schemas: [USER], userName: "ada@example.com", externalId: "ada", active: true },
      });
      expect(created.headers.get("content-type")).toBe("application/scim+json");
      const { id, meta } = created.body;
      expect(id).toStartWith("user_");
      expect(created.headers.get("location")).toBe(meta.location);
      expect(created.headers.get("etag")).toBe(meta.version);
      expect(created.body.password).toBeUndefined();
      const found = await one.scim.send("GET", filter);
      expect(found.body).toMatchObject({ totalResults: 1, itemsPerPage: 1, Resources: [{ id }] });
      expect((await one.scim.send("GET", `/Users/${id}`)).body).toEqual(created.body);
    });

    test("replaces a profile, deactivates and reactivates the person, without another id", async () => {
      const { id } = await one.requireUser("ada@example.com");
      const put = await one.scim.send("PUT", `/Users/${id}`, {
        ...oktaUser("ada"),
        id,
        name: { givenName: "Ada", familyName: "Lovelace" },
        meta: { resourceType: "User" },
      });
      expect(put).toMatchObject({ status: 200, body: { id, name: { familyName: "Lovelace" } } });
      const off = { op: "replace", value: { active: false } };
      expect(await one.patch(`/Users/${id}`, off)).toMatchObject({
        status: 200,
        body: { id, active: false },
      });
      expect((await one.detail(id)).status).toBe("disabled");
      const on = { op: "replace", value: { active: true } };
      expect(await one.patch(`/Users/${id}`, on)).toMatchObject({ status: 200, body: { id, active: true } });
      expect((await one.detail(id)).status).toBe("active");
    });

    test("pushes a group, its members and its new name, and deletes it", async () => {
      const { id } = await one.requireUser("ada@example.com");
      const created = await one.scim.send("POST", "/Groups", {
        schemas: [GROUP],
        displayName: "eng-all",
        members: [{ value: id, display: "ada@example.com" }],
      });
      expect(created).toMatchObject({ status: 201, body: { displayName: "eng-all" } });
      const group = `/Groups/${created.body.id}`;
      expect((await one.detail(id)).directory).toMatchObject({ provider: "corp", groups: ["engineering"] });
      const removal = { op: "remove", path: `members[value eq "${id}"]` };
      const addition = { op: "add", path: "members", value: [{ value: id, display: "ada@example.com" }] };
      expect((await one.patch(group, removal)).status).toBe(204);
      expect((await one.detail(id)).directory?.groups).toEqual([]);
      expect((await one.patch(group, removal, addition)).status).toBe(204);
      expect((await one.detail(id)).directory?.groups).toEqual(["engineering"]);
      const renaming = { op: "replace", value: { id: created.body.id, displayName: "ml" } };
      expect((await one.patch(group, renaming)).status).toBe(204);
      expect((await one.detail(id)).directory?.groups).toEqual(["research"]);
      const byName = `/Groups?filter=${encodeURIComponent('displayName eq "ml"')}&startIndex=1&count=100`;
      expect((await one.scim.send("GET", byName)).body).toMatchObject({
        totalResults: 1,
        Resources: [{ members: [{ value: id, type: "User" }] }],
      });
      expect((await one.scim.send("DELETE", group)).status).toBe(204);
      expect((await one.detail(id)).directory?.groups).toEqual([]);
    });
  });

  describe("Entra", () => {
    const subject = "48af03ac28ad4fb88478";

    test("creates a person with the enterprise extension, which is ignored", async () => {
      const created = await one.scim.send("POST", "/Users", {
        schemas: [USER, ENTERPRISE],
        externalId: subject,
        userName: "Test_User_ab6490ee@example.com",
        active: true,
        displayName: "BobIsAmazing",
        emails: [{ primary: true, type: "work", value: "testing@example.com" }],
        meta: { resourceType: "User" },
        name: { formatted: "givenName familyName", familyName: "familyName", givenName: "givenName" },
        roles: [],
        title: "Engineer",
        [ENTERPRISE]: { employeeNumber: "701984", department: "IT", manager: { value: "26118915" } },
      });
      expect(created.status).toBe(201);
      expect(created.body.emails).toEqual([{ value: "testing@example.com", type: "work", primary: true }]);
      expect((await one.detail(created.body.id)).email).toBe("testing@example.com");
    });

    test("finds the person by each attribute that may be matched", async () => {
      const { id } = await one.requireUser("testing@example.com");
      for (const filter of [
        `externalId eq "${subject}"`,
        'userName eq "test_user_ab6490ee@EXAMPLE.com"',
        'emails[type eq "work"].value eq "Testing@example.com"',
        'emails[type eq "work" and value eq "testing@example.com"]',
        'emails.value eq "testing@example.com"',
        'emails eq "testing@example.com"',
        `id eq "${id}" and active eq true`,
        'displayName eq "bobisamazing" and active eq "True"',
        `urn:ietf:params:scim:schemas:core:2.0:User:externalId eq "${subject}"`,
      ]) {
        const { status, body } = await one.scim.send("GET", `/Users?filter=${encodeURIComponent(filter)}`);
        expect([filter, status, body.Resources?.map((user: { id: string }) => user.id)]).toEqual([
          filter,
          200,
          [id],
        ]);
      }
      const home = encodeURIComponent('emails[type eq "home"].value eq "testing@example.com"');
      expect((await one.scim.send("GET", `/Users?filter=${home}`)).body).toMatchObject({ totalResults: 0 });
    });

    test("changes attributes by paths with value filters, and attributes that are not stored", async () => {
      const { id } = await one.requireUser("testing@example.com");
      const patched = await one.patch(
        `/Users/${id}`,
        { op: "Replace", path: 'emails[type eq "work"].value', value: "updated@example.com" },
        { op: "Replace", path: "name.familyName", value: "updatedFamilyName" },
        { op: "Add", path: 'phoneNumbers[type eq "work"].value', value: "0123456789" },
        { op: "Replace", path: `${ENTERPRISE}:department`, value: "Sales" },
        { op: "Add", value: { "name.givenName": "Bob", displayName: "Bob" } },
      );
      expect(patched).toMatchObject({
        status: 200,
        body: {
          emails: [{ value: "updated@example.com", type: "work", primary: true }],
          name: { familyName: "updatedFamilyName", givenName: "Bob" },
          displayName: "Bob",
        },
      });
      expect((await one.detail(id)).email).toBe("updated@example.com");
    });

    test("adds an address of a type that the person does not have yet", async () => {
      const { id } = await one.requireUser("updated@example.com");
      const path = 'emails[type eq "other"].value';
      const { body } = await one.patch(`/Users/${id}`, { op: "Replace", path, value: "second@example.com" });
      expect(body.emails.at(-1)).toEqual({ value: "second@example.com", type: "other", primary: false });
      const removed = await one.patch(`/Users/${id}`, { op: "Remove", path: 'emails[type eq "other"]' });
      expect(removed.body.emails).toHaveLength(1);
    });

    test("sends the status as text, or as a list of one value", async () => {
      const { id } = await one.requireUser("updated@example.com");
      const send = (value: unknown) => one.patch(`/Users/${id}`, { op: "Replace", path: "active", value });
      for (const wrap of [(value: string) => value, (value: string) => [{ $ref: null, value }]]) {
        expect((await send(wrap("False"))).body.active).toBe(false);
        expect((await one.detail(id)).status).toBe("disabled");
        expect((await send(wrap("True"))).body.active).toBe(true);
        expect((await one.detail(id)).status).toBe("active");
      }
      for (const value of [[], [{ value: "False" }, { value: "True" }], [["False"]], [{ value: ["False"] }]])
        expect(await send(value)).toMatchObject({ status: 400, body: { scimType: "invalidValue" } });
    });

    test("adds and removes members of a group, also as a list without a filter", async () => {
      const { id } = await one.requireUser("updated@example.com");
      const created = await one.scim.send("POST", "/Groups", {
        schemas: [GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
        externalId: "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
        displayName: "eng-all",
        meta: { resourceType: "Group" },
      });
      const group = `/Groups/${created.body.id}`;
      const list = [{ $ref: null, value: id }];
      expect((await one.patch(group, { op: "Add", path: "members", value: list })).status).toBe(204);
      const withoutMembers = await one.scim.send("GET", `${group}?excludedAttributes=members`);
      expect(withoutMembers.body.members).toBeUndefined();
      expect((await one.scim.send("GET", group)).body.members).toMatchObject([{ value: id }]);
      const isMember = encodeURIComponent(`id eq "${created.body.id}" and members eq "${id}"`);
      expect((await one.scim.send("GET", `/Groups?filter=${isMember}`)).body.totalResults).toBe(1);
      expect((await one.patch(group, { op: "Remove", path: "members", value: list })).status).toBe(204);
      expect((await one.scim.send("GET", group)).body.members).toBeUndefined();
      expect((await one.scim.send("GET", `/Groups?filter=${isMember}`)).body.totalResults).toBe(0);
    });
  });

  describe("the protocol", () => {
    const send = (method: string, path: string, body?: unknown) => one.scim.send(method, path, body);
    const query = (filter: string) => send("GET", `/Users?filter=${encodeURIComponent(filter)}`);

    test("rejects filters, paths and values with SCIM's own errors", async () => {
      const id = await one.push("errors");
      const patch = (operation: object) => one.patch(`/Users/${id}`, operation);
      const cases: [Promise<{ status: number; body: unknown }>, string][] = [
        [query('userName co "a"'), "invalidFilter"],
        [query("userName"), "invalidFilter"],
        [query('(userName eq "a")'), "invalidFilter"],
        [query('userName eq "a" or userName eq "b"'), "invalidFilter"],
        [query('not userName eq "a"'), "invalidFilter"],
        [query('userName eq "a'), "invalidFilter"],
        [query("userName eq 7"), "invalidFilter"],
        [query('title eq "a"'), "invalidFilter"],
        [query('emails[type eq "work"]'), "invalidFilter"],
        [query(`userName eq "${"a".repeat(2_000)}"`), "invalidFilter"],
        [patch({ op: "replace", path: "unknown", value: "x" }), "invalidPath"],
        [patch({ op: "replace", path: "emails[type eq", value: "x" }), "invalidPath"],
        [patch({ op: "replace", path: "userName.sub", value: "x" }), "invalidPath"],
        [patch({ op: "remove" }), "noTarget"],
        [patch({ op: "merge", path: "displayName", value: "x" }), "invalidSyntax"],
        [patch({ op: "replace", path: "active", value: "maybe" }), "invalidValue"],
        [patch({ op: "remove", path: "userName" }), "invalidValue"],
        [patch({ op: "add", path: "emails", value: [{ value: "no address" }] }), "invalidValue"],
        [one.scim.send("PATCH", `/Users/${id}`, { schemas: [PATCH_OP] }), "invalidSyntax"],
        [send("POST", "/Users", { schemas: [USER] }), "invalidValue"],
        [send("POST", "/Users", "text"), "invalidValue"],
        [send("POST", "/Users", { schemas: [USER], userName: "no-address" }), "invalidValue"],
        [send("POST", "/Groups", { displayName: "g", members: [{ value: "user_unknown" }] }), "invalidValue"],
        [
          send("POST", "/Groups", { displayName: "g", members: [{ value: id, type: "Group" }] }),
          "invalidValue",
        ],
      ];
      for (const [reply, scimType] of cases) {
        const { status, body } = await reply;
        expect({ status, body }).toMatchObject({ status: 400, body: { status: "400", scimType } });
      }
      expect((await send("GET", `/Users/${id}`)).body.meta.version).toBe('W/"1"');
    });

    test("rejects duplicates with uniqueness, and unknown resources and paths with 404", async () => {
      expect(await send("POST", "/Users", oktaUser("errors"))).toMatchObject({
        status: 409,
        body: { schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"], scimType: "uniqueness" },
      });
      expect((await send("POST", "/Users", oktaUser("errors", { externalId: "other" }))).status).toBe(409);
      await one.pushGroup("twice");
      expect((await send("POST", "/Groups", { displayName: "Twice" })).body.scimType).toBe("uniqueness");
      for (const path of ["/Users/unknown", "/Groups/unknown", "/Bulk", "/Schemas/unknown"])
        expect(await send("GET", path)).toMatchObject({ status: 404, body: { status: "404" } });
      expect(await send("DELETE", "/ServiceProviderConfig")).toMatchObject({ status: 405 });
    });

    test("changes a resource only in the version that was read, and repeats nothing", async () => {
      const id = await one.push("versions");
      const first = (await send("GET", `/Users/${id}`)).headers.get("etag") ?? "";
      const put = (body: unknown, etag: string) =>
        one.scim.send("PUT", `/Users/${id}`, body, { "if-match": etag });
      const same = await put(oktaUser("versions"), first);
      expect([same.status, same.headers.get("etag")]).toEqual([200, first]);
      const changed = await put(oktaUser("versions", { displayName: "New" }), first);
      expect(changed.status).toBe(200);
      expect(await put(oktaUser("versions"), first)).toMatchObject({ status: 412, body: { status: "412" } });
      expect((await one.scim.send("DELETE", `/Users/${id}`, undefined, { "if-match": first })).status).toBe(
        412,
      );
      const etag = changed.headers.get("etag") ?? "";
      const headers = { "if-none-match": etag };
      expect((await one.scim.send("GET", `/Users/${id}`, undefined, headers)).status).toBe(304);
      expect((await one.scim.send("DELETE", `/Users/${id}`, undefined, { "if-match": "*" })).status).toBe(
        204,
      );
    });

    test("pages through people, and returns only the attributes that are asked for", async () => {
      for (const name of ["page1", "page2", "page3"]) await one.push(name);
      const { totalResults } = (await send("GET", "/Users?count=0")).body;
      const seen: string[] = [];
      for (let start = 1; start <= totalResults; start += 2) {
        const { body } = await send("GET", `/Users?startIndex=${start}&count=2&attributes=userName`);
        for (const user of body.Resources) {
          expect(Object.keys(user).toSorted()).toEqual(["id", "schemas", "userName"]);
          seen.push(user.id);
        }
      }
      expect(new Set(seen).size).toBe(totalResults);
      expect((await send("GET", "/Users?count=100000")).status).toBe(200);
      expect((await send("GET", "/Users?startIndex=-5&count=-1")).body).toMatchObject({
        startIndex: 1,
        itemsPerPage: 0,
      });
      expect((await send("GET", "/Users?count=many")).status).toBe(400);
      const id = seen[0] ?? "";
      const { body } = await send("GET", `/Users/${id}?excludedAttributes=emails.type,name`);
      expect(body.name).toBeUndefined();
      expect(Object.keys(body.emails[0]).toSorted()).toEqual(["primary", "value"]);
    });

    test("bounds bodies, operations and members", async () => {
      const id = await one.push("bounds");
      const operation = { op: "replace", path: "displayName", value: "x" };
      const many = await one.patch(`/Users/${id}`, ...Array.from({ length: 1_001 }, () => operation));
      expect(many).toMatchObject({ status: 400, body: { scimType: "tooMany" } });
      const members = Array.from({ length: 13_000 }, (_, i) => ({ value: `u${i}` }));
      expect(await send("POST", "/Groups", { displayName: "many", members })).toMatchObject({
        status: 400,
        body: { detail: expect.stringContaining("JSON values") },
      });
      expect(await send("POST", "/Groups", { displayName: "x".repeat(3_000_000) })).toMatchObject({
        status: 413,
        body: { status: "413" },
      });
      const emails = Array.from({ length: 21 }, (_, i) => ({ value: `a${i}@example.com` }));
      expect((await send("POST", "/Users", oktaUser("emails", { emails }))).body.scimType).toBe("tooMany");
    });
  });
});
