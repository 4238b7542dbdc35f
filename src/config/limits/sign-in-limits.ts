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
    /** JSON values of such a response, and of each part of a token in it. */
    responseValuesMax: 20_000,
    responseTimeoutMs: 5_000,
    /** How long the discovered addresses of a provider are used, and how long a failed discovery is not repeated. */
    discoveryMs: 600_000,
    discoveryRetryMs: 5_000,
    /** Exchanges with providers at the same time. Further sign-ins are rejected. */
    exchangesMax: 32,
    /** From the start of a sign-in to the return of the browser. */
    flowMs: 600_000,
    /** From the return of a person whose address has an account until the account is linked. */
    pendingLinkMs: 600_000,
    /** The sealed cookie of such a person. Browsers discard cookies above 4096 bytes. */
    pendingLinkCharsMax: 3_500,
    /** How recent a sign-in at the provider must be to confirm an operation, and how long the confirmation holds. */
    confirmationMs: 300_000,
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
  /** SCIM: what a directory may push in one request. */
  scim: {
    bodyBytesMax: 2 * 1024 * 1024,
    filterCharsMax: 1_024,
    /** Conditions of a filter that are joined by `and`. */
    filterConditionsMax: 8,
    /** Operations of a PATCH. */
    operationsMax: 1_000,
    /** Changes of members by one request, and members of one group. */
    membersMax: 20_000,
    /** E-mail addresses of one person. */
    emailsMax: 20,
    /** A name, an id or an address. */
    valueCharsMax: 255,
    /** Names in `attributes` or `excludedAttributes`. */
    attributesMax: 50,
    /** Resources of one page, and members of all groups on it: a page with larger groups is shorter. */
    pageMax: 200,
    pageMembersMax: 20_000,
    /** People whose roles and groups are applied in one transaction. Others use the database in between. */
    applyAtOnce: 50,
    /** How often the time of the last push is written. */
    syncMs: 5_000,
    /** Rejected pushes that are kept; for as long as rejected sign-ins. */
    rejectionsMax: 500,
  },
};
