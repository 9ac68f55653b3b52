// The part of PostgreSQL's wire protocol that a prepared statement needs: Parse once, then Bind, Execute and Sync in one
// buffer, with text values. PGlite's own query() takes six round trips and plans anew each time.
// https://www.postgresql.org/docs/18/protocol-message-formats.html
import type { Value } from '../database.ts';

/** The server's own fields of a refused statement, as they cross the thread boundary. */
export interface StatementFailure {
  message: string;
  /** SQLSTATE; absent when the statement never reached the server. */
  code?: string;
  detail?: string;
  constraint?: string;
}

/** A statement that the embedded database refused; the same fields as the errors of `pg`. */
export class StatementError extends Error {
  readonly code: string | undefined;
  readonly detail: string | undefined;
  readonly constraint: string | undefined;

  constructor({ message, code, detail, constraint }: StatementFailure) {
    super(message);
    this.name = 'StatementError';
    this.code = code;
    this.detail = detail;
    this.constraint = constraint;
  }
}

class Writer {
  #bytes = Buffer.allocUnsafe(8192);
  #length = 0;
  #start = 0;

  open(type: string): void {
    this.#reserve(5);
    this.#bytes[this.#length] = type.charCodeAt(0);
    this.#start = this.#length + 1;
    this.#length += 5;
  }

  close(): void {
    this.#bytes.writeInt32BE(this.#length - this.#start, this.#start);
  }

  int16(value: number): void {
    this.#reserve(2);
    this.#length = this.#bytes.writeUInt16BE(value, this.#length);
  }

  int32(value: number): void {
    this.#reserve(4);
    this.#length = this.#bytes.writeInt32BE(value, this.#length);
  }

  text(value: string): void {
    const size = Buffer.byteLength(value);
    this.int32(size);
    this.#write(value, size);
  }

  name(value: string): void {
    const size = Buffer.byteLength(value);
    this.#write(value, size);
    this.#reserve(1);
    this.#bytes[this.#length++] = 0;
  }

  done(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  #write(value: string, size: number): void {
    this.#reserve(size);
    this.#length += this.#bytes.write(value, this.#length);
  }

  #reserve(size: number): void {
    if (this.#length + size <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + size));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

/** One call of a prepared statement; with `text`, it is prepared first. At most 65,535 values. */
export function toCall(name: string, values: readonly Value[], text?: string): Uint8Array {
  const writer = new Writer();
  if (text !== undefined) {
    writer.open('P');
    writer.name(name);
    writer.name(text);
    writer.int16(0);
    writer.close();
  }
  writer.open('B');
  writer.name('');
  writer.name(name);
  writer.int16(0);
  writer.int16(values.length);
  for (const value of values) {
    if (value === null) writer.int32(-1);
    else writer.text(String(value));
  }
  writer.int16(0);
  writer.close();
  writer.open('E');
  writer.name('');
  writer.int32(0);
  writer.close();
  writer.open('S');
  writer.close();
  return writer.done();
}

export interface CallAnswer {
  rows: (string | null)[][];
  /** The statement is prepared now, whatever came after. */
  isPrepared: boolean;
  failure?: StatementFailure;
}

/** Reads everything the server answered to one call. */
export function fromAnswer(bytes: Buffer): CallAnswer {
  const answer: CallAnswer = { rows: [], isPrepared: false };
  for (let at = 0; at < bytes.length;) {
    const type = String.fromCharCode(bytes[at]!);
    const end = at + 1 + bytes.readInt32BE(at + 1);
    if (type === 'D') answer.rows.push(readRow(bytes, at + 5));
    else if (type === '1') answer.isPrepared = true;
    else if (type === 'E') answer.failure ??= readFailure(bytes, at + 5);
    at = end;
  }
  return answer;
}

function readRow(bytes: Buffer, start: number): (string | null)[] {
  const row: (string | null)[] = [];
  let at = start + 2;
  for (let left = bytes.readUInt16BE(start); left > 0; left--) {
    const size = bytes.readInt32BE(at);
    at += 4;
    if (size < 0) {
      row.push(null);
    } else {
      row.push(bytes.toString('utf8', at, at + size));
      at += size;
    }
  }
  return row;
}

function readFailure(bytes: Buffer, start: number): StatementFailure {
  const fields: Record<string, string> = {};
  for (let at = start; bytes[at];) {
    const end = bytes.indexOf(0, at);
    fields[String.fromCharCode(bytes[at]!)] = bytes.toString('utf8', at + 1, end);
    at = end + 1;
  }
  return { message: fields.M ?? 'The statement failed', code: fields.C, detail: fields.D, constraint: fields.n };
}
