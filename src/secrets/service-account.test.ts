/** Keys of Google service accounts. */

import { expect, test } from "bun:test";
import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { isProjectId, parseServiceAccount, signAssertion } from "./service-account.ts";

const pem = { type: "pkcs8", format: "pem" } as const;
const spki = { type: "spki", format: "pem" } as const;
const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: spki,
  privateKeyEncoding: pem,
});
const elliptic = generateKeyPairSync("ec", {
  namedCurve: "P-256",
  publicKeyEncoding: spki,
  privateKeyEncoding: pem,
});

const FILE = {
  type: "service_account",
  project_id: "my-project",
  private_key_id: "key-1",
  private_key: privateKey,
  client_email: "gateway@my-project.iam.gserviceaccount.com",
  token_uri: "https://oauth2.googleapis.com/token",
};
const BASE_URL = "https://aiplatform.googleapis.com";

const parse = (change: object, baseUrl = BASE_URL) =>
  parseServiceAccount(JSON.stringify({ ...FILE, ...change }), baseUrl);

test("the assertion is signed by the key, for the token endpoint, for an hour", () => {
  const account = parse({});
  if (typeof account === "string") throw new Error(account);
  const [head = "", body = "", signature = ""] = signAssertion(account, 1_700_000_000_999).split(".");
  const decode = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString());
  expect(decode(head)).toEqual({ alg: "RS256", typ: "JWT", kid: "key-1" });
  expect(decode(body)).toEqual({
    iss: FILE.client_email,
    scope: "https://www.googleapis.com/auth/cloud-platform",
    aud: FILE.token_uri,
    iat: 1_700_000_000,
    exp: 1_700_003_600,
  });
  const key = createPublicKey(privateKey);
  const signed = Buffer.from(`${head}.${body}`);
  expect(verify("RSA-SHA256", signed, key, Buffer.from(signature, "base64url"))).toBe(true);
});

test.each([
  [{ type: "authorized_user" }, "wrong_type"],
  [{ client_email: undefined }, "missing_field"],
  [{ client_email: "a\r\nb" }, "missing_field"],
  [{ private_key: "-----BEGIN PRIVATE KEY-----\nxx\n-----END PRIVATE KEY-----\n" }, "bad_key"],
  [{ private_key: elliptic.privateKey }, "bad_key"],
  [{ token_uri: "https://attacker.example.com/token" }, "foreign_token_url"],
  [{ token_uri: "https://oauth2.googleapis.com.attacker.example.com/token" }, "foreign_token_url"],
  [{ token_uri: "http://169.254.169.254/token" }, "foreign_token_url"],
  [{ token_uri: "http://oauth2.googleapis.com/token" }, "foreign_token_url"],
  [{ token_uri: 5 }, "foreign_token_url"],
])("a file with %j is %s", (change, problem) => {
  expect(parse(change)).toBe(problem as ReturnType<typeof parse>);
});

test("a text that is no JSON object is rejected", () => {
  for (const text of ["", "x", "[]", "null", '"a"'])
    expect(parseServiceAccount(text, BASE_URL)).toBe("not_json");
});

test("the token endpoint may be at the address of the account, or be left out", () => {
  const own = { token_uri: "https://proxy.example.com:8443/token" };
  expect(parse(own, "https://proxy.example.com:8443/vertex")).toMatchObject({ tokenUrl: own.token_uri });
  expect(parse(own, "https://proxy.example.com")).toBe("foreign_token_url");
  expect(parse({ token_uri: undefined })).toMatchObject({ tokenUrl: FILE.token_uri });
});

test("a project is an id, also with a domain", () => {
  expect(["my-project", "example.com:my-project"].every(isProjectId)).toBe(true);
  expect(["My-Project", "a", "x/../y", "p?q", "", 5].some(isProjectId)).toBe(false);
});
