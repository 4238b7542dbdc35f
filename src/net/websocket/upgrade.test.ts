import { expect, test } from "bun:test";
import { upgradeHead } from "./upgrade.ts";

const PROPER = {
  connection: "keep-alive, Upgrade",
  upgrade: "WebSocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
};

function buildHead(change: Record<string, string> = {}, protocol = ""): string | null {
  const headers = new Headers({ ...PROPER, ...change });
  return upgradeHead({ headers, requestId: "req_1", protocol })?.toString("latin1") ?? null;
}

test("an upgrade response contains the accept digest and the request id", () => {
  expect(buildHead()).toBe(
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n" +
      "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nx-request-id: req_1\r\n\r\n",
  );
});

test("an upgrade response contains a subprotocol only if one was selected", () => {
  expect(buildHead({}, "responses")).toContain("\r\nsec-websocket-protocol: responses\r\n");
  expect(buildHead()).not.toContain("sec-websocket-protocol");
});

const IMPROPER: [what: string, change: Record<string, string>, protocol?: string][] = [
  ["another version", { "sec-websocket-version": "8" }],
  ["no key", { "sec-websocket-key": "" }],
  ["a key of another length", { "sec-websocket-key": "dGhlIHNhbXBsZQ==" }],
  ["a key that is not Base64", { "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZ!==" }],
  ["two keys", { "sec-websocket-key": `${PROPER["sec-websocket-key"]}, ${PROPER["sec-websocket-key"]}` }],
  ["an upgrade to another protocol", { upgrade: "h2c" }],
  ["a Connection header without Upgrade", { connection: "keep-alive" }],
  ["a subprotocol that is not a token", {}, 'respon"ses'],
];
for (const [what, change, protocol] of IMPROPER) {
  test(`${what} is not a valid upgrade request`, () => expect(buildHead(change, protocol)).toBeNull());
}
