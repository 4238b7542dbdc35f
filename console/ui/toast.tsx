/** Short messages at the edge of the page: an action succeeded or failed. */

import { createContext, type ReactNode, useCallback, useContext, useMemo, useRef, useState } from "react";
import { useText } from "../text/text.tsx";
import { IconButton } from "./button.tsx";
import { classes } from "./class.ts";
import { Icon } from "./icon.tsx";
import { useExplain } from "./notice.tsx";

interface Toast {
  id: number;
  tone: "good" | "bad";
  text: string;
}

type ShowToast = (text: string, tone?: Toast["tone"]) => void;

const ToastContext = createContext<ShowToast>(() => {});
const SHOWN_MS = 6_000;

export function ToastProvider({ children }: { children: ReactNode }) {
  const t = useText("kit");
  const [toasts, setToasts] = useState<readonly Toast[]>([]);
  const last = useRef(0);
  const drop = useCallback((id: number) => setToasts((all) => all.filter((toast) => toast.id !== id)), []);
  const showToast = useMemo<ShowToast>(
    () =>
      (text, tone = "good") => {
        const id = ++last.current;
        setToasts((all) => [...all.slice(-2), { id, tone, text }]);
        // A problem stays until it is dismissed.
        if (tone === "good") setTimeout(() => drop(id), SHOWN_MS);
      },
    [drop],
  );
  return (
    <ToastContext value={showToast}>
      {children}
      <div className="toasts" role="status">
        {toasts.map(({ id, tone, text }) => (
          <div key={id} className={classes("toast", tone)}>
            <Icon name={tone === "good" ? "check" : "alert"} />
            <p>{text}</p>
            <IconButton small icon="close" label={t.close} onClick={() => drop(id)} />
          </div>
        ))}
      </div>
    </ToastContext>
  );
}

export function useToast(): ShowToast {
  return useContext(ToastContext);
}

/** For changes that have no form: `change.mutate(input, { onError: useProblemToast() })`. */
export function useProblemToast(): (error: unknown) => void {
  const showToast = useToast();
  const explain = useExplain();
  return (error) => showToast(explain(error), "bad");
}
