/** Who pays for requests. */

export const CHARGES = ["none", "balance", "subscription"] as const;
export type Charge = (typeof CHARGES)[number];
