/** The network between the nodes of a model and their coordinators: it delays, loses and cuts. */

import type { MemoryLimitCoordinator } from "../coordinator/memory-limit-coordinator.test-support.ts";
import type { LimitCoordinator } from "../coordinator/protocol.ts";
import type { VirtualTime } from "./virtual-time.test-support.ts";

export interface ModelFaults {
  /** Probability that a call, its reply or a note is lost. */
  loss: number;
  /** The longest delay of a message in one direction. */
  delayMs: number;
  isFrozen: boolean;
  /** How often the connections for notes were lost without a reset. */
  silences: number;
}

/** An end of the network. */
interface ConnectedNode {
  readonly isCutOff: boolean;
  run(callback: () => void): void;
}

export class ModelNetwork {
  readonly faults: ModelFaults = { loss: 0, delayMs: 2, isFrozen: false, silences: 0 };
  calls = 0;
  readonly #time: VirtualTime;
  readonly #random: () => number;

  constructor(time: VirtualTime, random: () => number) {
    this.#time = time;
    this.#random = random;
  }

  connect(node: ConnectedNode, coordinator: MemoryLimitCoordinator): LimitCoordinator {
    const travel = () => this.#travel(node);
    const call = <T>(work: () => Promise<T>): Promise<T> => {
      this.calls += 1;
      return new Promise((resolve, reject) => {
        void (async () => {
          if (!(await travel())) return;
          const result = await work().then(
            (value) => () => resolve(value),
            (error: unknown) => () => reject(error),
          );
          if (await travel()) node.run(result);
        })();
      });
    };
    return {
      kind: "memory",
      serves: coordinator.serves,
      openTerm: (value) => call(() => coordinator.openTerm(value)),
      declare: (value) => call(() => coordinator.declare(value)),
      exchange: (value) => call(() => coordinator.exchange(value)),
      openEpoch: (value) => call(() => coordinator.openEpoch(value)),
      endTerm: (value) => call(() => coordinator.endTerm(value)),
      bury: (value) => call(() => coordinator.bury(value)),
      listProcesses: () => call(() => coordinator.listProcesses()),
      sweep: () => call(() => coordinator.sweep()),
      subscribe: (process, { onNote, onConnected }) => {
        const { silences } = this.faults;
        return coordinator.subscribe(process, {
          onConnected,
          onNote: (note) => {
            if (silences !== this.faults.silences) return;
            void travel().then((arrives) => arrives && node.run(() => onNote(note)));
          },
        });
      },
      close: async () => {},
    };
  }

  /** Resolves with whether the message arrives. */
  async #travel(node: ConnectedNode): Promise<boolean> {
    const { faults } = this;
    await this.#time.sleep(this.#random() * faults.delayMs);
    while (faults.isFrozen) await this.#time.sleep(50);
    return !node.isCutOff && this.#random() >= faults.loss;
  }
}
