/** Whether the key can be sent in a header. A shortened key has an ellipsis, which cannot. */
export function isSendable(key: string): boolean {
  return /^[\x21-\x7e]*$/.test(key);
}
