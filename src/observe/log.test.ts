import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { mintApiKey } from "../secrets/api-key.ts";
import { mintAccessToken, mintSecret } from "../secrets/random-secret.ts";
import { mintRecoveryCode } from "../secrets/recovery-code.ts";
import { mintRedeemCode } from "../secrets/redeem-code.ts";
import { mintTotpSecret } from "../secrets/totp.ts";
import { openLog } from "./log.ts";

const SECRETS: Readonly<Record<string, () => string>> = {
  "an API key": () => mintApiKey(randomBytes).secret,
  "a personal access token": () => mintAccessToken(randomBytes).secret,
  "what a session's cookie or a one-time link holds": () => mintSecret(randomBytes).secret,
  "a redeem code": () => mintRedeemCode(randomBytes).code,
  "a recovery code": () => mintRecoveryCode(randomBytes),
  "the secret of a second factor": () => mintTotpSecret(randomBytes),
  "an upstream's key": () => `sk-proj-${randomBytes(20).toString("hex")}`,
};

function writeLine(reason: string): string {
  let written = "";
  openLog(
    () => 0,
    (line) => {
      written += line;
    },
  ).error("request_failed", { reason });
  return written;
}

/** Places of secrets in real messages: within words, in a URL, in a header, on a separate line. */
const PLACES = [
  (secret: string) => `duplicate value ${secret} for column`,
  (secret: string) => `https://gw.example.com/console/verify#${secret}`,
  (secret: string) => `cookie: __Host-session=${secret}; other=1`,
  (secret: string) => `{"token":"${secret}"}`,
  (secret: string) => `Error: no such thing:\n${secret}\n    at run`,
  (secret: string) => secret,
];

test.each(Object.keys(SECRETS))("%s never appears in a log line", (kind) => {
  for (let n = 0; n < 200; n += 1) {
    const secret = SECRETS[kind]?.() ?? "";
    for (const place of PLACES) {
      const line = writeLine(place(secret));
      expect(line).not.toContain(secret);
      expect(line).toContain("[redacted]");
    }
  }
});

test("ids, digests, times, addresses and stack traces stay readable", () => {
  const plain = [
    "req_019df8c2-7a7b-7c3e-9d41-0b2f6c1e5a90",
    "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "https://api.example.com/v1/responses?stream=true 2026-11-16T22:03:04.000Z",
    "at openDescriptorsOfTheListeningServer (src/server/http/listen.ts:12:34)",
    "user ada.lovelace-king@example.com, task-force-12345678, 10.0.0.1:8787",
    "2001:0db8:85a3:0000:0000:8a2e:0370:7334, window-2026-11-16, a-1-b",
  ].join("\n");
  expect(JSON.parse(writeLine(plain)).reason).toBe(plain);
});
