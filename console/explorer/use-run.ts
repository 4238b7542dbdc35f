/** Running requests and turns, one at a time, and asking afterwards what became of them. */

import { useRef, useState } from "react";
import { askReport, type Report } from "./report.ts";
import { NOT_RUN, ownProblem, type Run, runRequest } from "./run.ts";
import { isSendable } from "./sendable-key.ts";
import { requestOf, type Typed } from "./sent-request.ts";
import { openTurnSocket, type TurnSocket } from "./socket-run.ts";

/** The last of each that this page has made, by the names that paths have for them. */
interface Made {
  request_id?: string;
  response_id?: string;
}

export function useRun(key: () => string) {
  const [run, setRun] = useState<Run | null>(null);
  const [report, setReport] = useState<Report | null>(null);
  const [made, setMade] = useState<Made>({});
  const [isOpen, setOpen] = useState(false);
  const aborting = useRef<AbortController>(null);
  const socket = useRef<{ socket: TurnSocket; key: string } | null>(null);
  /** Of the run that is shown: what comes late of an earlier one is not. */
  const present = useRef(0);

  /** Tells of one run, and when it has ended asks what it cost. */
  function hearing(): (run: Run) => void {
    const mine = ++present.current;
    return (next) => {
      if (mine !== present.current) return;
      setRun(next);
      const { state, requestId, responseId } = next;
      if (state === "done" && responseId !== null)
        setMade((before) => ({ ...before, response_id: responseId }));
      if (state === "running" || requestId === null || key() === "") return;
      void askReport(requestId, key()).then((found) => {
        if (found !== null) setMade((before) => ({ ...before, request_id: requestId }));
        if (mine === present.current) setReport(found);
      });
    };
  }

  function fail(code: "missing_api_key" | "unusable_api_key"): void {
    hearing()({ ...NOT_RUN, state: "failed", problem: ownProblem(code) });
  }

  function disconnect(): void {
    socket.current?.socket.close();
    socket.current = null;
    setOpen(false);
  }

  /** The connection stays for the next turn, as long as the key stays the same. */
  function turn(message: string): void {
    if (socket.current?.key !== key()) {
      disconnect();
      const opened = {
        key: key(),
        socket: openTurnSocket(key(), () => {
          if (socket.current !== opened) return;
          socket.current = null;
          setOpen(false);
        }),
      };
      socket.current = opened;
      setOpen(true);
    }
    socket.current?.socket.turn(message, hearing());
  }

  return {
    run,
    report,
    made,
    /** The connection for turns. */
    isOpen,
    start(typed: Typed): void {
      if (run?.state === "running") return;
      setReport(null);
      if (typed.operation.needsKey && key() === "") fail("missing_api_key");
      else if (!isSendable(key())) fail("unusable_api_key");
      else if (typed.operation.isSocket) turn(typed.body);
      else {
        aborting.current = new AbortController();
        setRun(NOT_RUN);
        void runRequest(requestOf(typed), key(), aborting.current.signal, hearing());
      }
    },
    stop(): void {
      aborting.current?.abort();
      if (isOpen) disconnect();
    },
    disconnect,
    forget(): void {
      present.current++;
      aborting.current?.abort();
      disconnect();
      setRun(null);
      setReport(null);
    },
  };
}
