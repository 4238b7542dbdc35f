/**
 * Decides which connection gives way when there are too many: in all, or from one block of addresses. Choosing costs
 * nothing while there is room.
 */

export interface Admitted {
  readonly block: AddressBlock;
  /** Smaller values give way first; null while the connection may not be closed. */
  readonly yieldOrder: number | null;
  terminate(): void;
}

/** Neighbouring addresses, which one network is likely to own. Its connections share the object. */
export interface AddressBlock {
  readonly name: string;
  /** False for our own proxy, behind which all clients have one address. */
  readonly isLimited: boolean;
  connections: number;
}

export interface AdmissionOptions<Guest extends Admitted> {
  /** Connections at once. */
  readonly max: number;
  /** Of `max`, what one block may have. */
  readonly blockShare: number;
  /** Whether an address is that of a proxy, or of this machine. */
  isProxy(address: string): boolean;
  /** All connections. */
  all(): Iterable<Guest>;
  /** As of the last look at all connections. */
  nowMs(): number;
}

/** What a search has found: the one to go first is the last. */
interface Found<Guest> {
  readonly guests: { readonly guest: Guest; readonly order: number }[];
  readonly searchedMs: number;
  /** It found so few that another search at the same time is not worth its while. */
  readonly isScarce: boolean;
}

/** Looking through all connections may take a millisecond, so each search finds many that may go. */
const FOUND_AT_ONCE = 256;
/** A search that looks at more connections than this for each that it finds is not repeated at once. */
const LOOKED_AT_PER_FOUND_MAX = 64;
const IPV6_GROUPS = 3;

export class Admission<Guest extends Admitted> {
  private readonly options: AdmissionOptions<Guest>;
  private readonly blockMax: number;
  private readonly blocks = new Map<string, AddressBlock>();
  private count = 0;
  /** Of each block that has too many connections; `null` for those of any block. */
  private readonly found = new Map<AddressBlock | null, Found<Guest>>();

  constructor(options: AdmissionOptions<Guest>) {
    this.options = options;
    this.blockMax = Math.max(1, Math.floor(options.max * options.blockShare));
  }

  blockOf(address: string): AddressBlock {
    const isLimited = address !== "" && !this.options.isProxy(address);
    const name = isLimited ? addressBlock(address) : address;
    let block = this.blocks.get(name);
    if (block === undefined) {
      block = { name, isLimited, connections: 0 };
      this.blocks.set(name, block);
    }
    return block;
  }

  /** Counts a new connection, and closes others, or the new one itself, until no bound is exceeded. */
  enter(guest: Guest): void {
    const { block } = guest;
    this.count++;
    block.connections++;
    if (block.isLimited && block.connections > this.blockMax) this.closeOne(block, guest);
    if (this.count > this.options.max) this.closeOne(null, guest);
  }

  left({ block }: Guest): void {
    this.count--;
    if (--block.connections > 0) return;
    this.blocks.delete(block.name);
    this.found.delete(block);
  }

  private closeOne(block: AddressBlock | null, newest: Guest): void {
    const next = this.takeFound(block) ?? this.searchAndTake(block, newest) ?? newest;
    next.terminate();
  }

  /** Those that have moved on since the search are left alone. */
  private takeFound(block: AddressBlock | null): Guest | null {
    const guests = this.found.get(block)?.guests ?? [];
    for (let next = guests.pop(); next !== undefined; next = guests.pop()) {
      if (next.guest.yieldOrder === next.order) return next.guest;
    }
    return null;
  }

  private searchAndTake(block: AddressBlock | null, newest: Guest): Guest | null {
    const last = this.found.get(block);
    const nowMs = this.options.nowMs();
    if (last?.isScarce === true && last.searchedMs === nowMs) return null;
    const guests = this.search(block, newest);
    const isScarce = guests.length < FOUND_AT_ONCE && guests.length * LOOKED_AT_PER_FOUND_MAX < this.count;
    this.found.set(block, { guests, searchedMs: nowMs, isScarce });
    return this.takeFound(block);
  }

  /** Times are those of the last look at all connections, so there are few different ones to sort. */
  private search(block: AddressBlock | null, newest: Guest): Found<Guest>["guests"] {
    const byOrder = new Map<number, Guest[]>();
    for (const guest of this.options.all()) {
      if (guest === newest || (block !== null && guest.block !== block)) continue;
      const order = guest.yieldOrder;
      if (order === null) continue;
      const alike = byOrder.get(order);
      if (alike === undefined) byOrder.set(order, [guest]);
      else if (alike.length < FOUND_AT_ONCE) alike.push(guest);
    }
    const orders = [...byOrder.keys()].sort((a, b) => a - b);
    return orders
      .flatMap((order) => (byOrder.get(order) ?? []).map((guest) => ({ guest, order })))
      .slice(0, FOUND_AT_ONCE)
      .reverse();
  }
}

/** The first 24 bits of an IPv4 address; of an IPv6 address the first 48, which is what a site is usually given. */
export function addressBlock(address: string): string {
  const ipv4 = /^(?:::ffff:)?(\d+\.\d+\.\d+)\.\d+$/i.exec(address)?.[1];
  if (ipv4 !== undefined) return `${ipv4}.0/24`;
  const [left = ""] = address.split("::");
  const groups = [...left.split(":"), "0", "0", "0"].slice(0, IPV6_GROUPS).map((group) => group || "0");
  return `${groups.join(":")}::/48`;
}
