// Rows of the hot statements (texts, in the order of `entryColumns`) to what the kernel knows; refuses what it cannot read.
import type { Entry } from '../kernel/index.ts';
import { journalError } from '../kernel/index.ts';

export const utc = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

export const entryColumns = `seq, run, commit_n, epoch, kind, body, octet_length(body), bytes_to, ${utc('at')}`;

/** Throws `journal.state_unreadable` for text that is not JSON. */
export function parseJson<T>(text: string, what: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    throw journalError('state_unreadable', `The ${what} cannot be read.`, { cause: error });
  }
}

export function toEntry(row: readonly (string | null)[], conversation: string): Entry {
  const [seq, run, commit, epoch, kind, text, bytes, bytesTo, at] = row as string[];
  const where = `entry ${seq} of conversation ${JSON.stringify(conversation)}`;
  const body = parseJson<unknown>(text!, where);
  const check = typeof body === 'object' && body !== null ? shapes[kind!] : undefined;
  if (!check?.(body as Record<string, unknown>)) {
    throw journalError(
      'state_unreadable',
      `The ${where} is of a kind or form that this version does not know: ${kind}.`,
    );
  }
  return {
    seq: Number(seq),
    run: run!,
    commit: Number(commit),
    epoch: Number(epoch),
    kind,
    body,
    bytes: Number(bytes),
    bytesTo: Number(bytesTo),
    at: at!,
  } as Entry;
}

/** What a body must have to be worked with. */
const shapes: Record<string, (body: Record<string, unknown>) => boolean> = {
  user: ({ parts }) => isParts(parts),
  assistant: ({ parts, usage }) => isParts(parts) && typeof usage === 'object' && usage !== null,
  tool_result: ({ call, name }) => typeof call === 'string' && typeof name === 'string',
  summary: ({ text }) => typeof text === 'string',
  notice: ({ code, message }) => typeof code === 'string' && typeof message === 'string',
};

const PARTS = new Set(['text', 'reasoning', 'file', 'tool_call']);

function isParts(parts: unknown): boolean {
  return Array.isArray(parts) && parts.every((part) => PARTS.has((part as { type?: string } | null)?.type ?? ''));
}
