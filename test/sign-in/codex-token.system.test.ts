/** The real Codex runs on `model-gateway token`, set up by `setup codex`, through several refreshes. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { signInAs } from "../support/console-client.ts";
import { readProcessResult } from "../support/process-result.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { ToolClient } from "../support/tool-client.ts";

setDefaultTimeout(240_000);

const LAUNCHER = resolve(import.meta.dir, "../../bin/model-gateway");
const CODEX = resolve(import.meta.dir, "../clients/node_modules/.bin/codex");

let gateway: RunningGateway;
let home: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  await gateway.apply("tool_sign_in: {}");
  const tool = new ToolClient(gateway.url);
  await tool.ready();
  home = mkdtempSync(join(tmpdir(), "model-gateway-codex-token-"));
  const { access, refresh } = await tool.signIn(await signInAs(gateway, "ada@example.com"), "Codex");
  const tokens = {
    access_token: access,
    refresh_token: refresh,
    expires_at: 0,
    token_endpoint: `${gateway.url}/oauth/token`,
    revocation_endpoint: `${gateway.url}/oauth/revoke`,
  };
  mkdirSync(join(home, ".config/model-gateway"), { recursive: true });
  writeFileSync(credentialsPath(), JSON.stringify({ gateways: { [gateway.url]: tokens } }));
});
afterAll(async () => {
  await gateway.stop();
  rmSync(home, { recursive: true });
});

const credentialsPath = () => join(home, ".config/model-gateway/credentials.json");
const stored = z.object({ gateways: z.record(z.string(), z.looseObject({ access_token: z.string() })) });

function run(command: string[]) {
  const child = Bun.spawn(command, {
    cwd: home,
    env: { PATH: process.env.PATH ?? "", HOME: home },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  return readProcessResult(child);
}

test("each run after the end of its token gets another one", async () => {
  expect(await run([LAUNCHER, "setup", "codex", "--yes"])).toMatchObject({ code: 0 });
  const used = new Set<string>();
  for (let i = 0; i < 3; i++) {
    const args = ["exec", "--skip-git-repo-check", "--json", "-m", "fast-chat", "Say hello"];
    const ran = await run([CODEX, ...args]);
    expect(ran).toMatchObject({ code: 0 });
    expect(ran.out).toContain("turn.completed");
    const file = stored.parse(JSON.parse(readFileSync(credentialsPath(), "utf8")));
    const tokens = file.gateways[gateway.url];
    used.add(tokens?.access_token ?? "");
    // The next run needs a refresh.
    writeFileSync(
      credentialsPath(),
      JSON.stringify({ gateways: { [gateway.url]: { ...tokens, expires_at: 0 } } }),
    );
  }
  expect(used.size).toBe(3);
});
