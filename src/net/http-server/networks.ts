/** Networks of IP addresses, as `10.0.0.0/8` or `2001:db8::/32`. A single address is a network too. */

import { addressNumber } from "../http-client/ip-addresses.ts";

export interface IpNetwork {
  readonly bits: 32 | 128;
  /** The leading bits that all addresses of the network have, as a number. */
  readonly prefix: bigint;
  readonly prefixBits: number;
}

const V4 = /^(?:0|[1-9]\d{0,2})(?:\.(?:0|[1-9]\d{0,2})){3}$/;
const V6 = /^[0-9a-f:.]+$/i;

/** Returns null unless the text is a network whose remaining bits are zero: `10.0.0.1/8` is probably a mistake. */
export function parseNetwork(text: string): IpNetwork | null {
  const [, address = "", length] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  if (!V4.test(address) && !(address.includes(":") && V6.test(address))) return null;
  const number = addressNumber(address);
  if (number === null) return null;
  const { bits, value } = number;
  const prefixBits = length === undefined ? bits : Number(length);
  if (prefixBits > bits) return null;
  const rest = BigInt(bits - prefixBits);
  const prefix = value >> rest;
  return prefix << rest === value ? { bits, prefix, prefixBits } : null;
}

/** An address that cannot be read is in no network. */
export function isInNetworks(address: string, networks: readonly IpNetwork[]): boolean {
  const number = addressNumber(address);
  if (number === null) return false;
  return networks.some(
    ({ bits, prefix, prefixBits }) =>
      bits === number.bits && number.value >> BigInt(bits - prefixBits) === prefix,
  );
}
