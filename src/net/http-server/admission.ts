/**
 * Decides which connection to close when there are too many, in total or from one block of addresses. Choosing costs
 * nothing while the limits are not reached.
 */

export interface AdmittedConnection {
  readonly block: AddressBlock;
  /** Connections with smaller values are closed first; null while the connection must not be closed. */
  readonly yieldOrder: number | null;
  terminate(): void;
}

/** Neighbouring addresses that probably belong to one network. Their connections share this object. */
export interface AddressBlock {
  readonly name: string;
  /** False for the operator's own proxy, behind which all clients share one address. */
  readonly isLimited: boolean;
  connections: number;
}

interface AdmissionOptions<Connection extends AdmittedConnection> {
  /** Maximum number of open connections. */
  readonly max: number;
  /** The share of `max` that one block may use. */
  readonly blockShare: number;
  /** Whether an address belongs to a proxy or to this machine. */
  isProxy(address: string): boolean;
  all(): Iterable<Connection>;
  /** Time of the last check of all connections. */
  nowMs(): number;
}

/** The result of one search. The connection to close first is the last element. */
interface SearchResult<Connection> {
  readonly candidates: { readonly connection: Connection; readonly order: number }[];
  readonly searchedMs: number;
  /** The search found so few connections that repeating it at the same time is not worth its cost. */
  readonly isScarce: boolean;
}

/** A search through all connections can take a millisecond, so each search collects many candidates. */
const CANDIDATES_PER_SEARCH = 256;
/** A search that examines more connections than this per candidate is not repeated at once. */
const EXAMINED_PER_CANDIDATE_MAX = 64;
const IPV6_GROUPS = 3;

export class ConnectionAdmission<Connection extends AdmittedConnection> {
  readonly #options: AdmissionOptions<Connection>;
  readonly #blockMax: number;
  readonly #blocks = new Map<string, AddressBlock>();
  #count = 0;
  /** The last result for each block over its limit; the key `null` is for the total limit. */
  readonly #searchResults = new Map<AddressBlock | null, SearchResult<Connection>>();

  constructor(options: AdmissionOptions<Connection>) {
    this.#options = options;
    this.#blockMax = Math.max(1, Math.floor(options.max * options.blockShare));
  }

  getBlock(address: string): AddressBlock {
    const isLimited = address !== "" && !this.#options.isProxy(address);
    const name = isLimited ? addressBlock(address) : address;
    let block = this.#blocks.get(name);
    if (block === undefined) {
      block = { name, isLimited, connections: 0 };
      this.#blocks.set(name, block);
    }
    return block;
  }

  /** Counts a new connection and closes others, or the new one, until no limit is exceeded. */
  add(connection: Connection): void {
    const { block } = connection;
    this.#count++;
    block.connections++;
    if (block.isLimited && block.connections > this.#blockMax) this.#closeOne(block, connection);
    if (this.#count > this.#options.max) this.#closeOne(null, connection);
  }

  remove({ block }: Connection): void {
    this.#count--;
    if (--block.connections > 0) return;
    this.#blocks.delete(block.name);
    this.#searchResults.delete(block);
  }

  #closeOne(block: AddressBlock | null, newest: Connection): void {
    const closed = this.#takeCandidate(block) ?? this.#searchAndTake(block, newest) ?? newest;
    closed.terminate();
  }

  /** Skips connections whose state has changed since the search. */
  #takeCandidate(block: AddressBlock | null): Connection | null {
    const candidates = this.#searchResults.get(block)?.candidates ?? [];
    for (let candidate = candidates.pop(); candidate !== undefined; candidate = candidates.pop()) {
      if (candidate.connection.yieldOrder === candidate.order) return candidate.connection;
    }
    return null;
  }

  #searchAndTake(block: AddressBlock | null, newest: Connection): Connection | null {
    const last = this.#searchResults.get(block);
    const nowMs = this.#options.nowMs();
    if (last?.isScarce === true && last.searchedMs === nowMs) return null;
    const candidates = this.#search(block, newest);
    const isScarce =
      candidates.length < CANDIDATES_PER_SEARCH &&
      candidates.length * EXAMINED_PER_CANDIDATE_MAX < this.#count;
    this.#searchResults.set(block, { candidates, searchedMs: nowMs, isScarce });
    return this.#takeCandidate(block);
  }

  /** The times are those of the last check of all connections, so there are few distinct values to sort. */
  #search(block: AddressBlock | null, newest: Connection): SearchResult<Connection>["candidates"] {
    const byOrder = new Map<number, Connection[]>();
    for (const connection of this.#options.all()) {
      if (connection === newest || (block !== null && connection.block !== block)) continue;
      const order = connection.yieldOrder;
      if (order === null) continue;
      const sameOrder = byOrder.get(order);
      if (sameOrder === undefined) byOrder.set(order, [connection]);
      else if (sameOrder.length < CANDIDATES_PER_SEARCH) sameOrder.push(connection);
    }
    const orders = [...byOrder.keys()].sort((a, b) => a - b);
    return orders
      .flatMap((order) => (byOrder.get(order) ?? []).map((connection) => ({ connection, order })))
      .slice(0, CANDIDATES_PER_SEARCH)
      .reverse();
  }
}

/** The first 24 bits of an IPv4 address, or the first 48 bits of an IPv6 address, the usual allocation of a site. */
export function addressBlock(address: string): string {
  const ipv4 = /^(?:::ffff:)?(\d+\.\d+\.\d+)\.\d+$/i.exec(address)?.[1];
  if (ipv4 !== undefined) return `${ipv4}.0/24`;
  const [left = ""] = address.split("::");
  const groups = [...left.split(":"), "0", "0", "0"].slice(0, IPV6_GROUPS).map((group) => group || "0");
  return `${groups.join(":")}::/48`;
}
