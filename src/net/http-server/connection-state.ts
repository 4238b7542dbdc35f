/**
 * Where a connection stands: `between` requests; `queued` with requests that are here, when others have their turn first;
 * `within` a request; `answered` while the rest of the body, or of the answer, is on its way; `upgraded` to another
 * protocol; `ending` when nothing is said any more and the client has not taken all of it; `lingering` when it has, and
 * what it still sends is thrown away, because closing on unread bytes would take the answer away from it again.
 */
export type ConnectionState =
  | "between"
  | "queued"
  | "within"
  | "answered"
  | "upgraded"
  | "ending"
  | "lingering"
  | "over";

/** What is known of a client: `silent` before its first request, `anonymous` until it has shown that it may use anything. */
export type Trust = "silent" | "anonymous" | "authenticated";
