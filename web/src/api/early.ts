// What a page that opens will ask for is asked before its code has come: the network and the code load side by side.
const asked = new Map<string, Promise<Response>>();

export function askEarly(path: string): void {
  const answer = fetch(path, { headers: { accept: 'application/json' } });
  // Whoever takes it sees the failure; nobody else needs to.
  answer.catch(() => undefined);
  asked.set(path, answer);
}

/** Once: a second request is a new one. */
export function takeEarly(path: string): Promise<Response> | undefined {
  const answer = asked.get(path);
  asked.delete(path);
  return answer;
}
