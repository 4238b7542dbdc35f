/** The real Claude Code signs in with `/login`, reads its settings, streams, refreshes its token and signs out. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { applyChanges, planChanges } from "../../src/config/plan/apply.ts";
import { CLAUDE } from "../messages/claude-code.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { KEYS, type ProgramInTerminal, startInTerminal } from "../support/pseudo-terminal.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

setDefaultTimeout(240_000);

const FILE = `
models: [{ id: sim-fast, interfaces: [messages] }]
accounts:
  - name: sim
    kind: openai
    base_url: \${SIMULATOR_URL}
    credential: upstream-credential
    private_network: true
    models: { sim-fast: sim-fast }
groups: [{ name: default, interfaces: [messages], models: [sim-fast], accounts: [sim] }]
tool_sign_in: { claude_code: { managed_settings: { default: ./claude.json } } }
`;

let gateway: RunningGateway;
let ada: SignedInClient;
let home: string;
let claude: ProgramInTerminal;

beforeAll(async () => {
  gateway = await startTestGateway();
  ada = await signInAs(gateway, "ada@example.com");
  const source = {
    text: FILE,
    fileName: "gateway.yaml",
    environment: { SIMULATOR_URL: gateway.simulator.url },
    readFile: () => JSON.stringify({ companyAnnouncements: ["Welcome to the gateway of the team."] }),
  };
  const planned = await planChanges(gateway.installation, source, { prune: false });
  if (!planned.ok) throw new Error(JSON.stringify(planned.problems));
  await applyChanges(gateway.installation, planned.plan);
  home = mkdtempSync(join(tmpdir(), "model-gateway-claude-login-"));
  prepareComputer();
  claude = startClaude();
});
afterAll(async () => {
  await claude.stop();
  await gateway.stop();
  rmSync(home, { recursive: true });
});

function prepareComputer(): void {
  const work = join(home, "work");
  const etc = join(home, "etc");
  mkdirSync(work);
  mkdirSync(join(etc, "claude-code"), { recursive: true });
  const machine = { forceLoginMethod: "gateway", forceLoginGatewayUrl: gateway.url };
  writeFileSync(join(etc, "claude-code/managed-settings.json"), JSON.stringify(machine));
  const project = { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true };
  const state = { hasCompletedOnboarding: true, theme: "dark", projects: { [work]: project } };
  writeFileSync(join(home, ".claude.json"), JSON.stringify(state));
}

/** The managed settings of the machine exist in the mount namespace of this program only. */
function startClaude(): ProgramInTerminal {
  const mount = `mount -t overlay overlay -o lowerdir=${join(home, "etc")}:/etc /etc && exec ${CLAUDE} --model sim-fast`;
  return startInTerminal(["unshare", "-m", "sh", "-c", mount], {
    cwd: join(home, "work"),
    env: {
      PATH: process.env.PATH ?? "",
      HOME: home,
      BROWSER: "/bin/true",
      DISABLE_AUTOUPDATER: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      IS_SANDBOX: "1",
    },
  });
}

test("signs in with a code that a person approves", async () => {
  await claude.shows(/Run\s*\/login/);
  claude.type("/login");
  await claude.shows(/\/login/);
  await Bun.sleep(1_000);
  claude.type(KEYS.enter);
  await claude.shows(/Enter\s*to\s*connect/);
  claude.type(KEYS.enter);
  await claude.shows(/trust\s*this\s*gateway/);
  claude.type(KEYS.up);
  await Bun.sleep(500);
  claude.type(KEYS.enter);
  const [, code = ""] = await claude.shows(/([B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4})/);
  await ada.call("tools.approve", { body: { user_code: code, name: "Claude Code", group: "default" } });
  await claude.shows(/Connected\s*to\s*Cloud\s*gateway/);
  claude.type(KEYS.enter);
  // It starts again to apply the settings.
  await claude.shows(/Welcome\s*to\s*the\s*gateway\s*of\s*the\s*team/);
});

test("reads the settings of its group and sends requests with its access token", async () => {
  await Bun.sleep(2_000);
  claude.type("Say hello");
  await Bun.sleep(1_000);
  claude.type(KEYS.enter);
  await claude.shows(/built-in\s*simulator/);
  const used = await eventually(async () => {
    const [listed] = (await ada.call("tools.list")).data;
    return listed?.last_used_at === null ? null : listed;
  }, 60_000);
  expect(used).toMatchObject({ name: "Claude Code" });
  expect(readdirSync(join(home, ".claude"))).toContain("remote-settings.json");
});

interface StoredTokens {
  enterpriseGateway: { jwt: string; expiresAt: number; idpRefreshToken: string };
}

test("refreshes its token before the end, and works with the new one", async () => {
  await claude.stop();
  const path = join(home, ".claude/.credentials.json");
  const readTokens = (): StoredTokens => JSON.parse(readFileSync(path, "utf8"));
  const stored = readTokens();
  const { jwt, idpRefreshToken } = stored.enterpriseGateway;
  // As when the access token has a minute left.
  stored.enterpriseGateway.expiresAt = Date.now() + 60_000;
  writeFileSync(path, JSON.stringify(stored));
  claude = startClaude();
  await claude.shows(/Welcome\s*to\s*the\s*gateway\s*of\s*the\s*team/);
  await Bun.sleep(2_000);
  claude.type("Say hello again");
  await Bun.sleep(1_000);
  claude.type(KEYS.enter);
  await claude.shows(/built-in\s*simulator/);
  const refreshed = readTokens().enterpriseGateway;
  expect(refreshed.jwt).not.toBe(jwt);
  expect(refreshed.idpRefreshToken).not.toBe(idpRefreshToken);
  expect(refreshed.expiresAt).toBeGreaterThan(Date.now() + 5 * 60_000);
  expect((await ada.call("tools.list")).data).toHaveLength(1);
});

test("/logout ends the sign-in on the gateway", async () => {
  claude.type("/logout");
  await Bun.sleep(2_000);
  claude.type(KEYS.enter);
  await eventually(async () => (await ada.call("tools.list")).data.length, { equals: 0, withinMs: 60_000 });
});
