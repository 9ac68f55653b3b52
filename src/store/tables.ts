// The tables of a database as its catalogue tells them, so that a backup cannot forget one; and each row as one line of
// text, the same on both back ends.
import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { Schema } from './schema.ts';

export interface Table {
  name: string;
  columns: { name: string; type: string }[];
  /** Columns that give the rows one order: the primary key, else all. */
  order: string[];
}

/** What a move or the migrator keeps for itself is no content. */
const OWN_TABLES = ['kysely_migration', 'kysely_migration_lock', 'homard_grow'];

/** In the order of their names. */
export async function readTables(kysely: Kysely<Schema>): Promise<Table[]> {
  const { rows } = await sql<{ table: string; column: string; type: string; place: number | null }>`
    select c.relname as table, a.attname as column, format_type(a.atttypid, a.atttypmod) as type,
      array_position(i.indkey::int2[], a.attnum)::int as place
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_index i on i.indrelid = c.oid and i.indisprimary
    where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace and a.attgenerated = ''
    order by c.relname collate "C", a.attnum`.execute(kysely);
  const tables: Table[] = [];
  for (const [name, columns] of Map.groupBy(rows, ({ table }) => table)) {
    if (OWN_TABLES.includes(name)) continue;
    const key = columns.filter(({ place }) => place !== null).toSorted((a, b) => a.place! - b.place!);
    tables.push({
      name,
      columns: columns.map(({ column, type }) => ({ name: column, type })),
      order: (key.length ? key : columns).map(({ column }) => column),
    });
  }
  return tables;
}

/** A row as `["a", null, ...]`: the text form of each column, in the session that `plainSession` makes. */
export function selectLines({ name, columns, order }: Table) {
  const texts = columns.map((column) => sql`${sql.ref(column.name)}::text`);
  // By bytes, whatever the database's language.
  const keys = order.map((column) => {
    const type = columns.find((each) => each.name === column)?.type;
    return type === 'text' ? sql`${sql.ref(column)} collate "C"` : sql.ref(column);
  });
  return sql<{ line: string }>`select json_build_array(${sql.join(texts)})::text as line
    from ${sql.table(name)} order by ${sql.join(keys)}`;
}

/** Inserts rows that `selectLines` gave, of the columns that are named. */
export function insertLines(table: Table, columns: readonly string[], lines: readonly string[]) {
  const typeOf = new Map(table.columns.map(({ name, type }) => [name, type]));
  const values = columns.map((name, i) => sql`(line->>${sql.lit(i)})::${sql.raw(typeOf.get(name)!)}`);
  return sql`insert into ${sql.table(table.name)} (${sql.join(columns.map((name) => sql.ref(name)))})
    overriding system value
    select ${sql.join(values)} from jsonb_array_elements(${`[${lines.join(',')}]`}::jsonb) as line`;
}

/** Numbers that the database gives itself go on behind the ones that were inserted. */
export async function continueSequences(kysely: Kysely<Schema>, tables: readonly Table[]): Promise<void> {
  for (const { name, columns } of tables) {
    const counted = sql.join(columns.map((column) => sql`(${column.name})`));
    const { rows } = await sql<{ column: string; sequence: string }>`select "column", sequence from (values ${counted})
      as c("column"), pg_get_serial_sequence(${`"${name}"`}, "column") as sequence where sequence is not null`.execute(
      kysely,
    );
    for (const { column, sequence } of rows) {
      await sql`select setval(${sequence}, greatest(coalesce(max(${sql.ref(column)}), 0), 1), count(*) > 0)
        from ${sql.table(name)}`.execute(kysely);
    }
  }
}

/** Text forms must not depend on the settings of a server; long reads are meant to be long. For this transaction. */
export async function plainSession(transaction: Kysely<Schema>): Promise<void> {
  const settings = [
    "timezone = 'UTC'",
    "datestyle = 'ISO, MDY'",
    "intervalstyle = 'postgres'",
    'extra_float_digits = 1',
  ];
  for (const setting of [...settings, "bytea_output = 'hex'", 'statement_timeout = 0', 'lock_timeout = 0']) {
    await sql.raw(`set local ${setting}`).execute(transaction);
  }
}
