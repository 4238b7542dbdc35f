/**
 * Decides which IP addresses the gateway may connect to. Pure functions from text to verdict.
 *
 * An address is classified by where its packets go, not by how it is written: an IPv4 address inside an IPv6 address
 * (mapped, translated, tunnelled) is classified as the IPv4 address. An unreadable address is "invalid", an address
 * that is not known to be public is "reserved", and neither may be dialled.
 */

export type AddressClass =
  | "public"
  | "private"
  | "loopback"
  | "link_local"
  | "metadata"
  | "reserved"
  | "invalid";

type DialVerdict = { ok: true } | { ok: false; reason: Exclude<AddressClass, "public"> };

/** An IPv4 address is one 32-bit number, an IPv6 address eight 16-bit groups. */
type Address = { family: 4; value: number } | { family: 6; groups: readonly number[] };

/** In ascending severity. An address with two interpretations gets the more severe class. */
const SEVERITY: readonly AddressClass[] = [
  "public",
  "private",
  "loopback",
  "reserved",
  "link_local",
  "metadata",
  "invalid",
];

const ALLOWED: DialVerdict = Object.freeze({ ok: true });

export function mayDial(ip: string, { privateNetwork }: { privateNetwork: boolean }): DialVerdict {
  const kind = classifyAddress(ip);
  if (kind === "public") return ALLOWED;
  if (privateNetwork && (kind === "private" || kind === "loopback")) return ALLOWED;
  return { ok: false, reason: kind };
}

/** Whether an address needs `private_network`. Null for a name, which is looked up when dialled. */
export function findLocalAddress(baseUrl: string): "private" | "loopback" | null {
  const host = URL.parse(baseUrl)?.hostname ?? "";
  if (host === "localhost" || host.endsWith(".localhost")) return "loopback";
  const kind = classifyAddress(host.replace(/^\[|\]$/g, ""));
  return kind === "private" || kind === "loopback" ? kind : null;
}

export function classifyAddress(ip: string): AddressClass {
  const address = parseAddress(ip);
  if (address === null) return "invalid";
  return address.family === 4 ? classifyV4(address.value) : classifyV6(address.groups);
}

/** One spelling per destination, for a URL once IPv6 is in brackets; null for anything but an address. */
export function canonicalAddress(text: string): string | null {
  const address = parseAddress(text);
  if (address === null) return null;
  if (address.family === 4) return formatV4(address.value);
  const mapped = mappedV4(address.groups);
  return mapped === null ? formatV6(address.groups) : formatV4(mapped);
}

/** The address as a number. An IPv4 address inside an IPv6 address counts as IPv4; null for anything but an address. */
export function addressNumber(text: string): { readonly bits: 32 | 128; readonly value: bigint } | null {
  const address = parseAddress(text);
  if (address === null) return null;
  if (address.family === 4) return { bits: 32, value: BigInt(address.value) };
  const mapped = mappedV4(address.groups);
  if (mapped !== null) return { bits: 32, value: BigInt(mapped) };
  return { bits: 128, value: address.groups.reduce((value, group) => (value << 16n) | BigInt(group), 0n) };
}

function v4(text: string): number {
  return parseV4(text) ?? 0;
}

/** [network, prefix length, class]. The first match decides, so single addresses come before their ranges. */
const V4_RANGES: readonly (readonly [number, number, AddressClass])[] = [
  [v4("169.254.169.254"), 32, "metadata"], // AWS, Google, Azure, Oracle and most others
  [v4("169.254.170.2"), 32, "metadata"], // AWS container credentials
  [v4("169.254.170.23"), 32, "metadata"], // AWS EKS pod identity
  [v4("100.100.100.200"), 32, "metadata"], // Alibaba; inside the CGNAT range
  [v4("168.63.129.16"), 32, "metadata"], // Azure's host agent; otherwise a public range
  [v4("169.254.0.0"), 16, "link_local"],
  [v4("0.0.0.0"), 8, "reserved"], // Linux connects 0.0.0.0 to itself
  [v4("127.0.0.0"), 8, "loopback"],
  [v4("10.0.0.0"), 8, "private"],
  [v4("172.16.0.0"), 12, "private"],
  [v4("192.168.0.0"), 16, "private"],
  [v4("100.64.0.0"), 10, "private"], // carrier-grade NAT, also used by overlay networks
  [v4("198.18.0.0"), 15, "private"], // benchmarking
  [v4("192.0.0.0"), 24, "reserved"],
  [v4("192.0.2.0"), 24, "reserved"], // documentation
  [v4("198.51.100.0"), 24, "reserved"], // documentation
  [v4("203.0.113.0"), 24, "reserved"], // documentation
  [v4("192.88.99.0"), 24, "reserved"], // 6to4 relays, withdrawn
  [v4("224.0.0.0"), 3, "reserved"], // multicast, future use, broadcast
];

function classifyV4(value: number): AddressClass {
  for (const [network, prefix, kind] of V4_RANGES) {
    // In JavaScript, shifting by 32 is shifting by 0, as a /32 needs.
    if (value >>> (32 - prefix) === network >>> (32 - prefix)) return kind;
  }
  return "public";
}

/** Instance metadata addresses on IPv6, as leading groups: all local services of Amazon, then single addresses. */
const V6_METADATA: readonly (readonly number[])[] = [
  [0xfd00, 0x0ec2],
  [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254], // Google
  [0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x0042], // Scaleway
];

function classifyV6(groups: readonly number[]): AddressClass {
  const [g0 = 0, g1 = 0, g2 = 0, g3 = 0, g4 = 0, g5 = 0, g6 = 0, g7 = 0] = groups;
  const last = join(g6, g7);

  const leadingZeros = groups.findIndex((group) => group !== 0);
  if (leadingZeros === -1) return "reserved";
  if (leadingZeros === 7 && g7 === 1) return "loopback";

  const mapped = mappedV4(groups);
  if (mapped !== null) return classifyV4(mapped);
  if (leadingZeros >= 6) return classifyV4(last); // IPv4-compatible, ::/96
  if (leadingZeros === 4 && g4 === 0xffff && g5 === 0) return classifyV4(last); // translated, ::ffff:0:0:0/96
  if (g0 === 0x64 && g1 === 0xff9b) {
    // In the local-use prefix 64:ff9b:1::/48, each network chooses the position of the IPv4 address. Only the
    // well-known prefix can be classified by the address it contains.
    const wellKnown = g2 === 0 && g3 === 0 && g4 === 0 && g5 === 0;
    return wellKnown ? classifyV4(last) : "reserved";
  }

  if ((g0 & 0xffc0) === 0xfe80) return "link_local";
  if ((g0 & 0xfe00) === 0xfc00) {
    const metadata = V6_METADATA.some((prefix) => prefix.every((group, index) => groups[index] === group));
    return worse(metadata ? "metadata" : "private", classifyIsatap(g4, g5, last));
  }
  // Outside 2000::/3 no address is global unicast: multicast, old site-local, discard, segment routing.
  if ((g0 & 0xe000) !== 0x2000) return "reserved";

  if (g0 === 0x2002) return classifyV4(join(g1, g2)); // 6to4
  if (g0 === 0x2001 && g1 === 0) {
    // Teredo contains the plain address of its server and the inverted address of its client. Packets may reach both.
    return worse(classifyV4(join(g2, g3)), classifyV4(~last >>> 0));
  }
  if (g0 === 0x2001 && g1 === 2 && g2 === 0) return "private"; // benchmarking
  if (g0 === 0x2001 && g1 < 0x200) return "reserved"; // protocol assignments
  if (g0 === 0x2001 && g1 === 0xdb8) return "reserved"; // documentation
  if (g0 === 0x3fff && g1 < 0x1000) return "reserved"; // documentation
  return classifyIsatap(g4, g5, last);
}

/**
 * ISATAP puts an IPv4 address behind 0:5efe (or 200:5efe) in any prefix. Without that marker the result is "public".
 */
function classifyIsatap(g4: number, g5: number, last: number): AddressClass {
  return (g4 & 0xfdff) === 0 && g5 === 0x5efe ? classifyV4(last) : "public";
}

function worse(a: AddressClass, b: AddressClass): AddressClass {
  return SEVERITY.indexOf(a) >= SEVERITY.indexOf(b) ? a : b;
}

function mappedV4(groups: readonly number[]): number | null {
  for (let index = 0; index < 5; index++) if (groups[index] !== 0) return null;
  return groups[5] === 0xffff ? join(groups[6] ?? 0, groups[7] ?? 0) : null;
}

function join(high: number, low: number): number {
  return ((high << 16) | low) >>> 0;
}

function parseAddress(text: string): Address | null {
  if (text.includes(":")) {
    const groups = parseV6(text);
    return groups === null ? null : { family: 6, groups };
  }
  const value = parseV4(text);
  return value === null ? null : { family: 4, value };
}

/**
 * Parses IPv4 as a URL parser does: one to four numbers, each decimal, octal (0…) or hexadecimal (0x…), where the
 * last number fills all remaining bytes. Stricter parsers read other addresses from the same text, so every form must
 * be understood before it can be rejected.
 */
function parseV4(text: string): number | null {
  const parts = (text.endsWith(".") ? text.slice(0, -1) : text).split(".");
  if (parts.length > 4) return null;
  let value = 0;
  for (const [index, part] of parts.entries()) {
    const number = parseV4Number(part);
    if (number === null) return null;
    const isLast = index === parts.length - 1;
    if (number >= (isLast ? 256 ** (4 - index) : 256)) return null;
    value += isLast ? number : number * 256 ** (3 - index);
  }
  return value;
}

function parseV4Number(part: string): number | null {
  if (/^0x[0-9a-f]*$/i.test(part)) return part.length === 2 ? 0 : Number.parseInt(part.slice(2), 16);
  if (/^0[0-7]+$/.test(part)) return Number.parseInt(part, 8);
  return /^(0|[1-9][0-9]*)$/.test(part) ? Number(part) : null;
}

function parseV6(text: string): number[] | null {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  const [address = "", ...zone] = bare.split("%");
  // The zone selects an interface, not a destination: it must be well formed and has no effect here.
  if (zone.length > 1 || (zone[0] !== undefined && !/^[0-9a-z._~-]+$/i.test(zone[0]))) return null;

  const halves = address.split("::");
  if (halves.length > 2) return null;
  const head = parseGroups(halves[0] ?? "", halves.length === 1);
  const tail = halves.length === 2 ? parseGroups(halves[1] ?? "", true) : [];
  if (head === null || tail === null) return null;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 1 ? missing !== 0 : missing < 1) return null;
  return [...head, ...new Array<number>(missing).fill(0), ...tail];
}

/** Parses colon-separated groups. Only the end of an address may be a dotted quad. */
function parseGroups(text: string, endsAddress: boolean): number[] | null {
  if (text === "") return [];
  const groups: number[] = [];
  const parts = text.split(":");
  for (const [index, part] of parts.entries()) {
    if (/^[0-9a-f]{1,4}$/i.test(part)) {
      groups.push(Number.parseInt(part, 16));
    } else {
      if (!endsAddress || index !== parts.length - 1) return null;
      if (!/^(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}$/.test(part)) return null;
      const value = parseV4(part);
      if (value === null) return null;
      groups.push(value >>> 16, value & 0xffff);
    }
  }
  return groups;
}

function formatV4(value: number): string {
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`;
}

/** RFC 5952: lower case, no leading zeros, the first longest run of two or more zero groups is omitted. */
function formatV6(groups: readonly number[]): string {
  let runStart = -1;
  let runLength = 1;
  for (let start = 0; start < 8; start++) {
    let end = start;
    while (end < 8 && groups[end] === 0) end++;
    if (end - start > runLength) {
      runStart = start;
      runLength = end - start;
    }
  }
  const hex = groups.map((group) => group.toString(16));
  if (runStart === -1) return hex.join(":");
  return `${hex.slice(0, runStart).join(":")}::${hex.slice(runStart + runLength).join(":")}`;
}
