/** Names that people choose in the heads of responses: none may break a head, or add a line to it. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { rawRequest, readHeader } from "../support/raw-http.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

/** The low bytes of U+010D and U+010A are a carriage return and a line feed. */
const NAMES = ["一组", "Účetní", "a\u010d\u010aset-cookie: session=evil", "50 %"];
const key = (index: number) => `test-key-0123456789-0123456789-01234567-${index}`;

let gateway: RunningGateway;

beforeAll(async () => {
  const group = (name: string) => ({
    name,
    interfaces: ["chat"],
    models: ["fast-chat"],
    accounts: ["sim"],
  });
  gateway = await startTestGateway({
    file: JSON.stringify({
      models: [{ id: "fast-chat", interfaces: ["chat"] }],
      accounts: [
        {
          name: "sim",
          kind: "openai",
          base_url: `$${"{SIMULATOR_URL}"}`,
          credential: "secret-credential",
          private_network: true,
          models: { "fast-chat": "sim-fast" },
        },
      ],
      groups: [
        ...NAMES.map((name) => ({ ...group(name), fallback: [{ group: "last", when: ["failing"] }] })),
        group("last"),
      ],
      users: [{ email: "ada@example.com", role: "user" }],
      keys: NAMES.map((name, i) => ({ name: `k${i}`, user: "ada@example.com", group: name, secret: key(i) })),
    }),
  });
});
afterAll(() => gateway.stop());

test.each(NAMES.map((name, i) => [name, i] as const))(
  "the group %j is in one header line",
  async (name, i) => {
    for (const stream of [false, true]) {
      const body = JSON.stringify({
        model: "fast-chat",
        stream,
        messages: [{ role: "user", content: "Hi" }],
      });
      const response = await rawRequest(
        gateway.url,
        `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${key(i)}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      expect(response.status).toBe(200);
      expect(response.head).toMatch(/^[ -~\n]+$/);
      expect(readHeader(response, "set-cookie")).toBeNull();
      expect(decodeURIComponent(readHeader(response, "x-gateway-group") ?? "")).toBe(name);
    }
  },
);
