import { describe, expect, test } from "bun:test";
import { chooseSubprotocol, readSubprotocolKey } from "./subprotocols.ts";

const KEY = "gw_secret-1";
const OFFERED = `gateway-key.${Buffer.from(KEY).toString("base64url")}`;
const page = { origin: "https://gateway.example.com" };

const presented = (headers: Record<string, string>) =>
  readSubprotocolKey(new Headers(headers)).get("authorization");

describe("the API key of a browser page", () => {
  test("is found among the offered subprotocols", () => {
    expect(presented({ ...page, "sec-websocket-protocol": `responses, ${OFFERED}` })).toBe(`Bearer ${KEY}`);
    expect(presented({ ...page, "sec-websocket-protocol": `${OFFERED},responses` })).toBe(`Bearer ${KEY}`);
  });

  test("is ignored with an Authorization header and without an Origin", () => {
    const protocol = { "sec-websocket-protocol": `responses, ${OFFERED}` };
    expect(presented({ ...page, ...protocol, authorization: "Bearer other" })).toBe("Bearer other");
    expect(presented(protocol)).toBeNull();
  });

  test("with a line break is invalid", () => {
    const protocol = `gateway-key.${Buffer.from("a\r\nx-evil: 1").toString("base64url")}`;
    expect(presented({ ...page, "sec-websocket-protocol": protocol })).toBe("Bearer unreadable");
    expect(presented({ ...page, "sec-websocket-protocol": "gateway-key." })).toBe("Bearer unreadable");
  });
});

describe("the selected subprotocol", () => {
  const completed = (protocol: string) =>
    chooseSubprotocol(new Headers({ "sec-websocket-protocol": protocol }));

  test("is ours if it is offered, and never another or a key", () => {
    expect(completed(`responses, ${OFFERED}`)).toBe("responses");
    expect(completed(`${OFFERED}, responses`)).toBe("responses");
    expect(completed("a, responses")).toBe("responses");
    expect(completed("a, b")).toBe("");
    expect(completed(OFFERED)).toBe("");
    expect(chooseSubprotocol(new Headers())).toBe("");
  });
});
