/** The sign-in of a tool (RFC 8628): the tool gets a code, a signed-in person approves it, and the tool gets tokens. */

import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import { effectiveStatus } from "../../records/user.ts";
import { mintSecret, secretDigest } from "../../secrets/random-secret.ts";
import { formatUserCode, mintUserCode, parseUserCode } from "../../secrets/user-code.ts";
import { transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import {
  approveRequest,
  type DeviceRequest,
  denyRequest,
  findByDeviceCode,
  findPendingByUserCode,
  insertDeviceRequest,
  recordPoll,
  takeApproved,
} from "../../store/identity/device-requests.ts";
import { findUser } from "../../store/identity/users.ts";
import { countActiveKeys, isKeyNameTaken } from "../../store/policy/keys.ts";
import { countTools } from "../../store/policy/tool-keys.ts";
import { requireLiveActor } from "../auth/actor.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import type { ConsoleAuthor } from "../changes/change.ts";
import { fieldError } from "../http/field-error.ts";
import { waitForOtherNodes } from "../keys/wait-for-nodes.ts";
import { addressBlock } from "../throttling/throttle.ts";
import { invalidGrant, OAuthError } from "./oauth-error.ts";
import { listOfferedGroups, requireToolSignIn, type ToolContext } from "./tool-context.ts";
import { createToolKey, type IssuedTokens } from "./tool-tokens.ts";

const { toolSignIn } = limits;

interface StartedFlow {
  readonly deviceCode: string;
  /** As it is shown. */
  readonly userCode: string;
  readonly expiresInSeconds: number;
  readonly intervalSeconds: number;
}

export async function beginDeviceFlow(context: ToolContext, address: string): Promise<StartedFlow> {
  const { db, clock, digest, randomBytes } = context.installation;
  const block = addressBlock(address);
  const waitSeconds = context.identity.tools.starts.take(block);
  if (waitSeconds !== null)
    throw new OAuthError("slow_down", "Too many sign-ins from this address.", waitSeconds);
  const device = mintSecret(randomBytes);
  const userCode = mintUserCode(randomBytes);
  const createdAtMs = clock.nowMs();
  const reached = await insertDeviceRequest(
    db,
    {
      deviceDigest: device.digest,
      // Keyed, because a plain hash of a short code can be guessed.
      userCodeDigest: digest(userCode),
      address,
      addressBlock: block,
      createdAtMs,
      expiresAtMs: createdAtMs + toolSignIn.codeMs,
      pollFromMs: createdAtMs,
      intervalMs: toolSignIn.pollIntervalMs,
    },
    toolSignIn.pending,
  );
  if (reached !== null)
    throw new OAuthError(
      "slow_down",
      "Too many sign-ins wait for approval. Approve one, or try again later.",
      60,
    );
  return {
    deviceCode: device.secret,
    userCode: formatUserCode(userCode),
    expiresInSeconds: toolSignIn.codeMs / 1000,
    intervalSeconds: toolSignIn.pollIntervalMs / 1000,
  };
}

/** When the promise resolves, every node accepts the access token. */
export async function pollDeviceFlow(context: ToolContext, deviceCode: string): Promise<IssuedTokens> {
  requireToolSignIn(context);
  const { db, clock } = context.installation;
  const deviceDigest = secretDigest(deviceCode);
  const request = await findByDeviceCode(db, deviceDigest);
  const nowMs = clock.nowMs();
  if (request === null || request.expiresAtMs <= nowMs)
    throw new OAuthError("expired_token", "The code has expired or does not exist. Start the sign-in again.");
  if (request.state === "denied") throw new OAuthError("access_denied", "The sign-in was rejected.");
  if (request.state === "used") throw invalidGrant();
  const isInTime = await recordPoll(db, deviceDigest, { nowMs, slowerMs: toolSignIn.slowDownMs });
  if (!isInTime) throw new OAuthError("slow_down", "Wait 5 seconds longer between two requests.");
  if (request.state === "pending")
    throw new OAuthError("authorization_pending", "The sign-in waits for approval.");
  const issued = await collectTokens(context, deviceDigest);
  await context.gateway.policy.refresh();
  if (issued === null) throw new OAuthError("access_denied", "You may no longer sign in this tool.");
  await waitForOtherNodes(context, 2);
  return issued;
}

/** Null if the person has lost the right meanwhile. Of several polls, one gets the tokens. */
async function collectTokens(context: ToolContext, deviceDigest: string): Promise<IssuedTokens | null> {
  const policy = requireToolSignIn(context);
  const { db, clock } = context.installation;
  return transaction(db, async (tx) => {
    // First, because it takes the lock: the end of the person's access takes it first too.
    await bumpKeyRevision(tx);
    const approval = await takeApproved(tx, deviceDigest, clock.nowMs());
    if (approval === null) throw invalidGrant();
    const user = await findUser(tx, approval.userId);
    if (user === null || effectiveStatus(user) === "disabled") return null;
    const groups = listOfferedGroups(context, policy, user);
    if (!groups.some(({ id }) => id === approval.groupId)) return null;
    return createToolKey(tx, context, policy, { ...approval, user });
  });
}

/** A pending request, for the person who typed its code. Wrong codes of an address and of a person are counted. */
export async function findRequest(
  context: ToolContext,
  { actor, clientAddress }: ConsoleAuthor,
  typed: string,
): Promise<DeviceRequest> {
  requireToolSignIn(context);
  const { installation, identity } = context;
  const { db, clock, digest } = installation;
  const { wrongCodes } = identity.tools;
  const taken: string[] = [];
  for (const subject of [addressBlock(clientAddress), actor.userId]) {
    const waitSeconds = wrongCodes.take(subject);
    if (waitSeconds !== null) {
      for (const one of taken) wrongCodes.release(one);
      throw tooManyCodes(waitSeconds);
    }
    taken.push(subject);
  }
  const code = parseUserCode(typed);
  const found = code === null ? null : await findPendingByUserCode(db, digest(code), clock.nowMs());
  if (found === null) throw unknownCode();
  for (const subject of taken) wrongCodes.release(subject);
  return found;
}

export async function approve(
  context: ToolContext,
  author: ConsoleAuthor,
  request: DeviceRequest,
  { name, group: groupName }: { name: string; group: string },
): Promise<void> {
  const policy = requireToolSignIn(context);
  const { db, clock } = context.installation;
  const { userId } = author.actor;
  await transaction(db, async (tx) => {
    await bumpKeyRevision(tx);
    await requireLiveActor(tx, author.actor);
    const user = await findUser(tx, userId);
    const groups = user === null ? [] : listOfferedGroups(context, policy, user);
    const group = groups.find((one) => one.name === groupName);
    if (group === undefined)
      throw fieldError("group", "invalid_value", `you cannot sign in tools for the group "${groupName}".`);
    if (await isKeyNameTaken(tx, { userId, name, otherThan: "" }))
      throw fieldError("name", "conflict", `a key or tool "${name}" already exists. Choose another name.`);
    await rejectTooMany(tx, userId);
    const approval = { userId, groupId: group.id, name };
    if (!(await approveRequest(tx, request.userCodeDigest, approval, clock.nowMs()))) throw unknownCode();
    await recordChange(tx, author, {
      atMs: clock.nowMs(),
      action: "tool.approve",
      target: `tool ${name} at ${request.address}`,
      changes: [{ field: "group", from: null, to: group.name }],
    });
  });
}

async function rejectTooMany(tx: Parameters<typeof countTools>[0], userId: string): Promise<void> {
  const isFull =
    (await countTools(tx, userId)) >= toolSignIn.toolsPerUserMax ||
    (await countActiveKeys(tx, userId)) >= limits.keysPerUserMax;
  if (isFull)
    throw new ApiError(
      "conflict",
      "You have too many signed-in tools or keys. End an unused one in your profile.",
    );
}

export async function deny(
  { installation: { db, clock } }: ToolContext,
  author: ConsoleAuthor,
  request: DeviceRequest,
): Promise<void> {
  const nowMs = clock.nowMs();
  await transaction(db, async (tx) => {
    if (!(await denyRequest(tx, request.userCodeDigest, { userId: author.actor.userId, nowMs })))
      throw unknownCode();
    await recordChange(tx, author, {
      atMs: nowMs,
      action: "tool.deny",
      target: `tool at ${request.address}`,
      changes: [],
    });
  });
}

function unknownCode(): ApiError {
  return fieldError(
    "user_code",
    "not_found",
    "the code is wrong or has expired. Check the code that the tool shows, or start its sign-in again.",
  );
}

function tooManyCodes(seconds: number): ApiError {
  return new ApiError("rate_limit_exceeded", "Too many wrong codes. Try again later.", {
    headers: { "retry-after": String(seconds) },
  });
}
