import { describe, expect, test } from "bun:test";
import {
  type AddressBlock,
  type AdmittedConnection,
  addressBlock,
  ConnectionAdmission,
} from "./admission.ts";

describe("an address block", () => {
  test.each([
    ["192.0.2.7", "192.0.2.0/24"],
    ["192.0.2.255", "192.0.2.0/24"],
    ["::ffff:192.0.2.7", "192.0.2.0/24"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"],
    ["2001:db8:1::9", "2001:db8:1::/48"],
    ["2001:db8::9", "2001:db8:0::/48"],
    ["fe80::1", "fe80:0:0::/48"],
    ["::1", "0:0:0::/48"],
  ])("of %s is %s", (address, block) => {
    expect(addressBlock(address)).toBe(block);
  });
});

class Guest implements AdmittedConnection {
  readonly block: AddressBlock;
  yieldOrder: number | null;
  isOpen = true;
  readonly #lobby: Lobby;

  constructor(lobby: Lobby, address: string, yieldOrder: number | null) {
    this.#lobby = lobby;
    this.block = lobby.admission.getBlock(address);
    this.yieldOrder = yieldOrder;
    lobby.candidates.add(this);
    lobby.admission.add(this);
  }

  terminate(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.yieldOrder = null;
    this.#lobby.candidates.delete(this);
    this.#lobby.admission.remove(this);
  }
}

class Lobby {
  readonly candidates = new Set<Guest>();
  nowMs = 0;
  searches = 0;
  readonly admission: ConnectionAdmission<Guest>;

  constructor(max: number) {
    this.admission = new ConnectionAdmission<Guest>({
      max,
      blockShare: 1 / 2,
      isProxy: (address) => address === "10.0.0.1",
      all: () => {
        this.searches++;
        return this.candidates;
      },
      nowMs: () => this.nowMs,
    });
  }

  open(address: string, yieldOrder: number | null = this.nowMs): Guest {
    return new Guest(this, address, yieldOrder);
  }
}

describe("connection admission", () => {
  test("closes the connection with the smallest yield order, and none below the limit", () => {
    const lobby = new Lobby(4);
    const candidates = [30, 10, null, 20].map((order, i) => lobby.open(`192.0.${i}.1`, order));
    expect(lobby.searches).toBe(0);
    lobby.open("192.0.9.1", 40);
    lobby.open("192.0.10.1", 40);
    expect(candidates.map(({ isOpen }) => isOpen)).toEqual([true, false, true, false]);
  });

  test("keeps a connection whose yield order has changed", () => {
    const lobby = new Lobby(3);
    const [first, second, third] = [1, 2, 3].map((order) => lobby.open(`192.0.${order}.1`, order));
    lobby.open("192.0.9.1", 9);
    expect(first?.isOpen).toBe(false);
    if (second !== undefined) second.yieldOrder = 8;
    lobby.open("192.0.10.1", 10);
    expect([second?.isOpen, third?.isOpen]).toEqual([true, false]);
  });

  test("limits one address block to half of the connections, but not a proxy", () => {
    const lobby = new Lobby(8);
    const crowd = Array.from({ length: 20 }, (_, i) => lobby.open("192.0.2.1", i));
    expect(crowd.filter(({ isOpen }) => isOpen).length).toBe(4);
    expect(crowd.slice(-4).every(({ isOpen }) => isOpen)).toBe(true);
    const others = Array.from({ length: 4 }, (_, i) => lobby.open(`198.51.${i}.1`, 100));
    expect(others.every(({ isOpen }) => isOpen)).toBe(true);
    for (const connection of [...lobby.candidates]) connection.terminate();
    const behindProxy = Array.from({ length: 8 }, () => lobby.open("10.0.0.1", 100));
    expect(behindProxy.every(({ isOpen }) => isOpen)).toBe(true);
  });

  test("closes a new connection if no other may close, without a search for each", () => {
    const lobby = new Lobby(2);
    lobby.open("192.0.2.1", null);
    lobby.open("192.0.3.1", null);
    const late = Array.from({ length: 100 }, (_, i) => lobby.open(`198.51.${i}.1`, 5));
    expect(late.some(({ isOpen }) => isOpen)).toBe(false);
    expect(lobby.searches).toBe(1);
    lobby.nowMs = 1_000;
    lobby.open("198.51.100.1", 5);
    expect(lobby.searches).toBe(2);
  });

  test("searches all connections once for hundreds of new ones", () => {
    const lobby = new Lobby(2_000);
    for (let i = 0; i < 12_000; i++) lobby.open(`10.${i % 250}.${i % 199}.1`, i);
    expect(lobby.candidates.size).toBe(2_000);
    expect(lobby.searches).toBeLessThan(45);
  });
});
