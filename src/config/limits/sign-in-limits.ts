/** Limits and deadlines of sign-in at OpenID Connect providers. `product-limits.ts` includes them. */

export const signInLimits = {
  companySignIn: {
    providersMax: 20,
    /** Values of a claim in one list of the configuration, and the length of each. */
    mappedValuesMax: 200,
    claimValueCharsMax: 256,
    /** Values of the groups claim of one person. Above it the sign-in is rejected: a shortened list would end access. */
    groupsMax: 2_000,
    subjectCharsMax: 255,
    /** A document or response of a provider, and how long it may take. */
    responseBytesMax: 1024 * 1024,
    responseTimeoutMs: 5_000,
    /** How long the discovered addresses of a provider are used, and how long a failed discovery is not repeated. */
    discoveryMs: 600_000,
    discoveryRetryMs: 5_000,
    /** Exchanges with providers at the same time. Further sign-ins are rejected. */
    exchangesMax: 32,
    /** From the start of a sign-in to the return of the browser. */
    flowMs: 600_000,
    /** Starts and returns from one address in ten minutes. A company may have one address. */
    attempts: { tries: 1_200, windowMs: 600_000 },
    /** The query with which a provider returns a browser. */
    callbackCharsMax: 8_192,
    /** Rejected sign-ins that are kept, and for how long. */
    rejectionsMax: 500,
    rejectionsKeptMs: 30 * 86_400_000,
    /** The shortest `sign_in_every`. */
    signInEveryMsMin: 3_600_000,
    /** Persons that are suspended in one round, because they have not signed in for too long. */
    overdueMax: 500,
  },
};
