import type { Answer, Input } from "../../../api.ts";
import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { useToast } from "../../../ui/toast.tsx";

export type Settings = Answer<"admin.settings.get">;
type Body = NonNullable<Input<"admin.settings.save">["body"]>;

/** Saves the sections that are given, each as a whole, and says so. */
export function useSaveSettings(): (body: Body) => Promise<Settings> {
  const t = useText("adminSettings");
  const say = useToast();
  const save = useChange("admin.settings.save", {
    invalidates: ["admin.settings.", "admin.alerts.", "admin.usage_export.", "session.current"],
  });
  return async (body) => {
    const saved = await save.mutateAsync({ body });
    say(t.saved);
    return saved;
  };
}
