import type { Transaction } from 'kysely';
import type { Database } from './database.ts';
import type { Schema } from './schema.ts';

/** A transaction that is tried again when a commit under way was in its way. */
export async function alone<T>(
  { kysely }: Database,
  work: (transaction: Transaction<Schema>) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await kysely.transaction().execute(work);
    } catch (error) {
      const { code } = error as { code?: string };
      if (attempt === 5 || (code !== '40P01' && code !== '40001')) throw error;
    }
  }
}
