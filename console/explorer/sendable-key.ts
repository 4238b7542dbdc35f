/** Whether it can be sent in a header at all: keys are shown shortened elsewhere, with an ellipsis that cannot. */
export function isSendable(key: string): boolean {
  return /^[\x21-\x7e]*$/.test(key);
}
