/** `model-gateway login`, `logout` and `token`: sign this computer in at a gateway on another machine. */

import { type CommandDefinition, fail } from "../command.ts";
import { PROGRAM } from "../program-name.ts";
import { type StoredTokens, ToolCredentials } from "./credentials.ts";
import {
  checkGatewayUrl,
  discover,
  type Metadata,
  requestTokens,
  revokeTokens,
  startSignIn,
} from "./gateway-client.ts";
import { chooseGateway, getValidToken } from "./valid-token.ts";

const SLOWER_MS = 5_000;
/** Outages while a person approves the code. */
const FAILED_POLLS_MAX = 10;

export const URL_OPTION = { value: "URL", about: "the gateway, if this computer is signed in at several" };

export const login: CommandDefinition = {
  changes: "computer",
  about: `Prints a code, which you approve in the console of the gateway. Tools then get a short-lived token from
\`token\`, and no key has to be stored. The tokens are in ~/.config/model-gateway/credentials.json.`,
  options: {},
  async run(input) {
    const { terminal } = input;
    const url = checkGatewayUrl(input.require("URL"));
    const metadata = await discover(url);
    const started = await startSignIn(url, metadata);
    terminal.printNote(
      `Open this page, sign in, and check the code ${terminal.paint.bold(started.user_code)}:`,
    );
    terminal.printNote(`  ${started.verification_uri_complete}`);
    const tokens = await waitForApproval(metadata, started);
    const credentials = new ToolCredentials(input.environment);
    await credentials.exclusively(async () => credentials.write(url, tokens));
    terminal.print(`Signed in at ${url}.`);
    terminal.printNote(`To set up a tool: ${PROGRAM} setup claude|codex|gemini|opencode`);
  },
};

async function waitForApproval(
  metadata: Metadata,
  { device_code, interval, expires_in }: { device_code: string; interval: number; expires_in: number },
): Promise<StoredTokens> {
  const endsMs = performance.now() + expires_in * 1000;
  let pauseMs = interval * 1000;
  let failedPolls = 0;
  const fields = { grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code };
  while (performance.now() < endsMs) {
    await Bun.sleep(pauseMs);
    const reply = await requestTokens(metadata, fields);
    if (reply.kind === "tokens") return reply.tokens;
    if (reply.kind === "unavailable") {
      failedPolls += 1;
      if (failedPolls > FAILED_POLLS_MAX) fail(`The gateway cannot be reached: ${reply.message}.`);
    } else if (reply.code === "slow_down") pauseMs += SLOWER_MS;
    else if (reply.code !== "authorization_pending") fail(reply.message, "Run the same command again.");
  }
  return fail("The code has expired.", "Run the same command again.");
}

export const logout: CommandDefinition = {
  changes: "computer",
  options: { url: URL_OPTION },
  async run(input) {
    const credentials = new ToolCredentials(input.environment);
    const url = chooseGateway(credentials, input.text("url"));
    const isEnded = await credentials.exclusively(async () => {
      const tokens = credentials.read().get(url);
      const ended = tokens === undefined || (await revokeTokens(tokens));
      credentials.write(url, null);
      return ended;
    });
    if (!isEnded)
      fail(
        `The tokens were deleted here, but ${url} could not be reached.`,
        "End the sign-in in the console: Profile and security, Signed-in tools.",
      );
    input.terminal.print(`Signed out at ${url}.`);
  },
};

export const printToken: CommandDefinition = {
  changes: "computer",
  about:
    "Refreshes it when needed. Tools call this command: Codex as auth.command, Claude Code as apiKeyHelper.",
  options: { url: URL_OPTION },
  async run(input) {
    const credentials = new ToolCredentials(input.environment);
    const url = chooseGateway(credentials, input.text("url"));
    input.terminal.print(await getValidToken(credentials, url, input.terminal.printNote));
  },
};
