/** Where an account lists its models. */

import type { PolicyAccount } from "./account.ts";
import { modelListPath } from "./upstream-address.ts";

export interface ModelLists {
  readonly baseUrl: string;
  readonly paths: readonly string[];
}

export function modelLists(account: PolicyAccount): ModelLists {
  const { baseUrl, basePath } = account;
  switch (account.kind) {
    case "bedrock":
      return {
        // Models are listed by another host than they are called by.
        baseUrl: baseUrl.replace("://bedrock-runtime.", "://bedrock."),
        // Current models of Claude can be called by an inference profile only.
        paths: [`${basePath}/inference-profiles?maxResults=1000`],
      };
    case "vertex": {
      const base = `${basePath.replace(/\/v1$/, "")}/v1beta1/publishers`;
      return {
        baseUrl,
        paths: [`${base}/google/models?pageSize=300`, `${base}/anthropic/models?pageSize=300`],
      };
    }
    default:
      return { baseUrl, paths: [modelListPath(account)] };
  }
}
