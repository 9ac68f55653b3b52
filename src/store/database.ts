import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

/** What a hot statement may be given: everything travels as text. */
export type Value = string | number | null;

/**
 * One database, embedded or on a server. A statement that the database refuses rejects with an error that carries
 * `code` (the SQLSTATE) and, where there is one, `detail` and `constraint`: the same fields on both back ends.
 */
export interface Database extends AsyncDisposable {
  readonly kind: 'pglite' | 'postgres';
  /** How many hot statements may run at once with gain: 2 on PostgreSQL, 1 embedded. */
  readonly lanes: number;
  /**
   * A hot statement, prepared once under `name`. Every value of the answer is the text form of the SQL value (times in
   * UTC), or null. Values hold no NUL; a lone surrogate becomes U+FFFD: see column.ts.
   */
  exec(name: string, text: string, values: readonly Value[]): Promise<(string | null)[][]>;
  /** For everything that is not hot; interactive transactions included. int8 is a number, timestamptz a Date. */
  readonly kysely: Kysely<Schema>;
}
