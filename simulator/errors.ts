/** Error responses of the simulator, in OpenAI's format. */

/** An error response in OpenAI's envelope. */
export interface Rejection {
  kind: "rejection";
  status: number;
  body: string;
  headers: Record<string, string>;
}

interface ErrorFields {
  message: string;
  type?: string;
  param?: string | null;
  code?: string | null;
}

export function errorBody(error: ErrorFields): string {
  return JSON.stringify({
    error: {
      message: error.message,
      type: error.type ?? "invalid_request_error",
      param: error.param ?? null,
      code: error.code ?? null,
    },
  });
}

export function createRejection(
  status: number,
  error: ErrorFields,
  headers: Record<string, string> = {},
): Rejection {
  return { kind: "rejection", status, body: errorBody(error), headers };
}

export function missing(param: string): Rejection {
  return createRejection(400, {
    message: `Missing required parameter: '${param}'.`,
    param,
    code: "missing_required_parameter",
  });
}

export function invalid(param: string, message: string): Rejection {
  return createRejection(400, { message, param, code: "invalid_value" });
}

export function unknownParameter(param: string): Rejection {
  return createRejection(400, {
    message: `Unknown parameter: '${param}'.`,
    param,
    code: "unknown_parameter",
  });
}

export function unsupportedParameter(param: string, message: string): Rejection {
  return createRejection(400, { message, param, code: "unsupported_parameter" });
}

export function notJson(): Rejection {
  return createRejection(400, {
    message:
      "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)",
  });
}

export function unknownUrl(method: string, path: string): Rejection {
  return createRejection(404, { message: `Invalid URL (${method} ${path})` });
}

export function unknownModel(model: string): Rejection {
  return createRejection(404, {
    message: `The model '${model}' does not exist or you do not have access to it.`,
    param: "model",
    code: "model_not_found",
  });
}

export function methodNotAllowed(method: string, path: string, allow: string): Rejection {
  return createRejection(
    405,
    { message: `Not allowed to ${method} on ${path}.`, code: "method_not_supported" },
    { allow },
  );
}

export function badCredential(credential: string | null): Rejection {
  if (credential === null) {
    return createRejection(401, {
      message:
        "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
    });
  }
  return createRejection(401, {
    message: `Incorrect API key provided: ${maskCredential(credential)}. You can find your API key at https://platform.openai.com/account/api-keys.`,
    code: "invalid_api_key",
  });
}

function maskCredential(credential: string): string {
  return credential.length < 12 ? "***" : `${credential.slice(0, 3)}***${credential.slice(-4)}`;
}
