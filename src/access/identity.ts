/** Who is calling. Every row that a request can reach carries this tenant and owner. */
export interface Caller {
  tenant: string;
  owner: string;
}

/**
 * Tells who is calling; null for nobody. The standalone server knows its owner by token or cookie; an embedding host gives
 * its own function and so its own users.
 */
export type Identity = (request: Request) => Caller | null | Promise<Caller | null>;

/** Tokens to callers, for tests and for hosts with a fixed set of clients. Compared in constant time. */
export function createTokenIdentity(tokens: Record<string, Caller>): Identity {
  const known = Object.entries(tokens).map(([token, caller]) => ({ digest: digestOf(token), caller }));
  return async (request) => {
    const token = bearerOf(request);
    if (token === null) return null;
    const given = await digestOf(token);
    for (const { digest, caller } of known) if (isEqual(await digest, given)) return caller;
    return null;
  };
}

/** The bearer token of a request; null when there is none. */
export function bearerOf(request: Request): string | null {
  return /^Bearer +(\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1] ?? null;
}

async function digestOf(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a[i]! ^ (b[i] ?? 0);
  return difference === 0;
}
