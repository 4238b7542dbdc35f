/** `codex app-server` as a process: calls and notifications, one JSON object a line. */

import { z } from "zod";
import type { CodexHome } from "./codex.ts";

export interface AppServer {
  /** Returns the result, or rejects with the error. */
  call(method: string, params: object): Promise<unknown>;
  notify(method: string): void;
  stop(): Promise<void>;
}

export interface AppServerListener {
  notice(method: string, params: unknown): void;
  /** The process has ended. */
  ended(reason: Error): void;
}

const incoming = z.looseObject({
  id: z.number().optional(),
  result: z.unknown().optional(),
  error: z.unknown().optional(),
  method: z.string().optional(),
  params: z.unknown().optional(),
});

export function startAppServer(codex: CodexHome, listener: AppServerListener): AppServer {
  const { command, ...place } = codex.command(["app-server"]);
  const child = Bun.spawn(command, { ...place, stdin: "pipe", stdout: "pipe", stderr: "pipe" });
  const complaints = child.stderr.text();
  const responses = new Map<number, PromiseWithResolvers<unknown>>();
  let calls = 0;

  function send(what: object): void {
    child.stdin.write(`${JSON.stringify(what)}\n`);
    child.stdin.flush();
  }

  function receiveLine(line: string): void {
    const { id, method, params, result, error } = incoming.parse(JSON.parse(line));
    if (method !== undefined) listener.notice(method, params);
    if (method !== undefined || id === undefined) return;
    const response = responses.get(id);
    responses.delete(id);
    if (error === undefined) response?.resolve(result);
    else response?.reject(new Error(JSON.stringify(error)));
  }

  async function listen(): Promise<void> {
    const decoder = new TextDecoder();
    let held = "";
    for await (const chunk of child.stdout) {
      const lines = (held + decoder.decode(chunk, { stream: true })).split("\n");
      held = lines.pop() ?? "";
      for (const line of lines) receiveLine(line);
    }
    const ended = new Error(`Codex has ended: ${await complaints}`);
    for (const response of responses.values()) response.reject(ended);
    listener.ended(ended);
  }

  const listening = listen();
  return {
    call(method, params) {
      const id = ++calls;
      const response = Promise.withResolvers<unknown>();
      responses.set(id, response);
      send({ id, method, params });
      return response.promise;
    },
    notify: (method) => send({ method }),
    async stop() {
      child.stdin.end();
      await child.exited;
      await listening;
    },
  };
}
