/** The host names under which pages and the console's API are served: protection against DNS rebinding, and HSTS. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type RawHttpResponse, rawRequest, readHeader } from "../support/raw-http.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({
    environment: { PUBLIC_URL: "https://gw.example.com" },
    allowedHosts: ["gateway.lan"],
  });
});
afterAll(() => gateway.stop());

function get(path: string, host: string, headers = ""): Promise<RawHttpResponse> {
  return rawRequest(gateway.url, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${headers}\r\n`);
}

const GUARDED = [
  "/console",
  "/console/",
  "/console/keys",
  "/explorer/",
  "/docs/",
  "/api/session",
  "/api/none",
];
const OPEN = ["/healthz", "/readyz", "/openapi.json", "/v1/models"];

const OWN = [
  "gw.example.com",
  "GW.Example.com:443",
  "gw.example.com.",
  "gateway.lan:8787",
  "localhost",
  "localhost:8787",
  "console.localhost",
  "127.0.0.1:8787",
  "192.168.1.20",
  "[::1]:8787",
];
const FOREIGN = [
  "evil.example",
  "evil.example:8787",
  "gw.example.com.evil.example",
  "xgw.example.com",
  "sub.gateway.lan",
  "127.0.0.1.evil.example",
  "localhost.evil.example",
  "notlocalhost",
  "1.2.3",
  "0x7f.0.0.1",
];

describe("a request for a page or for the console's API", () => {
  test.each(OWN)("to %s is served", async (host) => {
    for (const path of GUARDED) expect([path, (await get(path, host)).status]).not.toEqual([path, 421]);
  });

  test.each(FOREIGN)("to %s is rejected with the name of the setting", async (host) => {
    for (const path of GUARDED) {
      const response = await get(path, host);
      expect([path, response.status]).toEqual([path, 421]);
      expect(response.body).toContain("server.allowed_hosts");
      expect(response.body).not.toContain("set-cookie");
    }
  });

  test("is rejected by its Host, regardless of proxy headers", async () => {
    const forwarded = "X-Forwarded-Host: gw.example.com\r\nForwarded: host=gw.example.com\r\n";
    expect((await get("/api/session", "evil.example", forwarded)).status).toBe(421);
  });

  test("without a Host is rejected", async () => {
    const response = await rawRequest(gateway.url, "GET /api/session HTTP/1.0\r\n\r\n");
    expect(response.status).toBe(421);
  });

  test("gets the error as JSON from the API and as HTML from pages", async () => {
    const api = await get("/api/session", "evil.example");
    expect(readHeader(api, "content-type")).toStartWith("application/json");
    expect(JSON.parse(api.body).error).toMatchObject({ code: "misdirected_request", param: null });
    const page = await get("/console/", "evil.example");
    expect(readHeader(page, "content-type")).toStartWith("text/html");
    expect(page.body).toContain("evil.example");
    expect(readHeader(page, "x-request-id")).toStartWith("req_");
  });

  test("gets an error with the host name as the setting expects it, truncated to a valid length", async () => {
    const { body } = await get("/api/session", "gw.lan:8787");
    expect(JSON.parse(body).error.message).toStartWith('"gw.lan" is not a host name of this gateway.');
    expect((await get("/api/session", "a".repeat(8_000))).body.length).toBeLessThan(1_000);
  });

  test("changes nothing under a foreign host, not even a sign-in", async () => {
    const body = JSON.stringify({ email: "a@b.example", password: "correct horse battery" });
    const head = `POST /api/session HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    expect((await rawRequest(gateway.url, head + body)).status).toBe(421);
  });
});

test("endpoints for programs and monitoring are served under any host", async () => {
  for (const path of OPEN) {
    const response = await get(path, "evil.example", `Authorization: Bearer ${TEST_KEY}\r\n`);
    expect([path, response.status]).toEqual([path, 200]);
  }
  expect((await get("/metrics", "evil.example")).status).toBe(401);
  expect((await get("/", "evil.example")).status).toBe(302);
});

describe("HSTS", () => {
  test("is sent with pages and the console's API if the public URL is https", async () => {
    for (const path of GUARDED) {
      const response = await get(path, "gw.example.com");
      expect([path, readHeader(response, "strict-transport-security")]).toEqual([path, "max-age=31536000"]);
    }
    expect(readHeader(await get("/v1/models", "gw.example.com"), "strict-transport-security")).toBeNull();
  });

  test("is not sent with plain http", async () => {
    const plain = await startTestGateway();
    try {
      const { headers } = await fetch(`${plain.url}/api/session`);
      expect(headers.get("strict-transport-security")).toBeNull();
    } finally {
      await plain.stop();
    }
  });
});
