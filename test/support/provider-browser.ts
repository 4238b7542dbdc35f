/** A browser that signs in at a provider: it keeps the cookies of the gateway, as a real one does. */

import type { RunningGateway } from "./running-gateway.ts";

export interface SignInReply {
  status: number;
  /** Null for a success. */
  code: string | null;
  message: string;
  body: Record<string, unknown>;
}

export class ProviderBrowser {
  readonly #url: string;
  readonly #origin: string;
  readonly cookies = new Map<string, string>();

  /** `origin` is the address that the browser shows, if it is not that of the node. */
  constructor({ url }: Pick<RunningGateway, "url">, origin = url) {
    this.#url = url;
    this.#origin = origin;
  }

  async post(
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<SignInReply> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(this.#url + path, {
      method: "POST",
      headers: { "content-type": "application/json", origin: this.#origin, cookie, ...headers },
      body: JSON.stringify(body),
    });
    for (const line of response.headers.getSetCookie()) {
      const [name = "", value = ""] = line.split(";", 1)[0]?.split(/=(.*)/s, 2) ?? [];
      if (value === "") this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    const parsed = (await response.json()) as Record<string, unknown>;
    const error = parsed.error as { code: string; message: string } | undefined;
    return {
      status: response.status,
      code: error?.code ?? null,
      message: error?.message ?? "",
      body: parsed,
    };
  }

  async get(path: string): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    return fetch(this.#url + path, { headers: { cookie } });
  }

  /** Returns the address at the provider. */
  async start(provider: string, more: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const started = await this.post("/api/sign-in/start", { provider, ...more });
    if (started.code !== null) throw new Error(`${started.code}: ${started.message}`);
    return String(started.body.url);
  }

  finish(returned: URL): Promise<SignInReply> {
    return this.post("/api/sign-in/finish", { query: returned.search });
  }
}
