import { expect, test } from "bun:test";
import { isInNetworks, parseNetwork } from "./networks.ts";

const isIn = (address: string, ...networks: string[]) =>
  isInNetworks(
    address,
    networks.map((text) => parseNetwork(text)).filter((network) => network !== null),
  );

test("an address is in a network if it has its leading bits", () => {
  expect(isIn("10.255.0.1", "10.0.0.0/8")).toBe(true);
  expect(isIn("11.0.0.1", "10.0.0.0/8")).toBe(false);
  expect(isIn("11.0.0.1", "10.0.0.0/8", "11.0.0.1")).toBe(true);
  expect(isIn("2001:db8:1::7", "2001:db8::/32")).toBe(true);
  expect(isIn("2001:db9::7", "2001:db8::/32")).toBe(false);
  expect(isIn("203.0.113.7", "0.0.0.0/0")).toBe(true);
});

test("an IPv4 address inside an IPv6 address is the IPv4 address", () => {
  expect(isIn("::ffff:10.1.2.3", "10.0.0.0/8")).toBe(true);
  expect(isIn("::ffff:10.1.2.3", "::/0")).toBe(false);
});

test("what is not an address is in no network", () => {
  for (const address of ["", "unix", "10.0.0", "10.0.0.0/8"])
    expect(isIn(address, "0.0.0.0/0", "::/0")).toBe(address === "10.0.0");
});

test("what is not a network is rejected", () => {
  for (const text of [
    "",
    "10.0.0.0/33",
    "10.0.0.1/8",
    "010.0.0.0/8",
    "10.0.0/8",
    "::1/129",
    "host",
    "1/8",
    "10.0.0.0/08",
  ])
    expect([text, parseNetwork(text)]).toEqual([text, null]);
});
