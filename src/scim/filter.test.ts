import { describe, expect, test } from "bun:test";
import { limits } from "../config/limits/product-limits.ts";
import { parseFilter, parsePath } from "./filter.ts";
import { ScimError } from "./scim-error.ts";

describe("a filter", () => {
  test.each([
    ['userName eq "ada"', [{ attribute: "username", value: "ada" }]],
    ['USERNAME EQ "a\\"b"', [{ attribute: "username", value: 'a"b' }]],
    ["active eq True", [{ attribute: "active", value: true }]],
    ['members eq "u1"', [{ attribute: "members.value", value: "u1" }]],
    ['members[value eq "u1"]', [{ attribute: "members.value", value: "u1" }]],
    [
      'id eq "g" and members[value eq "u1"]',
      [
        { attribute: "id", value: "g" },
        { attribute: "members.value", value: "u1" },
      ],
    ],
    [
      'emails[type eq "work"].value eq "a@b.c"',
      [
        { attribute: "emails.type", value: "work" },
        { attribute: "emails.value", value: "a@b.c" },
      ],
    ],
    ['urn:ietf:params:scim:schemas:core:2.0:User:userName eq "a"', [{ attribute: "username", value: "a" }]],
  ])("%s", (text, conditions) => expect(parseFilter(text)).toEqual(conditions));

  test.each([
    "",
    "userName",
    "userName eq",
    'userName eq "a',
    "userName eq ada",
    'userName ne "a"',
    'userName eq "a" or id eq "b"',
    'userName eq "a" and',
    'emails[type eq "work"',
    'emails[type eq "work"].',
    '(userName eq "a")',
    'a.b.c eq "x"',
    'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department eq "x"',
    `userName eq "${"a".repeat(limits.scim.filterCharsMax)}"`,
    Array.from({ length: limits.scim.filterConditionsMax + 1 }, () => 'id eq "a"').join(" and "),
    "[".repeat(500),
    'a[b[c eq "x"]]',
  ])("is rejected: %s", (text) => expect(() => parseFilter(text)).toThrow(ScimError));
});

describe("a path", () => {
  test.each([
    ["name.familyName", { attribute: "name", conditions: null, sub: "familyname" }],
    [
      'emails[type eq "work"].value',
      { attribute: "emails", conditions: [{ attribute: "type", value: "work" }], sub: "value" },
    ],
    [
      'members[value eq "u1"]',
      { attribute: "members", conditions: [{ attribute: "value", value: "u1" }], sub: null },
    ],
    [
      "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department",
      { attribute: null, conditions: null, sub: null },
    ],
    [
      "urn:ietf:params:scim:schemas:core:2.0:User:active",
      { attribute: "active", conditions: null, sub: null },
    ],
  ])("%s", (text, path) => expect(parsePath(text)).toEqual(path));

  test.each(["", "a b", "a.b.c", "emails[", 'emails.value[type eq "work"]', "emails[]"])(
    "is rejected: %s",
    (text) => expect(() => parsePath(text)).toThrow(ScimError),
  );
});
