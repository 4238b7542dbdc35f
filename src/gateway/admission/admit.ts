/** Whether a key may call a model through an interface: by the rows that `GET /v1/models` lists. */

import { KINDS } from "../../accounts/kinds/table.ts";
import { ApiError, paramError } from "../../errors.ts";
import { nearestName } from "../../policy/nearest-name.ts";
import { allowsModel } from "../../policy/request-policy.ts";
import type { AccountRoute, PolicyGroup, PublishedModel } from "../../policy/snapshot.ts";
import { ENDPOINTS } from "../../protocols/endpoints.ts";
import { type Endpoint, publicPath } from "../../protocols/shared/endpoint.ts";
import type { Dialect } from "../../records/interfaces.ts";
import type { Caller } from "./authenticate.ts";

export interface ModelAccess {
  model: PublishedModel;
  /** The routes that can serve the request, best first. Never empty. */
  routes: readonly AccountRoute[];
}

export function admit(caller: Caller, endpoint: Endpoint, publicModel: string): ModelAccess {
  allowInterface(caller, endpoint);
  const model = caller.group.models.get(publicModel);
  if (!model) throw modelNotFound(caller.group, publicModel);
  const routes = findRoutes(model, endpoint);
  if (routes.length > 0) return { model, routes };
  if (model.routes.has(endpoint.interface)) {
    throw paramError(
      "model",
      "invalid_value",
      `The model \`${publicModel}\` does not support ${publicPath(endpoint)}, because its upstream has another interface. Use another model.`,
    );
  }
  const serves = [...model.routes.keys()];
  const suggested = ENDPOINTS.find(({ interface: family }) => family === serves[0]);
  throw paramError(
    "model",
    "invalid_value",
    `The model \`${publicModel}\` supports ${serves.join(" and ")}, not ${endpoint.interface}. Use ${suggested === undefined ? "another model" : publicPath(suggested)}.`,
  );
}

const NO_ROUTES: readonly AccountRoute[] = [];
type ApiName = Endpoint["api"]["name"];
type RouteCaches = Readonly<Record<ApiName, WeakMap<readonly AccountRoute[], readonly AccountRoute[]>>>;

function newCaches(): RouteCaches {
  return { google: new WeakMap(), openai: new WeakMap(), anthropic: new WeakMap() };
}

/** By the API of an endpoint, because embeddings exist in two forms. */
const filteredRoutes: RouteCaches = newCaches();
const embeddingRoutes: RouteCaches = newCaches();

/** Only conversations and embeddings can be translated: other endpoints need an account that has the interface itself. */
export function findRoutes(model: PublishedModel, endpoint: Endpoint): readonly AccountRoute[] {
  const routes = model.routes.get(endpoint.interface) ?? NO_ROUTES;
  if (endpoint.dialect !== null) return routes;
  const api = endpoint.api.name;
  if (routes.every((route) => isNative(route, api))) return routes;
  const { vectorDialect } = endpoint;
  const known = (vectorDialect === null ? filteredRoutes : embeddingRoutes)[api];
  const cached = known.get(routes);
  if (cached !== undefined) return cached;
  const natives = routes.filter((route) => isNative(route, api));
  const found = vectorDialect === null ? natives : translateRoutes(routes, api, vectorDialect);
  known.set(routes, found);
  return found;
}

/** The accounts that are not native have embeddings in the other API. */
function translateRoutes(
  routes: readonly AccountRoute[],
  api: ApiName,
  translation: Dialect,
): readonly AccountRoute[] {
  const compiled: AccountRoute[] = routes.map((route) =>
    isNative(route, api) ? route : { ...route, translation },
  );
  return compiled.sort(
    (a, b) =>
      a.account.priority - b.account.priority ||
      Number(a.translation !== null) - Number(b.translation !== null),
  );
}

function isNative({ translation, account }: AccountRoute, api: ApiName): boolean {
  return translation === null && KINDS[account.kind].apis.includes(api === "google" ? "google" : "openai");
}

export function allowInterface(caller: Caller, endpoint: Pick<Endpoint, "interface">): void {
  if (caller.group.interfaces.has(endpoint.interface)) return;
  throw new ApiError(
    "interface_not_allowed",
    `This key's group does not include the ${endpoint.interface} interface. Use a key of another group, or ask your administrator.`,
  );
}

/** The same error for a model that does not exist and for one that is not published to this key. */
export function modelNotFound(
  { models, requestPolicy }: Pick<PolicyGroup, "models" | "requestPolicy">,
  publicModel: string,
): ApiError {
  const near = nearestName(publicModel, models.keys());
  const hint = near === null ? "" : ` Did you mean \`${near}\`?`;
  const isExcluded = requestPolicy !== null && !allowsModel(requestPolicy, publicModel);
  return new ApiError(
    "model_not_found",
    `The model \`${publicModel}\` does not exist or you do not have access to it.${hint} GET /v1/models lists the models of this key.`,
    { param: "model", rule: isExcluded ? "models" : null },
  );
}
