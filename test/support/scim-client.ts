/** A directory that pushes by SCIM, with the token of a service account. */

import { createServiceClient } from "./console-client.ts";
import type { RunningGateway } from "./running-gateway.ts";

export interface ScimReply {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests read resources of any form
  body: any;
}

export interface ScimClient {
  secret: string;
  send(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<ScimReply>;
}

export async function openScimClient(gateway: RunningGateway): Promise<ScimClient> {
  const { secret } = await createServiceClient(gateway, "directory", ["scim"]);
  return { secret, send: sendScim(gateway.url, secret) };
}

export function sendScim(url: string, secret: string): ScimClient["send"] {
  return async (method, path, body, headers = {}) => {
    const response = await fetch(`${url}/scim/v2${path}`, {
      method,
      headers: {
        authorization: `Bearer ${secret}`,
        accept: "application/scim+json",
        ...(body === undefined ? {} : { "content-type": "application/scim+json; charset=utf-8" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === "" ? null : JSON.parse(text),
    };
  };
}
