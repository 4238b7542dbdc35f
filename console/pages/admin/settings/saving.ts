/** Saves the given sections, each as a whole, and shows a confirmation. */

import type { Input, ResponseBody } from "../../../api.ts";
import { useChange } from "../../../data.ts";
import { useText } from "../../../text/text.tsx";
import { useToast } from "../../../ui/toast.tsx";

export type Settings = ResponseBody<"admin.settings.get">;
type Body = NonNullable<Input<"admin.settings.save">["body"]>;

export function useSaveSettings(): (body: Body) => Promise<Settings> {
  const t = useText("adminSettings");
  const showToast = useToast();
  const save = useChange("admin.settings.save", {
    invalidates: ["admin.settings.", "admin.alerts.", "admin.usage_export.", "session.current"],
  });
  return async (body) => {
    const saved = await save.mutateAsync({ body });
    showToast(t.saved);
    return saved;
  };
}
