/** Whether the administrator has closed the checklist, in this browser. Help shows it again. */

const KEPT_AS = "setup-checklist";

export function isChecklistClosed(): boolean {
  return localStorage.getItem(KEPT_AS) === "closed";
}

export function closeChecklist(): void {
  localStorage.setItem(KEPT_AS, "closed");
}

export function reopenChecklist(): void {
  localStorage.removeItem(KEPT_AS);
}
