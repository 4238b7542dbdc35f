/** Sign-in with forged, replayed and mixed-up responses, and with providers that send too much, too slowly or nothing. */

import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { listUsers } from "../../src/store/identity/users.ts";
import { signInAs } from "../support/console-client.ts";
import { ProviderBrowser, type SignInReply } from "../support/provider-browser.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import {
  describeIssuer,
  FOREIGN_KEY,
  PUBLIC_PEM,
  type ScriptedIssuer,
  signToken,
  startScriptedIssuer,
} from "../support/scripted-issuer.ts";

const SECRET = "the-secret-of-the-client-0123456789";
const DISCOVERY = "/.well-known/openid-configuration";

// Passwords are hashed slowly, and the machine may be busy.
setDefaultTimeout(60_000);

let gateway: RunningGateway;
let issuer: ScriptedIssuer;
let other: ScriptedIssuer;
/** Each configuration has its own client, so that no test uses the discovery of another. */
let clients = 0;

interface ProviderFields {
  url?: string;
  more?: string;
}

async function configure({ url = issuer.issuer, more = "" }: ProviderFields = {}): Promise<void> {
  await gateway.apply(`
sign_in:
  providers:
    - { name: corp, issuer: "${url}", client_id: gateway, client_secret: ${SECRET}-${++clients}, private_network: true ${more} }
    - { name: other, issuer: "${other.issuer}", client_id: gateway, client_secret: ${SECRET}, private_network: true }
`);
}

const honest = () => (nonce: string) => signToken(issuer.claims(nonce));

beforeAll(async () => {
  gateway = await startTestGateway();
  issuer = startScriptedIssuer();
  other = startScriptedIssuer();
  await configure();
});
afterAll(async () => {
  await gateway.stop();
  await issuer.stop();
  await other.stop();
});
afterEach(() => {
  issuer.overrides.clear();
  issuer.idToken = honest();
  issuer.userinfo = { sub: "mallory" };
});

async function signIn(browser = new ProviderBrowser(gateway)): Promise<SignInReply> {
  return browser.finish(issuer.comeBack(await browser.start("corp")));
}

async function expectNoUser(): Promise<void> {
  const emails = (await listUsers(gateway.installation.db)).map(({ email }) => email);
  expect(emails.filter((email) => email.startsWith("mallory"))).toEqual([]);
}

describe("an ID token is rejected", () => {
  const nowSeconds = () => Math.floor(Date.now() / 1000);
  const forgeries: Record<string, (nonce: string) => string> = {
    "signed by a foreign key": (nonce) => signToken(issuer.claims(nonce), { key: FOREIGN_KEY }),
    "with an unknown key id": (nonce) => signToken(issuer.claims(nonce), { key: FOREIGN_KEY, kid: "two" }),
    "without a signature": (nonce) => signToken(issuer.claims(nonce), { alg: "none" }),
    "signed by the client secret": (nonce) =>
      signToken(issuer.claims(nonce), { alg: "HS256", secret: `${SECRET}-${clients}` }),
    "signed by the public key as a secret": (nonce) =>
      signToken(issuer.claims(nonce), { alg: "HS256", secret: PUBLIC_PEM }),
    "with its own key in the header": (nonce) =>
      signToken(issuer.claims(nonce), {
        key: FOREIGN_KEY,
        kid: null,
        header: { jku: `${other.issuer}/jwks` },
      }),
    "with critical headers": (nonce) => signToken(issuer.claims(nonce), { header: { crit: ["x"], x: 1 } }),
    "of another issuer": (nonce) => signToken(issuer.claims(nonce, { iss: other.issuer })),
    "for another client": (nonce) => signToken(issuer.claims(nonce, { aud: "another" })),
    "for several clients without azp": (nonce) =>
      signToken(issuer.claims(nonce, { aud: ["gateway", "another"] })),
    "with another azp": (nonce) =>
      signToken(issuer.claims(nonce, { aud: ["gateway", "another"], azp: "another" })),
    "with another nonce": (nonce) => signToken(issuer.claims(`${nonce}x`)),
    "without a nonce": (nonce) => signToken(issuer.claims(nonce, { nonce: undefined })),
    "that has expired": (nonce) => signToken(issuer.claims(nonce, { exp: nowSeconds() - 300 })),
    "without an end": (nonce) => signToken(issuer.claims(nonce, { exp: undefined })),
    "that is not valid yet": (nonce) => signToken(issuer.claims(nonce, { nbf: nowSeconds() + 3_600 })),
    "without a subject": (nonce) => signToken(issuer.claims(nonce, { sub: undefined })),
    "whose subject is a number": (nonce) => signToken(issuer.claims(nonce, { sub: 7 })),
    "whose subject is too long": (nonce) => signToken(issuer.claims(nonce, { sub: "s".repeat(300) })),
    "that is no token": () => "not.a.token",
    "with too many groups": (nonce) =>
      signToken(issuer.claims(nonce, { groups: Array.from({ length: 2_001 }, (_, i) => `g${i}`) })),
  };
  for (const [name, forge] of Object.entries(forgeries)) {
    test(name, async () => {
      issuer.idToken = forge;
      expect(await signIn()).toMatchObject({ status: 401, code: "identity_rejected" });
      await expectNoUser();
    });
  }

  test("with a changed claim", async () => {
    issuer.idToken = (nonce) => {
      const [header, , signature] = signToken(issuer.claims(nonce)).split(".");
      const claims = issuer.claims(nonce, { email: "root@example.com" });
      return `${header}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.${signature}`;
    };
    expect(await signIn()).toMatchObject({ status: 401, code: "identity_rejected" });
  });
});

describe("claims decide", () => {
  async function expectRejected(more: Record<string, unknown>, code: string, fields = ""): Promise<string> {
    await configure({ more: fields });
    issuer.idToken = (nonce) => signToken(issuer.claims(nonce, more));
    const reply = await signIn();
    expect(reply).toMatchObject({ status: 403, code });
    await expectNoUser();
    return reply.message;
  }

  test("an address that is not verified, or of which the provider does not say it", async () => {
    await expectRejected({ email_verified: false }, "address_not_verified");
    await expectRejected({ email_verified: "false" }, "address_not_verified");
    await expectRejected({ email_verified: undefined }, "address_not_verified");
    await expectRejected({ email_verified: false }, "address_not_verified", ", address: trusted");
    await expectRejected({ email: undefined }, "address_not_verified");
    await expectRejected({ email: "no address" }, "address_not_verified");
    await expectRejected({ email: ["mallory@example.com"] }, "address_not_verified");
  });

  test("a confirmation of another address does not count", async () => {
    issuer.userinfo = { sub: "mallory", email: "other@example.com", email_verified: true };
    await expectRejected({ email_verified: undefined }, "address_not_verified", ", require_group: [users]");
  });

  test("the domain of the address, without its subdomains and lookalikes", async () => {
    for (const domain of ["evil.test", "sub.corp.test", "corp.test.evil.test", "xcorp.test"]) {
      const email = `mallory@${domain}`;
      await expectRejected({ email }, "not_assigned", ", domains: [corp.test]");
    }
  });

  test("the required group, exactly, and the message names the claim", async () => {
    const required = ", groups_claim: realm.roles, require_group: [users]";
    for (const realm of [
      undefined,
      {},
      { roles: [] },
      { roles: ["Users"] },
      { roles: "user" },
      { roles: [["users"]] },
    ])
      expect(await expectRejected({ realm }, "not_assigned", required)).toContain("`realm.roles`");
  });

  test("a person with too many groups at Entra is rejected with what to do, and nothing is lost", async () => {
    const overage = { _claim_names: { groups: "src1" } };
    const message = await expectRejected(overage, "not_assigned", ", require_group: [users]");
    expect(message).toContain("app roles");
  });

  test("inherited properties are no claims", async () => {
    for (const claim of ["constructor", "__proto__", "toString.name"])
      await expectRejected({}, "not_assigned", `, groups_claim: ${claim}, require_group: [Object, toString]`);
  });

  test("an invitation, where users are not created at sign-in; it grants no role", async () => {
    await expectRejected({}, "not_assigned", ", create_users: invited");
    const admin = await signInAs(gateway, "root@example.com", "admin");
    const body = { purpose: "invite", email: "invited@example.com", role: "admin" };
    await admin.call("admin.links.create", { body });
    issuer.idToken = (nonce) =>
      signToken(issuer.claims(nonce, { sub: "invited", email: "Invited@example.com" }));
    expect(await signIn()).toMatchObject({ status: 200, body: { user: { role: "user" } } });
    await configure();
  });
});

describe("a returning browser is rejected", () => {
  const expired = { status: 400, code: "sign_in_expired" };

  test("without the cookie of the start, as in another browser", async () => {
    const returned = issuer.comeBack(await new ProviderBrowser(gateway).start("corp"));
    expect(await new ProviderBrowser(gateway).finish(returned)).toMatchObject(expired);
  });

  test("with the response of an attacker's own sign-in (login CSRF)", async () => {
    const victim = new ProviderBrowser(gateway);
    await victim.start("corp");
    const attacker = new ProviderBrowser(gateway);
    expect(await victim.finish(issuer.comeBack(await attacker.start("corp")))).toMatchObject(expired);
    expect(victim.cookies.has("__Host-session")).toBe(false);
  });

  test("a second time, also with the kept cookie", async () => {
    issuer.idToken = (nonce) => signToken(issuer.claims(nonce, { sub: "again", email: "again@example.com" }));
    const browser = new ProviderBrowser(gateway);
    const returned = issuer.comeBack(await browser.start("corp"));
    const cookie = browser.cookies.get("__Host-sign-in") ?? "";
    expect((await browser.finish(returned)).status).toBe(200);
    browser.cookies.set("__Host-sign-in", cookie);
    expect(await browser.finish(returned)).toMatchObject(expired);
  });

  test("with a forged or damaged cookie, or one of a master key that this node lacks", async () => {
    const browser = new ProviderBrowser(gateway);
    const returned = issuer.comeBack(await browser.start("corp"));
    const sealed = browser.cookies.get("__Host-sign-in") ?? "";
    for (const cookie of ["x", "v1:k:AAAA", sealed.slice(0, -2), sealed.replace(/^v1:[^:]+/, "v1:unknown")]) {
      browser.cookies.set("__Host-sign-in", cookie);
      expect(await browser.finish(returned)).toMatchObject(expired);
    }
  });

  test("without a state, with two, or with another", async () => {
    for (const change of [
      (url: URL) => url.searchParams.delete("state"),
      (url: URL) => url.searchParams.append("state", "second"),
      (url: URL) => url.searchParams.set("state", "another"),
    ]) {
      const browser = new ProviderBrowser(gateway);
      const returned = issuer.comeBack(await browser.start("corp"));
      change(returned);
      expect((await browser.finish(returned)).status).toBeOneOf([400, 401]);
      expect(browser.cookies.has("__Host-session")).toBe(false);
    }
  });

  test("with the issuer of another provider (mix-up), or a code of another", async () => {
    const browser = new ProviderBrowser(gateway);
    const mixed = issuer.comeBack(await browser.start("corp"), { iss: other.issuer });
    expect(await browser.finish(mixed)).toMatchObject({ status: 401, code: "identity_rejected" });
    // The browser began at one provider and returns with the response of the other.
    const begun = new ProviderBrowser(gateway);
    await begun.start("other");
    expect(
      await begun.finish(issuer.comeBack(await new ProviderBrowser(gateway).start("corp"))),
    ).toMatchObject(expired);
  });

  test("after the issuer of the provider has changed: its code is not sent to another", async () => {
    const browser = new ProviderBrowser(gateway);
    const returned = issuer.comeBack(await browser.start("corp"));
    await configure({ url: other.issuer });
    const before = other.requests.length;
    expect(await browser.finish(returned)).toMatchObject(expired);
    expect(other.requests.length).toBe(before);
    await configure();
  });

  test("with an error of the provider, whose text is not shown", async () => {
    const browser = new ProviderBrowser(gateway);
    const returned = issuer.comeBack(await browser.start("corp"), {
      error: "access_denied",
      error_description: "<script>alert(1)</script>",
    });
    returned.searchParams.delete("code");
    const reply = await browser.finish(returned);
    expect(reply).toMatchObject({ status: 401, code: "identity_rejected" });
    expect(reply.message).not.toContain("script");
  });

  test("from another site, and over a token", async () => {
    const browser = new ProviderBrowser(gateway);
    const query = issuer.comeBack(await browser.start("corp")).search;
    const foreign = { origin: "https://evil.test" };
    expect(await browser.post("/api/sign-in/finish", { query }, foreign)).toMatchObject({
      code: "foreign_origin",
    });
  });
});

test("a confirmation needs a recent sign-in: a provider that ignores max_age is rejected", async () => {
  issuer.idToken = (nonce) => signToken(issuer.claims(nonce, { sub: "vic", email: "vic@example.com" }));
  const browser = new ProviderBrowser(gateway);
  expect((await signIn(browser)).status).toBe(200);
  for (const authTime of [undefined, Math.floor(Date.now() / 1000) - 3_600, "now"]) {
    issuer.idToken = (nonce) =>
      signToken(issuer.claims(nonce, { sub: "vic", email: "vic@example.com", auth_time: authTime }));
    const returned = issuer.comeBack(await browser.start("corp", { purpose: "confirm" }));
    expect(await browser.finish(returned)).toMatchObject({ status: 401, code: "identity_rejected" });
    expect(browser.cookies.has("__Host-confirmation")).toBe(false);
  }
});

test("a session that a browser had before ends, and the cookie is a new one (fixation)", async () => {
  issuer.idToken = (nonce) => signToken(issuer.claims(nonce, { sub: "fix", email: "fix@example.com" }));
  const browser = new ProviderBrowser(gateway);
  const planted = await signInAs(gateway, "planted@example.com");
  browser.cookies.set("__Host-session", planted.cookie.split("=")[1] ?? "");
  expect((await signIn(browser)).status).toBe(200);
  expect(`__Host-session=${browser.cookies.get("__Host-session")}`).not.toBe(planted.cookie);
  expect((await planted.send("keys.list")).status).toBe(401);
});

test("the page after the sign-in is one of the console, never another site", async () => {
  const browser = new ProviderBrowser(gateway);
  for (const next of [
    "//evil.test",
    "https://evil.test",
    "/\\evil.test",
    "\\\\evil.test",
    "javascript:alert(1)",
    "",
  ])
    expect(await browser.post("/api/sign-in/start", { provider: "corp", next })).toMatchObject({
      status: 400,
    });
});

describe("a provider that misbehaves", () => {
  const unavailable = { status: 503, code: "sign_in_unavailable" };
  const start = (browser = new ProviderBrowser(gateway)) =>
    browser.post("/api/sign-in/start", { provider: "corp" });
  const endless = () =>
    new Response(
      new ReadableStream({
        pull(controller) {
          controller.enqueue(new Uint8Array(65_536).fill(32));
        },
      }),
    );

  test("sends a document without end", async () => {
    await configure();
    issuer.overrides.set(DISCOVERY, endless);
    expect(await start()).toMatchObject(unavailable);
  });

  test("sends keys without end", async () => {
    await configure();
    issuer.overrides.set("/jwks", endless);
    expect(await signIn()).toMatchObject(unavailable);
  });

  test("sends a token response without end", async () => {
    await configure();
    issuer.overrides.set("/token", endless);
    expect(await signIn()).toMatchObject(unavailable);
  });

  test("sends documents or a token of too many values, which would hold the event loop", async () => {
    const values = Array(200_000).fill({});
    for (const [path, document] of [
      [DISCOVERY, { ...describeIssuer(issuer.issuer), values }],
      ["/jwks", { keys: values }],
      ["/token", { access_token: "access", token_type: "Bearer", values }],
    ] as const) {
      await configure();
      issuer.overrides.set(path, () => Response.json(document));
      expect(await signIn().catch(() => start())).toMatchObject(unavailable);
      issuer.overrides.clear();
    }
    await configure();
    issuer.idToken = (nonce) => signToken(issuer.claims(nonce, { values }));
    expect(await signIn()).toMatchObject(unavailable);
  });

  test("never responds", async () => {
    await configure();
    issuer.overrides.set(DISCOVERY, () => new Promise(() => {}));
    const before = performance.now();
    expect(await start()).toMatchObject(unavailable);
    expect(performance.now() - before).toBeLessThan(15_000);
  });

  test("redirects to another address", async () => {
    await configure();
    issuer.overrides.set(DISCOVERY, () => Response.redirect(other.issuer + DISCOVERY));
    expect(await start()).toMatchObject(unavailable);
  });

  test("fails, sends no JSON, or names another issuer", async () => {
    for (const [response, status] of [
      [() => new Response("down", { status: 500 }), 503],
      [() => new Response("<html>"), 401],
      [() => Response.json(describeIssuer(other.issuer)), 401],
    ] as const) {
      await configure();
      issuer.overrides.set(DISCOVERY, response);
      expect((await start()).status).toBe(status);
    }
  });

  test("names endpoints in a private network: they are not called without permission", async () => {
    await configure();
    await gateway.apply(`
sign_in:
  providers:
    - { name: corp, issuer: "https://127.0.0.1:1", client_id: gateway, client_secret: ${SECRET} }
`);
    expect(await start()).toMatchObject(unavailable);
    await configure();
  });

  test("cannot log a secret or a code", () => {
    const lines = gateway.log.join("\n");
    expect(lines).toContain("sign_in_rejected");
    expect(lines).not.toContain(SECRET);
    expect(lines).not.toContain("a-code");
  });

  test("works again after all that", async () => {
    await configure();
    issuer.idToken = (nonce) => signToken(issuer.claims(nonce, { sub: "well", email: "well@example.com" }));
    expect((await signIn()).status).toBe(200);
  });
});
