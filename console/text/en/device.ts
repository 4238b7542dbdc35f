/** English texts: the page that signs in a tool. */

export const device = {
  title: "Sign in a tool",
  about: "Enter the code that the tool on your computer shows, for example Claude Code after /login.",
  code: "Code",
  codeHint: "Eight letters. The code works for 10 minutes.",
  next: "Continue",
  check: {
    title: "Did you start this sign-in yourself, just now?",
    otherAddress: "This sign-in was started from another network address than yours",
    text: "The tool can call models in your name and at your expense. Continue only if you started it yourself and the code on its screen is the same. Reject a code or link that you received from another person.",
  },
  address: "IP address of the tool",
  started: "Started",
  name: "Name of the tool",
  nameHint: "The list of your tools shows it, for example: Claude Code on my laptop.",
  group: "Group",
  groupHint: "Defines the models, prices and limits of the tool.",
  approve: "Sign in the tool",
  deny: "Reject",
  otherCode: "Enter another code",
  noGroup: {
    title: "No group for tools",
    text: "You may not sign in tools for any group. Ask your administrator.",
  },
  approved: {
    title: "The tool is signed in",
    text: "Return to the tool. It continues in a few seconds. You can close this page, and end the sign-in in your profile.",
    profile: "Signed-in tools",
  },
  denied: { title: "Sign-in rejected", text: "The tool gets no access. You can close this page." },
};
