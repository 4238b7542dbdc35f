/** Formats sizes in bytes for display. */

import { useFormat } from "../../../text/text.tsx";

const KIB = 1_024;

export function useBytes(): (bytes: number) => string {
  const format = useFormat();
  return (bytes) => {
    if (bytes < KIB) return `${format.number(bytes)} B`;
    if (bytes < KIB * KIB) return `${format.number(Math.round(bytes / KIB))} KiB`;
    return `${format.number(Math.round((bytes / KIB / KIB) * 10) / 10)} MiB`;
  };
}
