// What was typed and not sent yet, per conversation.
const nameOf = (conversation: string) => `homard-draft:${conversation}`;

export const readDraft = (conversation: string): string => localStorage.getItem(nameOf(conversation)) ?? '';

export function keepDraft(conversation: string, text: string): void {
  if (text) localStorage.setItem(nameOf(conversation), text);
  else localStorage.removeItem(nameOf(conversation));
}
