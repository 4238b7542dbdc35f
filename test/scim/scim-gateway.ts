/** A gateway whose directory pushes by SCIM, and what tests ask of it. */

import { afterAll, beforeAll } from "bun:test";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import { createTokenClient, type SignedInClient, signInAs } from "../support/console-client.ts";
import type { EngineUnderTest } from "../support/each-engine.ts";
import { CLIENT, type OpenidProvider, startOpenidProvider } from "../support/openid-provider.ts";
import { ProviderBrowser, type SignInReply } from "../support/provider-browser.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { openScimClient, type ScimClient } from "../support/scim-client.ts";

export const USER = "urn:ietf:params:scim:schemas:core:2.0:User";
export const GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group";
export const PATCH_OP = "urn:ietf:params:scim:api:messages:2.0:PatchOp";

export class ScimGateway {
  gateway!: RunningGateway;
  provider!: OpenidProvider;
  admin!: SignedInClient;
  scim!: ScimClient;

  /** `fields` follow in the provider; `scim` replaces the section. */
  async configure(
    fields = "",
    scim = "{ provider: corp, adopt_domains: [adopted.example.com] }",
  ): Promise<void> {
    await this.gateway.apply(`
groups:
  - { name: engineering, access: members, models: [fast-chat], accounts: [sim] }
  - { name: research, access: members, models: [fast-chat], accounts: [sim] }
sign_in:
  providers:
    - name: corp
      issuer: ${this.provider.issuer}
      client_id: ${CLIENT.id}
      client_secret: ${CLIENT.secret}
      private_network: true
      roles: { admin: [llm-admins], auditor: [finance] }
      groups: { engineering: [eng-all], research: [ml] }
${fields}
scim: ${scim}
`);
  }

  /** Pushes a person as Okta does, and returns the id. */
  async push(name: string, more: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const { status, body } = await this.scim.send("POST", "/Users", oktaUser(name, more));
    if (status !== 201) throw new Error(`${status}: ${JSON.stringify(body)}`);
    return String(body.id);
  }

  async pushGroup(displayName: string, members: readonly string[] = []): Promise<string> {
    const { status, body } = await this.scim.send("POST", "/Groups", {
      schemas: [GROUP],
      displayName,
      members: members.map((value) => ({ value })),
    });
    if (status !== 201) throw new Error(`${status}: ${JSON.stringify(body)}`);
    return String(body.id);
  }

  async patch(path: string, ...Operations: readonly object[]) {
    return this.scim.send("PATCH", path, { schemas: [PATCH_OP], Operations });
  }

  async signIn(
    subject: string,
    claims: Readonly<Record<string, unknown>> = {},
  ): Promise<[ProviderBrowser, SignInReply]> {
    this.provider.people.set(subject, { email: `${subject}@example.com`, email_verified: true, ...claims });
    const browser = new ProviderBrowser(this.gateway);
    const reply = await browser.finish(await this.provider.visit(await browser.start("corp"), subject));
    return [browser, reply];
  }

  async callModel(secret: string): Promise<number> {
    const body = { model: "fast-chat", messages: [{ role: "user", content: "Hello" }] };
    const headers = { authorization: `Bearer ${secret}` };
    const response = await this.gateway.call("/v1/chat/completions", body, { headers });
    await response.text();
    return response.status;
  }

  /** Everything that can act as a person: a session, a personal access token and a key. */
  async openAccess(name: string, group = "engineering") {
    const session = await signInAs(this.gateway, `${name}@example.com`);
    const token = await createTokenClient(this.gateway, `${name}@example.com`, "read");
    const { secret } = await session.call("keys.create", { body: { name: "tool", group } });
    return { session, token, secret };
  }

  async requireUser(email: string) {
    const user = await findUserByEmail(this.gateway.installation.db, email);
    if (user === null) throw new Error(`${email} does not exist.`);
    return user;
  }

  async detail(id: string) {
    return this.admin.call("admin.users.get", { params: { id } });
  }
}

export function oktaUser(name: string, more: Readonly<Record<string, unknown>> = {}) {
  return {
    schemas: [USER],
    userName: `${name}@example.com`,
    name: { givenName: name, familyName: "User" },
    emails: [{ primary: true, value: `${name}@example.com`, type: "work" }],
    displayName: `${name} User`,
    locale: "en-US",
    externalId: name,
    groups: [],
    password: "1mz050nq",
    active: true,
    ...more,
  };
}

export function useScimGateway(engine: EngineUnderTest): ScimGateway {
  const one = new ScimGateway();
  beforeAll(async () => {
    one.gateway = await startTestGateway({ databaseUrl: await engine.emptyUrl() });
    one.provider = await startOpenidProvider([`${one.gateway.url}/console/sign-in/callback`]);
    await one.configure();
    one.admin = await signInAs(one.gateway, "root@example.com", "admin");
    one.scim = await openScimClient(one.gateway);
  });
  afterAll(async () => {
    await one.gateway?.stop();
    await one.provider?.stop();
  });
  return one;
}
