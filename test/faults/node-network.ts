/**
 * A network namespace for each node, so that a node can lose PostgreSQL as if its cable were pulled: packets vanish, and
 * no connection is reset. Needs root. Each namespace has two interfaces, for the traffic of clients and upstreams and for
 * the database, on two bridges of the host.
 */

export interface NodeAddress {
  /** The command that executes a program in the namespace. */
  wrapper: readonly string[];
  /** The address that the node listens on. */
  host: string;
}

/** Processes of one host may run faults at the same time, so names and addresses contain the process id. */
const ID = process.pid % 65_536;
const TRAFFIC = { bridge: `mgt${ID}`, prefix: `10.200.${ID % 256}` };
const DATABASE = { bridge: `mgd${ID}`, prefix: `10.201.${ID % 256}` };
const FIRST_NODE = 10;

export class NodeNetwork {
  readonly #nodes: string[] = [];

  private constructor() {}

  /** Null where namespaces are not permitted; `reason` says why. */
  static create(nodes: number): { network: NodeNetwork | null; reason: string } {
    const network = new NodeNetwork();
    try {
      for (const { bridge, prefix } of [TRAFFIC, DATABASE]) {
        run("ip", "link", "add", bridge, "type", "bridge");
        run("ip", "addr", "add", `${prefix}.1/24`, "dev", bridge);
        run("ip", "link", "set", bridge, "up");
      }
      for (let node = 0; node < nodes; node += 1) network.#addNode(node);
      return { network, reason: "" };
    } catch (error) {
      network.remove();
      return { network: null, reason: error instanceof Error ? error.message : String(error) };
    }
  }

  /** Where the simulator listens for all nodes. */
  get simulatorHost(): string {
    return `${TRAFFIC.prefix}.1`;
  }

  get databaseHost(): string {
    return `${DATABASE.prefix}.1`;
  }

  /** In the notation of pg_hba.conf. */
  get databaseSubnet(): string {
    return `${DATABASE.prefix}.0/24`;
  }

  nodeAddress(node: number): NodeAddress {
    return {
      wrapper: ["ip", "netns", "exec", namespaceName(node)],
      host: `${TRAFFIC.prefix}.${FIRST_NODE + node}`,
    };
  }

  /** Takes the interface off the switch: the node still has a link, and nothing responds. */
  cutDatabase(node: number): void {
    run("ip", "link", "set", linkName("d", node), "nomaster");
  }

  restoreDatabase(node: number): void {
    run("ip", "link", "set", linkName("d", node), "master", DATABASE.bridge);
  }

  /** Call when no process runs in a namespace. */
  remove(): void {
    // Deleting a namespace deletes its end of each link, and with it the other end.
    for (const name of this.#nodes) Bun.spawnSync(["ip", "netns", "del", name]);
    for (const { bridge } of [TRAFFIC, DATABASE]) Bun.spawnSync(["ip", "link", "del", bridge]);
  }

  #addNode(node: number): void {
    const name = namespaceName(node);
    run("ip", "netns", "add", name);
    this.#nodes.push(name);
    run("ip", "-n", name, "link", "set", "lo", "up");
    for (const [kind, { bridge, prefix }] of [
      ["t", TRAFFIC],
      ["d", DATABASE],
    ] as const) {
      const outside = linkName(kind, node);
      const inside = `eth-${kind}`;
      run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name);
      run("ip", "link", "set", outside, "master", bridge, "up");
      run("ip", "-n", name, "addr", "add", `${prefix}.${FIRST_NODE + node}/24`, "dev", inside);
      run("ip", "-n", name, "link", "set", inside, "up");
    }
  }
}

const namespaceName = (node: number) => `mg-${ID}-${node}`;
/** Names of interfaces have at most 15 characters. */
const linkName = (kind: "t" | "d", node: number) => `mg${kind}${ID}-${node}`;

function run(...command: readonly string[]): void {
  const { exitCode, stderr } = Bun.spawnSync([...command]);
  if (exitCode !== 0) throw new Error(`${command.join(" ")}: ${stderr.toString().trim()}`);
}
