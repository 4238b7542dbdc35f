/** Where bytes for one client go. What the kernel does not take at once is kept, in order. */
export interface SocketWriter {
  /** The client's address. */
  readonly address: string;
  /** Kept here because the client takes them slowly. */
  readonly bufferedBytes: number;
  /** The bytes may be reused by the caller afterwards: what is not taken at once is copied. */
  write(bytes: Uint8Array, from?: number, to?: number): void;
  /** Closes in order when all is sent. */
  end(): void;
  /** At once; the client sees a reset. */
  terminate(): void;
}

/** What a connection speaks: its bytes go to one of these at a time. */
export interface UpgradedProtocol {
  /** The buffer is the receiver's own. */
  received(bytes: Buffer): void;
  /** `bufferedBytes` has become 0. */
  drained(): void;
  /** The last call, whoever ended it. */
  closed(): void;
}
