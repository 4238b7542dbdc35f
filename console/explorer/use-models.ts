/** The models that the typed key can call, from `GET /v1/models`. */

import { useRef, useState } from "react";
import { z } from "zod";
import { isSendable } from "./sendable-key.ts";

export interface KeyModel {
  readonly id: string;
  readonly interfaces: readonly string[];
}

export interface KeyModels {
  readonly state: "unknown" | "rejected" | "known";
  readonly all: readonly KeyModel[];
}

const NONE: KeyModels = { state: "unknown", all: [] };

const list = z.looseObject({
  data: z.array(z.looseObject({ id: z.string(), interfaces: z.array(z.string()) })),
});

export function useModels(key: () => string): { models: KeyModels; look(): void } {
  const [models, setModels] = useState<KeyModels>(NONE);
  const asked = useRef(0);

  async function look(): Promise<void> {
    const turn = ++asked.current;
    const found = key() === "" ? NONE : await ask(key());
    // The key has changed meanwhile.
    if (turn === asked.current) setModels(found);
  }

  return { models, look: () => void look() };
}

async function ask(key: string): Promise<KeyModels> {
  if (!isSendable(key)) return { state: "rejected", all: [] };
  try {
    const response = await fetch("/v1/models", { headers: { authorization: `Bearer ${key}` } });
    const found = list.safeParse(await response.json());
    if (!response.ok || !found.success) return { state: "rejected", all: [] };
    return { state: "known", all: found.data.data };
  } catch {
    return NONE;
  }
}
