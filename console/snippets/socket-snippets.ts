/** Writes a turn over a WebSocket. The key is sent in a header, which programs can set and browsers cannot. */

import { json, KEY_VARIABLE, quoted, type SnippetRequest } from "./snippet.ts";

/** Prints the events of one turn, then closes the connection. */
export function socketTypescript({ baseUrl, body }: SnippetRequest): string {
  return `import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";

const client = new OpenAI({
  baseURL: ${quoted(`${baseUrl}/v1`, "javascript")},
  apiKey: process.env.${KEY_VARIABLE},
});

const socket = new ResponsesWS(client);
socket.on("event", (event) => {
  console.log(event);
  if (event.type === "response.completed" || event.type === "error") socket.close();
});
socket.send(${json(body)});`;
}

export function socketPython({ baseUrl, path, body }: SnippetRequest): string {
  return `import json
import os
from websockets.sync.client import connect

headers = {"Authorization": f"Bearer {os.environ['${KEY_VARIABLE}']}"}
with connect(${quoted(socketUrl(baseUrl) + path, "python")}, additional_headers=headers) as socket:
    socket.send(${quoted(JSON.stringify(body), "python")})
    for message in socket:
        print(message)
        if json.loads(message)["type"] in ("response.completed", "response.incomplete", "response.failed", "error"):
            break`;
}

export function socketShell({ baseUrl, path, body }: SnippetRequest): string {
  const address = quoted(socketUrl(baseUrl) + path, "shell");
  return `printf '%s\\n' ${quoted(JSON.stringify(body), "shell")} \\
  | websocat --no-close -H "Authorization: Bearer $${KEY_VARIABLE}" ${address}`;
}

function socketUrl(baseUrl: string): string {
  return baseUrl.replace(/^http/, "ws");
}
