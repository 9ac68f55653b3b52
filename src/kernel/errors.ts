/** What a caller of a code can rely on: the HTTP status, what to do, and whether the same call may succeed later. */
export interface ErrorKind {
  status: number;
  hint: string;
  retryable?: boolean;
}

export interface ErrorDetails {
  cause?: unknown;
  /** Replaces the catalogue's hint where this case has a better one. */
  hint?: string;
  /** Machine-readable facts, for example the current version after a conflict. Never secrets. */
  data?: Record<string, string | number | boolean | null>;
}

/** The one error class. `code` is stable (`folder.snake_case`); `message` and `hint` are for people and hold no secrets. */
export class AgentError extends Error {
  readonly code: string;
  readonly status: number;
  readonly hint: string;
  readonly retryable: boolean;
  readonly data: Record<string, string | number | boolean | null> | undefined;

  constructor(code: string, kind: ErrorKind, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'AgentError';
    this.code = code;
    this.status = kind.status;
    this.hint = details.hint ?? kind.hint;
    this.retryable = kind.retryable ?? false;
    this.data = details.data;
  }
}

/** Declares a folder's errors beside the code that throws them: `storeError('locked', 'The directory ... is in use')`. */
export function defineErrors<K extends string>(folder: string, kinds: Record<K, ErrorKind>) {
  const create = (kind: K, message: string, details?: ErrorDetails): AgentError =>
    new AgentError(`${folder}.${kind}`, kinds[kind], message, details);
  return Object.assign(create, { folder, kinds });
}

/** A broken invariant of our own: a bug, never bad input. */
export function unreachable(what: string): never {
  throw new Error(`This cannot happen: ${what}`);
}

/** The message of anything that was thrown, for people. */
export function messageOf(error: unknown): string {
  if (error instanceof Error) return error.message || error.name;
  return typeof error === 'string' ? error : 'Unknown error';
}
