/** Errors of SCIM (RFC 7644, section 3.12): an `ApiError` with the type that directories read. */

import { ApiError, type ErrorCode } from "../errors.ts";

export type ScimErrorType =
  | "invalidFilter"
  | "invalidSyntax"
  | "invalidPath"
  | "noTarget"
  | "invalidValue"
  | "mutability"
  | "tooMany"
  | "uniqueness";

export class ScimError extends ApiError {
  readonly scimType: ScimErrorType;

  constructor(scimType: ScimErrorType, detail: string) {
    super(scimType === "uniqueness" ? "conflict" : "invalid_value", detail);
    this.scimType = scimType;
  }
}

export const SCIM_MEDIA = "application/scim+json";
const ERROR_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error";

/** Errors of the console's API that a request of SCIM may cause too. */
const TYPES: Partial<Record<ErrorCode, ScimErrorType>> = {
  conflict: "uniqueness",
  invalid_json: "invalidSyntax",
  invalid_type: "invalidValue",
  invalid_value: "invalidValue",
  missing_required_parameter: "invalidValue",
};

export function scimErrorResponse(error: ApiError): Response {
  return new Response(JSON.stringify(buildBody(error)), {
    status: error.status,
    headers: { ...error.headers, "content-type": SCIM_MEDIA },
  });
}

function buildBody(error: ApiError) {
  const scimType =
    error instanceof ScimError ? error.scimType : (TYPES as Record<string, ScimErrorType>)[error.code];
  return {
    schemas: [ERROR_SCHEMA],
    status: String(error.status),
    ...(scimType === undefined ? {} : { scimType }),
    detail: error.message,
  };
}
