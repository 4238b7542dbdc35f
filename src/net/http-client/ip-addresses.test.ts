import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type AddressClass, canonicalAddress, classifyAddress, mayDial } from "./ip-addresses.ts";

/** Every spelling that the gateway must recognize, with the class of its destination. */
const CORPUS: Readonly<Record<AddressClass, readonly string[]>> = {
  public: [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "168.63.129.15",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "134744072",
    "0x08080808",
    "010.8.8.8",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "[2a00:1450:4001:81b::200e]",
    "::ffff:8.8.8.8",
    "::8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
    "2001:0:808:808::f7f7:f7f7",
    "2001:200::1",
  ],
  private: [
    "10.0.0.0",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.65535",
    "0xa.1",
    "012.0.0.1",
    "0xc0a80001",
    "3232235521",
    "100.64.0.1",
    "100.127.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "fc00::1",
    "fdff:ffff::1",
    "fd12:3456:789a::1%eth0",
    "2001:2::1",
    "::ffff:10.0.0.1",
    "::ffff:c0a8:1",
    "::ffff:0:10.0.0.1",
    "::10.0.0.1",
    "64:ff9b::10.0.0.1",
    "2002:a00:1::",
    "2002:c0a8:101::1",
    "2001:0:808:808::f5ff:fffe",
    "2001:0:a00:1::f7f7:f7f7",
    "2a00::5efe:10.0.0.1",
    "2a00::200:5efe:192.168.0.1",
  ],
  loopback: [
    "127.0.0.1",
    "127.255.255.254",
    "127.1",
    "127.0.1",
    "0x7f.0.0.1",
    "0x7F000001",
    "0177.0.0.1",
    "017700000001",
    "2130706433",
    "127.0.0.1.",
    "::1",
    "[::1]",
    "0:0:0:0:0:0:0:1",
    "0000:0000:0000:0000:0000:0000:0000:0001",
    "::1%lo",
    "::0.0.0.1",
    "::ffff:127.0.0.1",
    "::FFFF:7F00:1",
    "[::ffff:127.0.0.1]",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
  ],
  link_local: [
    "169.254.0.1",
    "169.254.255.255",
    "0xa9fe0001",
    "fe80::1",
    "fe80::1%eth0",
    "[fe80::1%25eth0]",
    "febf:ffff::1",
    "::ffff:169.254.0.1",
    "64:ff9b::169.254.1.1",
    "2002:a9fe:1::",
  ],
  metadata: [
    "169.254.169.254",
    "169.254.43518",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "168.63.129.16",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd00:0ec2:0:0:0:0:0:0254",
    "fd20:ce::254",
    "fd00:42::42",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "2001:0:808:808::5601:5601",
    "2a00::5efe:169.254.169.254",
    "::ffff:100.100.100.200",
  ],
  reserved: [
    "0.0.0.0",
    "0",
    "0x",
    "0.1.2.3",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "198.51.100.7",
    "203.0.113.9",
    "192.88.99.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "4294967295",
    "::",
    "::2",
    "::ffff:0.0.0.0",
    "64:ff9b:1::8.8.8.8",
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:2::1",
    "100::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "4000::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
  ],
  invalid: [
    "",
    " ",
    ".",
    "127.0.0.1 ",
    "\t127.0.0.1",
    "127.0.0.1\0",
    "localhost",
    "256.0.0.1",
    "1.2.3.4.5",
    "1..2.3",
    "127.0.0.1..",
    "08.0.0.1",
    "4294967296",
    "1.2.65536",
    "0xg.0.0.1",
    "-1.0.0.1",
    "+1.0.0.1",
    "1e3",
    "127.0.0.1:80",
    "127.0.0.1/8",
    "127.0.0.1%eth0",
    "[127.0.0.1]",
    "１２７.0.0.1",
    ":",
    ":::",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "12345::",
    "::g",
    "::1%",
    "::1%a%b",
    "[::1",
    "::1]",
    "::ffff:127.1",
    "::ffff:0177.0.0.1",
    "::127.0.0.1:1",
    "127.0.0.1::",
    "::ffff:256.0.0.1",
  ],
};

describe("address classification by destination", () => {
  for (const [kind, addresses] of Object.entries(CORPUS)) {
    test.each(addresses.map((address) => [address]))(`%p is ${kind}`, (address) => {
      expect<string>(classifyAddress(address)).toBe(kind);
    });
  }
});

describe("the dial permission", () => {
  const refused = (kind: AddressClass, privateNetwork: boolean) =>
    CORPUS[kind].filter((address) => !mayDial(address, { privateNetwork }).ok);

  test("is granted to public addresses", () => {
    expect(refused("public", false)).toEqual([]);
    expect(refused("public", true)).toEqual([]);
  });

  test.each(["private", "loopback"] as const)(
    "is granted to %s addresses only on a private network",
    (kind) => {
      expect(refused(kind, true)).toEqual([]);
      expect(refused(kind, false)).toEqual([...CORPUS[kind]]);
    },
  );

  test.each(["link_local", "metadata", "reserved", "invalid"] as const)(
    "is never granted to %s addresses",
    (kind) => {
      expect(refused(kind, true)).toEqual([...CORPUS[kind]]);
      expect(refused(kind, false)).toEqual([...CORPUS[kind]]);
    },
  );

  test("is refused with the address class as reason", () => {
    expect(mayDial("::ffff:169.254.169.254", { privateNetwork: true })).toEqual({
      ok: false,
      reason: "metadata",
    });
  });
});

describe("the canonical form of an address", () => {
  test.each([
    ["0x7f.1", "127.0.0.1"],
    ["::ffff:7f00:1", "127.0.0.1"],
    ["[2001:0DB8:0:0:1:0:0:1]", "2001:db8::1:0:0:1"],
    ["fe80::1%eth0", "fe80::1"],
    ["1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"],
    ["::", "::"],
    ["1::", "1::"],
    ["64:ff9b::1.2.3.4", "64:ff9b::102:304"],
  ])("%p becomes %p", (written, canonical) => {
    expect(canonicalAddress(written)).toBe(canonical);
  });

  test("does not exist for a host name", () => {
    expect(canonicalAddress("api.example.com")).toBeNull();
  });

  test("of IPv4 is the one of the URL parser", () => {
    const number = fc
      .tuple(fc.nat(0xffffffff), fc.constantFrom(8, 10, 16))
      .map(([value, base]) => (base === 16 ? "0x" : base === 8 ? "0" : "") + value.toString(base));
    const small = fc
      .tuple(fc.nat(300), fc.constantFrom(8, 10, 16))
      .map(([value, base]) => (base === 16 ? "0x" : base === 8 ? "0" : "") + value.toString(base));
    fc.assert(
      fc.property(fc.array(small, { maxLength: 4 }), number, (head, last) => {
        const text = [...head, last].join(".");
        expect(canonicalAddress(text)).toBe(URL.parse(`http://${text}/`)?.hostname ?? null);
      }),
      { numRuns: 2_000 },
    );
  });

  test("of IPv6 is the one of the URL parser", () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const host = URL.parse(`http://[${text}]/`)?.hostname;
        fc.pre(host !== undefined);
        const canonical = canonicalAddress(text);
        if (canonical?.includes(":")) expect(`[${canonical}]`).toBe(host);
        else expect(host).toStartWith("[::ffff:");
      }),
      { numRuns: 2_000 },
    );
  });

  test("has the same address class as every other spelling", () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV4Extended(), fc.ipV6()), (text) => {
        expect(classifyAddress(canonicalAddress(text) ?? "")).toBe(classifyAddress(text));
      }),
      { numRuns: 2_000 },
    );
  });

  test("an embedded IPv4 address keeps its class in every IPv6 form", () => {
    const hex = (high: string, low: string) => ((Number(high) << 8) | Number(low)).toString(16);
    fc.assert(
      fc.property(fc.ipV4(), (inner) => {
        const [a = "", b = "", c = "", d = ""] = inner.split(".");
        const wrapped = [`::ffff:${inner}`, `::ffff:0:${inner}`, `64:ff9b::${inner}`];
        wrapped.push(`2002:${hex(a, b)}:${hex(c, d)}::1`);
        for (const text of wrapped) expect(classifyAddress(text)).toBe(classifyAddress(inner));
      }),
      { numRuns: 1_000 },
    );
  });

  test("never throws, on any text", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9a-fx:.%[\]]{0,40}$/)), (text) => {
        expect(classifyAddress(text)).toBeString();
      }),
      { numRuns: 5_000 },
    );
  });
});
