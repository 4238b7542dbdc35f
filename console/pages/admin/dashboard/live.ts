/** The live figures that the gateway sends once a second, and those of the last minute. */

import { useEffect, useState } from "react";
import { buildAddress, type ResponseBody } from "../../../api.ts";

export type Frame = ResponseBody<"admin.dashboard.live">;

interface Live {
  /** Null until the first event arrives. */
  frame: Frame | null;
  /** Oldest first. */
  frames: readonly Frame[];
  isConnected: boolean;
}

const FRAMES_KEPT = 60;
const AGAIN_MS = 3_000;

export function useLive(): Live {
  const [frames, setFrames] = useState<readonly Frame[]>([]);
  const [isConnected, setConnected] = useState(false);
  useEffect(() => {
    let source: EventSource | null = null;
    let again: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      source = new EventSource(buildAddress("admin.dashboard.live"));
      source.onmessage = (event) => {
        setConnected(true);
        const frame: Frame = JSON.parse(event.data);
        setFrames((before) => [...before.slice(1 - FRAMES_KEPT), frame]);
      };
      source.onerror = () => {
        setConnected(false);
        // The browser itself reconnects only after an interruption, not after a rejection.
        if (source?.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN_MS);
      };
    };
    open();
    return () => {
      clearTimeout(again);
      source?.close();
    };
  }, []);
  return { frame: frames.at(-1) ?? null, frames, isConnected };
}
