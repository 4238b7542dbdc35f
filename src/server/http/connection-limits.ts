/** How much, and how long, a connection of a client may keep us waiting. */
export interface ConnectionLimits {
  readonly headBytesMax: number;
  /** From its first byte to its last. */
  readonly headMs: number;
  /** Between two requests. */
  readonly idleMs: number;
  /** For what a client still sends after its answer. */
  readonly lingerMs: number;
  /** For a client that takes nothing of what it asked for. */
  readonly stallMs: number;
}
