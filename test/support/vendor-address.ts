/**
 * A public address on the loopback device, for an upstream that is reached like a vendor: without permission for private
 * networks. As root only.
 */

export const VENDOR_ADDRESS = "11.11.11.11";

export function addVendorAddress(): void {
  changeAddress("add");
}

export function removeVendorAddress(): void {
  changeAddress("del");
}

/** Other test files may have added or removed it already. */
function changeAddress(action: "add" | "del"): void {
  Bun.spawnSync(["ip", "address", action, `${VENDOR_ADDRESS}/32`, "dev", "lo"]);
}
