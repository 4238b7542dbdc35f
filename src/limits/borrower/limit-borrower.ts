/**
 * Borrows what the requests of this node need of limits that several nodes share, from one or two coordinators: one for
 * concurrency and minutes, one for long windows. Refills before a request lacks something, returns what is not used,
 * and gives other nodes what they lack.
 */

import { toAmounts } from "../amounts.ts";
import type { LimitCoordinator, LimitNote, NoteSubscription, RecordKind } from "../coordinator/protocol.ts";
import type { EstimatedUse, LimitLease, Subject } from "../limiter-types.ts";
import { SubjectRegistry } from "../subject-registry.ts";
import { BorrowedLease } from "./borrowed-lease.ts";
import { type BorrowedRecord, BorrowedSubject } from "./borrowed-record.ts";
import { Borrowing, type BorrowOutcome, type BorrowTerms } from "./borrowing.ts";
import { BorrowingLimiter } from "./borrowing-limiter.ts";
import { CoordinatorLink, type CoordinatorLinkOptions } from "./coordinator-link.ts";
import type { CoordinatorState } from "./link-health.ts";
import { type CoordinatorLossRule, LossWatch } from "./loss-watch.ts";
import { listRefills } from "./refill.ts";
import { RegistryWatch, type RegistryWatchOptions } from "./registry-watch.ts";
import { WindowBookings } from "./window-bookings.ts";

interface LimitBorrowerOptions
  extends Pick<CoordinatorLinkOptions, "process" | "folder" | "timing" | "newTerm">,
    Omit<RegistryWatchOptions, "timing"> {
  readonly lossRule: CoordinatorLossRule;
  /** The revision of the policy in force. */
  revision(): number;
  /** Resolves when all usage rows so far are stored. */
  flushUsage(): Promise<void>;
  onStateChange(coordinator: LimitCoordinator, state: CoordinatorState, reason: string): void;
  /** The coordinator lends nothing, because these processes have not declared what they hold; null: no minutes. */
  onClosed(coordinator: LimitCoordinator, missing: readonly string[] | null): void;
  /** Lets the other nodes know. Resolves when it is published, or the database does not respond. */
  publish(contact: CoordinatorContact): Promise<void>;
}

/**
 * `closed`: a coordinator waits for declarations and lends nothing. `lost`: one does not respond. `left`: the one of
 * rates does not respond to this node only, which holds nothing.
 */
export type CoordinatorContact = "up" | "closed" | "lost" | "left";

export interface BorrowRequest extends Pick<BorrowTerms, "key" | "leastNano" | "attempt"> {
  readonly subjects: readonly Subject[];
  readonly use: EstimatedUse;
  /** The reservation that is raised to this use; null for a request that has none. */
  readonly raises: LimitLease | null;
}

/** The asks of a queue of this node. */
export interface QueuedAsk {
  /** `final`: only less money than wanted can be had. */
  readonly extent: "whole" | "final";
  /** What the first request of the queue needs now. */
  want(use: EstimatedUse): void;
  /** The request has left the queue. */
  stop(): void;
}

export class LimitBorrower {
  readonly limiter: BorrowingLimiter;
  readonly #options: LimitBorrowerOptions;
  readonly #subjects: SubjectRegistry<BorrowedSubject>;
  readonly #links: readonly CoordinatorLink[];
  readonly #bookings: WindowBookings;
  readonly #registry: RegistryWatch;
  readonly #loss: LossWatch;
  readonly #borrowings = new Set<Borrowing>();
  readonly #queued = new Map<string, { readonly borrowing: Borrowing; count: number }>();
  readonly #refreshes = new Set<{ readonly records: Set<BorrowedRecord>; resolve(): void }>();
  readonly #subscriptions = new Map<CoordinatorLink, NoteSubscription>();
  #cancelTick: (() => void) | null = null;
  #isStopped = false;

  constructor(options: LimitBorrowerOptions) {
    const { timers, timing, flushUsage, monotonicMs } = options;
    this.#options = options;
    this.#registry = new RegistryWatch(options);
    this.#links = options.coordinators.map((coordinator) => this.#openLink(coordinator));
    this.#subjects = new SubjectRegistry<BorrowedSubject>({
      open: (subject) =>
        new BorrowedSubject(subject, { findLink: this.#findLink, revision: options.revision }),
      applyLimits: (state, limits) => state.applyLimits(limits),
      isIdle: (state, nowMs) => state.isIdle(nowMs),
    });
    this.#bookings = new WindowBookings({ timers, everyMs: timing.beatMs, flush: flushUsage });
    this.limiter = new BorrowingLimiter({ subjects: this.#subjects, bookings: this.#bookings, monotonicMs });
    this.#loss = new LossWatch({
      ...options,
      listNodes: () => this.#registry.listLastKnown(),
      links: this.#links,
      onShare: (link, nodes) => this.#serveShares(link, nodes),
      onShareEnd: (link) => this.#endShares(link),
      onCutOff: (link) => this.#serveWithout(link),
    });
  }

  /** `lost` while one of the coordinators does not respond. */
  get state(): CoordinatorState {
    return this.#links.every(({ state }) => state === "up") ? "up" : "lost";
  }

  get contact(): CoordinatorContact {
    if (this.#links.some(({ hasLeft }) => hasLeft)) return "left";
    if (this.state === "lost") return "lost";
    return this.#links.some(({ isClosed }) => isClosed) ? "closed" : "up";
  }

  /** Requests with limits are rejected: what is free is not known, or the operator prefers that. */
  get isClosed(): boolean {
    return this.#loss.isClosed;
  }

  /** A load balancer should use another node: others reach the coordinator, or this one never has. */
  get isReady(): boolean {
    return this.#loss.isReady;
  }

  /** Resolves when all terms are open, or their coordinators do not respond. */
  async start(): Promise<void> {
    const { timers, timing } = this.#options;
    for (const link of this.#links) {
      this.#subscribe(link);
      link.start();
    }
    this.#registry.start();
    this.#scheduleTick();
    while (this.#links.some(({ hasOpened, state }) => !hasOpened && state === "up"))
      await new Promise<void>((resolve) => void timers.after(timing.exchangeMs / 10, resolve));
  }

  /** Reports everything, returns what is borrowed, and ends the terms. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelTick?.();
    this.#registry.stop();
    this.#loss.stop();
    for (const borrowing of [...this.#borrowings]) borrowing.end("lost");
    await this.#bookings.bookAll().catch(() => {});
    for (const subscription of this.#subscriptions.values()) await subscription.stop();
    await Promise.all(this.#links.map((link) => link.stop(() => this.#returnAll(link))));
    await Promise.all(this.#links.map(({ coordinator }) => coordinator.close()));
  }

  /** Borrows what the request lacks. `attempt` is called in the same step in which it becomes available. */
  borrow(request: BorrowRequest): Promise<BorrowOutcome> {
    if (this.#isStopped) return Promise.resolve("lost");
    const terms = this.#toTerms(request);
    if (terms.slots === "needed" && this.#queued.has(queueName(request.key, terms.subjects)))
      return Promise.resolve("blocked");
    return new Promise((resolve) => {
      const { timers, timing } = this.#options;
      const cancel = timers.after(timing.closedMs, () => borrowing.end("lost"));
      const borrowing: Borrowing = new Borrowing(terms, {
        ...this.#options,
        onEnd: (outcome) => {
          cancel();
          this.#borrowings.delete(borrowing);
          resolve(outcome);
        },
      });
      this.#borrowings.add(borrowing);
      if (borrowing.parts.some(({ link }) => link.loss !== null || this.#loss.isCutOff(link)))
        borrowing.serveWithout();
      else borrowing.serve();
    });
  }

  /** Asks again and again for the first request of a queue, until all its requests have left. */
  queue(request: BorrowRequest): QueuedAsk {
    const terms = this.#toTerms(request);
    const name = queueName(request.key, terms.subjects);
    const existing = this.#queued.get(name);
    const entry = existing ?? {
      borrowing: new Borrowing(terms, { ...this.#options, onEnd: null }),
      count: 0,
    };
    entry.count += 1;
    if (existing === undefined) {
      this.#queued.set(name, entry);
      this.#borrowings.add(entry.borrowing);
      for (const part of entry.borrowing.parts) part.askAgain();
    }
    return {
      get extent() {
        return entry.borrowing.mayCap ? "final" : "whole";
      },
      want(use) {
        entry.borrowing.terms.amounts = { ...toAmounts(1, use) };
      },
      stop: () => {
        entry.count -= 1;
        if (entry.count > 0 || this.#queued.get(name) !== entry) return;
        this.#queued.delete(name);
        this.#borrowings.delete(entry.borrowing);
        entry.borrowing.stop();
      },
    };
  }

  /** Resolves when the use of these subjects by all nodes is known, or after a second. */
  refresh(subjects: readonly Subject[]): Promise<void> {
    const { timers, timing } = this.#options;
    const records = new Set(subjects.flatMap((subject) => this.#subjects.findOrOpen(subject)?.records ?? []));
    if (records.size === 0 || this.state === "lost") return Promise.resolve();
    return new Promise((resolve) => {
      const refresh = { records, resolve: end };
      const cancel = timers.after(timing.beatMs, end);
      const refreshes = this.#refreshes;
      function end(): void {
        cancel();
        refreshes.delete(refresh);
        resolve();
      }
      refreshes.add(refresh);
      for (const record of records) record.noteUrgent();
    });
  }

  readonly #findLink = (kind: RecordKind): CoordinatorLink => {
    const link = this.#links.find(({ coordinator }) => coordinator.serves.includes(kind));
    if (link === undefined) throw new Error(`No coordinator serves ${kind}.`);
    return link;
  };

  #openLink(coordinator: LimitCoordinator): CoordinatorLink {
    const link: CoordinatorLink = new CoordinatorLink({
      ...this.#options,
      coordinator,
      listRecords: () => this.#listRecords(link),
      listAsks: () => this.#listAsks(link),
      listMembers: async () =>
        coordinator.serves.includes("rates")
          ? this.#registry.listMembers()
          : { present: await this.#registry.listIds(), left: [] },
      hasUnknownUse: () => this.#registry.hasUnknownUse,
      noteEnded: () => this.#registry.noteEnded(),
      onReply: (records) => this.#serve(link, records),
      onStateChange: (state, reason) => {
        this.#options.onStateChange(coordinator, state, reason);
        void this.#publish();
        this.#loss.noteState(link, state);
        // Its connection may have been lost without a reset, which nothing would report.
        if (state === "up" && !this.#isStopped) this.#subscribe(link);
      },
      onClosed: (missing) => {
        this.#options.onClosed(coordinator, missing);
        void this.#publish();
      },
      onContactChange: () => this.#publish(),
    });
    return link;
  }

  #publish(): Promise<void> {
    return this.#options.publish(this.contact);
  }

  /** Again if there is a subscription. */
  #subscribe(link: CoordinatorLink): void {
    this.#subscriptions
      .get(link)
      ?.stop()
      .catch(() => {});
    const subscription = link.coordinator.subscribe(this.#options.process, {
      onNote: (note) => this.#receive(link, note),
      onConnected: () => this.#askAgain(link),
    });
    this.#subscriptions.set(link, subscription);
  }

  *#listRecords(link: CoordinatorLink): Iterable<BorrowedRecord> {
    for (const { records } of this.#subjects.all())
      for (const record of records) if (record.link === link) yield record;
  }

  *#listAsks(link: CoordinatorLink) {
    for (const { parts } of this.#borrowings)
      for (const part of parts) if (part.link === link && part.isNew) yield part;
  }

  #toTerms(request: BorrowRequest): BorrowTerms {
    const subjects = new Set(request.subjects.flatMap((subject) => this.#subjects.findOrOpen(subject) ?? []));
    const { key, use, leastNano, raises, attempt } = request;
    const amounts = { ...toAmounts(1, use) };
    const isRaise = raises instanceof BorrowedLease;
    return {
      key,
      leastNano,
      attempt,
      subjects: [...subjects],
      slots: isRaise ? "held" : "needed",
      amounts: isRaise ? raises.computeExtra(amounts) : amounts,
    };
  }

  /** After a reply: waiting requests first, then what nothing here needs goes back. */
  #serve(link: CoordinatorLink, records: readonly BorrowedRecord[]): void {
    for (const borrowing of [...this.#borrowings]) borrowing.serve();
    const nowMs = this.#options.monotonicMs();
    for (const { subject } of records) subject.slots?.returnIdleSlots(nowMs);
    for (const refresh of [...this.#refreshes]) {
      for (const record of records) refresh.records.delete(record);
      if (refresh.records.size === 0) refresh.resolve();
    }
    if (this.#hasAsks(link)) link.sendSoon();
  }

  /** Notes may have been missed. */
  #askAgain(link: CoordinatorLink): void {
    for (const { parts } of this.#borrowings)
      for (const part of parts) if (part.link === link) part.wake("grant");
    link.sendSoon();
  }

  #hasAsks(link: CoordinatorLink): boolean {
    for (const _ of this.#listAsks(link)) return true;
    return false;
  }

  #receive(link: CoordinatorLink, { term, record: { scope, id, perMs }, meter, about }: LimitNote): void {
    if (term !== link.term) return;
    const record = this.#subjects.get(scope, id)?.records.find((one) => one.perMs === perMs);
    if (record === undefined) return;
    if (about.kind === "recall") {
      const { monotonicMs, timing } = this.#options;
      record.find(meter)?.recall(about.no, monotonicMs(), timing.contendedMs);
      return;
    }
    for (const { terms, parts } of this.#borrowings) {
      if (terms.key !== about.key || !terms.subjects.includes(record.subject)) continue;
      for (const part of parts) if (part.link === link) part.wake(about.kind);
    }
    // Nothing may wait for it any more: then it goes back.
    record.noteUrgent();
  }

  #scheduleTick(): void {
    const { timers, timing } = this.#options;
    if (this.#isStopped) return;
    this.#cancelTick = timers.after(timing.exchangeMs, () => {
      this.#tick();
      this.#scheduleTick();
    });
  }

  #tick(): void {
    const { monotonicMs, timing } = this.#options;
    const nowMs = monotonicMs();
    for (const link of this.#links) {
      for (const { holdings } of this.#listRecords(link))
        for (const holding of holdings) holding.tick(nowMs, timing.exchangeMs, timing.keepMs);
      link.sendAll(
        link.isValid(nowMs) ? listRefills(this.#listRecords(link), nowMs, timing.exhaustedMs) : [],
      );
    }
  }

  #returnAll(link: CoordinatorLink): void {
    for (const { holdings } of this.#listRecords(link))
      for (const holding of holdings) {
        holding.bookReserved();
        holding.giveBack(holding.idle);
      }
  }

  #serveWithout(link: CoordinatorLink): void {
    for (const borrowing of [...this.#borrowings])
      if (borrowing.parts.some((part) => part.link === link)) borrowing.serveWithout();
  }

  /** No node reaches the coordinator: each uses its share. */
  #serveShares(link: CoordinatorLink, nodes: number): void {
    const nowMs = this.#options.monotonicMs();
    for (const { holdings } of this.#listRecords(link))
      for (const holding of holdings) holding.addLossPart(nodes, nowMs);
    this.#serveWithout(link);
  }

  #endShares(link: CoordinatorLink): void {
    for (const { holdings } of this.#listRecords(link))
      for (const holding of holdings) holding.removeLossPart();
  }
}

function queueName(key: string, subjects: readonly BorrowedSubject[]): string {
  return `${key} ${subjects.map(({ scope, id }) => `${scope} ${id}`).join(" ")}`;
}
