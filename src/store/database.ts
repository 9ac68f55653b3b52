import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

/** A database of the PostgreSQL dialect: the embedded one or a server. */
export interface Database extends AsyncDisposable {
  readonly kind: 'pglite' | 'postgres';
  /** How many hot statements may run at once with gain: 2 on PostgreSQL, 1 embedded. */
  readonly lanes: number;
  /** A hot statement, prepared once under `name`. Every value of the answer is the text form of the SQL value, or null. */
  exec(name: string, text: string, values: readonly (string | number | null)[]): Promise<(string | null)[][]>;
  /** For everything that is not hot; interactive transactions included. */
  readonly kysely: Kysely<Schema>;
}
