/** A tool that signs in to a gateway as Claude Code does: without a client id, with an empty body. */

import { z } from "zod";
import type { SignedInClient } from "./console-client.ts";
import { eventually } from "./eventually.ts";

const startReply = z.object({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri_complete: z.string(),
});
/** Tokens or an error. */
const tokenReply = z.object({
  error: z.unknown().optional(),
  access_token: z.string().optional(),
  refresh_token: z.string().optional(),
  expires_in: z.number().optional(),
});

export interface TokenReply {
  readonly status: number;
  readonly error: string | null;
  readonly access: string;
  readonly refresh: string;
  readonly expiresIn: number;
}

export interface StartedSignIn {
  readonly deviceCode: string;
  readonly userCode: string;
  readonly page: string;
}

export class ToolClient {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  metadata(): Promise<Response> {
    return fetch(`${this.#url}/.well-known/oauth-authorization-server`);
  }

  /** Waits until the gateway has read a configuration with tool sign-in. */
  async ready(): Promise<void> {
    await eventually(async () => (await this.metadata()).status, { equals: 200 });
  }

  startRaw(): Promise<Response> {
    return fetch(`${this.#url}/oauth/device_authorization`, {
      method: "POST",
      headers: { "user-agent": "axios/1.8.4" },
    });
  }

  async start(): Promise<StartedSignIn> {
    const response = await this.startRaw();
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
    const body = startReply.parse(await response.json());
    return {
      deviceCode: body.device_code,
      userCode: body.user_code,
      page: body.verification_uri_complete,
    };
  }

  post(path: string, fields: Readonly<Record<string, string>>): Promise<Response> {
    return fetch(this.#url + path, { method: "POST", body: new URLSearchParams(fields) });
  }

  poll(deviceCode: string): Promise<TokenReply> {
    const grant = "urn:ietf:params:oauth:grant-type:device_code";
    return this.#exchange({ grant_type: grant, device_code: deviceCode });
  }

  refresh(token: string): Promise<TokenReply> {
    return this.#exchange({ grant_type: "refresh_token", refresh_token: token });
  }

  revoke(token: string): Promise<Response> {
    return this.post("/oauth/revoke", { token });
  }

  /** The whole sign-in, approved by a person. */
  async signIn(person: SignedInClient, name: string, group = "default"): Promise<TokenReply> {
    const { userCode, deviceCode } = await this.start();
    await person.call("tools.approve", { body: { user_code: userCode, name, group } });
    const reply = await this.poll(deviceCode);
    if (reply.status !== 200) throw new Error(`The tool was not signed in: ${JSON.stringify(reply)}`);
    return reply;
  }

  callModel(secret: string, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.#url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "fast-chat", messages: [{ role: "user", content: "hi" }] }),
      ...init,
    });
  }

  get(path: string, secret: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return fetch(this.#url + path, { headers: { authorization: `Bearer ${secret}`, ...headers } });
  }

  async #exchange(fields: Readonly<Record<string, string>>): Promise<TokenReply> {
    const response = await this.post("/oauth/token", fields);
    const body = tokenReply.parse(await response.json());
    return {
      status: response.status,
      error: typeof body.error === "string" ? body.error : null,
      access: body.access_token ?? "",
      refresh: body.refresh_token ?? "",
      expiresIn: body.expires_in ?? 0,
    };
  }
}
