/**
 * Checks whether a key may call a model through an interface. Reads the same policy rows that `GET /v1/models` lists.
 */

import { ApiError } from "../../errors.ts";
import type { AccountRoute, PublishedModel } from "../../policy/snapshot.ts";
import { ENDPOINTS, type Endpoint } from "../../protocols/shared/request.ts";
import type { Caller } from "./authenticate.ts";

export interface AdmittedRequest {
  model: PublishedModel;
  /** The routes that can serve the request, best first. Never empty. */
  routes: readonly AccountRoute[];
}

export function admit(caller: Caller, endpoint: Endpoint, publicModel: string): AdmittedRequest {
  allowInterface(caller, endpoint);
  const model = caller.group.models.get(publicModel);
  if (!model) throw modelNotFound(publicModel);
  const routes = model.routes.get(endpoint.interface);
  if (routes) return { model, routes };
  const serves = [...model.routes.keys()];
  const path = ENDPOINTS.find(({ interface: family }) => family === serves[0])?.path;
  throw new ApiError(
    "invalid_value",
    `The model \`${publicModel}\` serves ${serves.join(" and ")}, not ${endpoint.interface}. Call it at /v1${path}.`,
    { param: "model" },
  );
}

export function allowInterface(caller: Caller, endpoint: Pick<Endpoint, "interface">): void {
  if (caller.group.interfaces.has(endpoint.interface)) return;
  throw new ApiError(
    "interface_not_allowed",
    `This key's group does not include the ${endpoint.interface} interface. Use a key of a group that does, or ask your administrator.`,
  );
}

/** The same error for a model that does not exist and for one that is not published to this key. */
export function modelNotFound(publicModel: string): ApiError {
  return new ApiError(
    "model_not_found",
    `The model \`${publicModel}\` does not exist or you do not have access to it. GET /v1/models lists what this key can call.`,
    { param: "model" },
  );
}
