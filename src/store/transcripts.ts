// What the readable files need of the database: entries that are not in a file yet, how a file was when it was last
// written, and conversations that come from a file.
import { sql } from 'kysely';
import type { ConversationKey, Entry, EntryBody, Owner } from '../kernel/index.ts';
import { textOf } from '../kernel/index.ts';
import { alone } from './alone.ts';
import { fromColumn, toColumn } from './column.ts';
import type { Database } from './database.ts';
import { titleOf } from './journal.ts';
import { readEntries } from './read.ts';
import { entryColumns, toEntry, utc } from './rows.ts';

/**
 * How a file was when it held the entries up to `seq`; `mtime` in milliseconds, null: it was never written. `at` names the
 * workspace of that file: in another one the same entries take as many bytes, at another time.
 */
export interface Mark {
  seq: number;
  bytes: number;
  mtime: number | null;
  at: string | null;
}

export interface Unwritten {
  key: ConversationKey;
  /** Another one for a conversation of the same name that was made after this one was deleted. */
  incarnation: string;
  version: number;
  /** ISO-8601 UTC. */
  createdAt: string;
  updatedAt: string;
  mark: Mark;
  /** Without a gap up to `version`; the error where they cannot be read. */
  entries: Entry[] | { problem: unknown };
}

export interface Known {
  key: ConversationKey;
  version: number;
  mark: Mark;
}

export interface Adopted {
  key: ConversationKey;
  createdAt: string;
  updatedAt: string;
  entries: readonly EntryBody[];
}

export interface TranscriptStore {
  /** Of those conversations that there are: what came after entry `after`; absent: after the mark. In any order. */
  read(wanted: readonly { key: ConversationKey; after?: number }[]): Promise<Unwritten[]>;
  /** Keeps marks, never an older one; of a conversation that is being written to right now it may be left out. */
  mark(marks: readonly (Mark & { key: ConversationKey; incarnation: string })[]): Promise<void>;
  owners(): Promise<Owner[]>;
  /** The ids of an owner's conversations. */
  known(owner: Owner): Promise<string[]>;
  /** Which of these conversations there are; in any order. */
  present(keys: readonly ConversationKey[]): Promise<ConversationKey[]>;
  /** All conversations in one order, at most `limit` that come after `after`. */
  page(after: ConversationKey | undefined, limit: number): Promise<Known[]>;
  /** Whether the conversation that began at that time, to the second, was deleted. */
  isDeleted(key: ConversationKey, createdAt: string): Promise<boolean>;
  /** False when there is a conversation of that name. */
  adopt(adopted: Adopted): Promise<boolean>;
}

const COLUMNS = 10;

const unwritten = `select w.i, c.created_at::text, c.version, ${utc('c.created_at')}, ${utc('c.updated_at')},
    coalesce(w.after, c.transcript_seq), c.transcript_seq, c.transcript_bytes, c.transcript_mtime, c.transcript_at, j.*
  from json_to_recordset($1::json) as w(i int, tenant text, owner text, conversation text, after int)
  join conversation c on c.tenant_id = w.tenant and c.owner = w.owner and c.id = w.conversation
  left join lateral (select ${entryColumns} from journal where tenant_id = c.tenant_id and owner = c.owner
    and conversation = c.id and seq > coalesce(w.after, c.transcript_seq)) j on true
  order by w.i, j.seq`;

// What is locked is being committed to and will be marked later: so this waits for nobody and stands in nobody's way.
const marked = `with w as (select * from json_to_recordset($1::json)
    as w(tenant text, owner text, conversation text, born text, seq int, bytes bigint, mtime float8, at text)),
  c as (select w.* from w join conversation c
      on c.tenant_id = w.tenant and c.owner = w.owner and c.id = w.conversation
    where c.created_at = w.born::timestamptz and c.transcript_seq <= w.seq for update of c skip locked)
  update conversation t set transcript_seq = c.seq, transcript_bytes = c.bytes, transcript_mtime = c.mtime,
    transcript_at = c.at
  from c where t.tenant_id = c.tenant and t.owner = c.owner and t.id = c.conversation`;

const present = `select w.i from json_array_elements($1::json) with ordinality as w(e, i)
  where exists (select from conversation c
    where c.tenant_id = e->>'tenant' and c.owner = e->>'owner' and c.id = e->>'conversation')`;

/** The first page has a statement of its own: a condition that may be absent would not be looked up in the index. */
const pageAfter = (condition: string) =>
  `select tenant_id, owner, id, version, transcript_seq, transcript_bytes, transcript_mtime, transcript_at
  from conversation ${condition} order by tenant_id, owner, id limit $1::int`;
const firstPage = pageAfter('');
const nextPage = pageAfter('where (tenant_id, owner, id) > ($2::text, $3::text, $4::text)');

export function createTranscriptStore(database: Database): TranscriptStore {
  const { kysely } = database;

  /** Of a fork what it shares comes from elsewhere, where that is not written yet. */
  async function entriesOf(
    key: ConversationKey,
    rows: (string | null)[][],
    range: { after: number; until: number },
  ): Promise<Unwritten['entries']> {
    const { after: seq, until } = range;
    try {
      const own = rows.map((row) => row.slice(COLUMNS)).filter((row) => row[0] !== null);
      const isWhole = until <= seq || Number(own[0]?.[0]) === seq + 1;
      return isWhole
        ? own.map((row) => toEntry(row, key.conversation))
        : await readEntries(database, key, { seq, until, bytes: 0 });
    } catch (problem) {
      return { problem };
    }
  }

  return {
    async read(wanted) {
      const asked = wanted.map(({ key, after }, i) => ({ i, ...toColumns(key), after: after ?? null }));
      const rows = await database.exec('homard_transcripts_2', unwritten, [JSON.stringify(asked)]);
      const groups = Map.groupBy(rows, ([i]) => Number(i));
      const found: Unwritten[] = [];
      for (const [i, group] of groups) {
        const { key } = wanted[i]!;
        const [, incarnation, version, createdAt, updatedAt, after, seq, bytes, mtime, at] = group[0]!;
        found.push({
          key,
          incarnation: incarnation!,
          version: Number(version),
          createdAt: createdAt!,
          updatedAt: updatedAt!,
          mark: toMark({ seq, bytes, mtime, at }),
          entries: await entriesOf(key, group, { after: Number(after), until: Number(version) }),
        });
      }
      return found;
    },
    async mark(marks) {
      const rows = marks.map(({ key, incarnation, ...mark }) => ({ ...toColumns(key), born: incarnation, ...mark }));
      await database.exec('homard_transcript_marks_2', marked, [JSON.stringify(rows)]);
    },
    async owners() {
      const rows = await kysely.selectFrom('conversation').select(['tenant_id', 'owner']).distinct().execute();
      return rows.map(({ tenant_id, owner }) => ({ tenant: fromColumn(tenant_id), owner: fromColumn(owner) }));
    },
    async known({ tenant, owner }) {
      const rows = await kysely
        .selectFrom('conversation')
        .select('id')
        .where('tenant_id', '=', toColumn(tenant))
        .where('owner', '=', toColumn(owner))
        .execute();
      return rows.map(({ id }) => fromColumn(id));
    },
    async present(keys) {
      const rows = await database.exec('homard_transcripts_present_1', present, [JSON.stringify(keys.map(toColumns))]);
      return rows.map(([i]) => keys[Number(i) - 1]!);
    },
    async page(after, limit) {
      const last = after && toColumns(after);
      const rows = last
        ? await database.exec('homard_transcripts_page_2', nextPage, [
            limit,
            last.tenant,
            last.owner,
            last.conversation,
          ])
        : await database.exec('homard_transcripts_page_1', firstPage, [limit]);
      return rows.map(([tenant, owner, id, version, seq, bytes, mtime, at]) => ({
        key: { tenant: fromColumn(tenant!), owner: fromColumn(owner!), conversation: fromColumn(id!) },
        version: Number(version),
        mark: toMark({ seq, bytes, mtime, at }),
      }));
    },
    async isDeleted(key, createdAt) {
      const { tenant, owner, conversation } = toColumns(key);
      const { rows } = await sql`select from tombstone where tenant_id = ${tenant} and owner = ${owner}
        and conversation = ${conversation} and case when created_at is null then deleted_at >= ${createdAt}::timestamptz
          else date_trunc('second', created_at) = date_trunc('second', ${createdAt}::timestamptz) end
        limit 1`.execute(kysely);
      return rows.length > 0;
    },
    async adopt(adopted) {
      return await alone(database, (transaction) => insert(transaction, adopted));
    },
  };
}

async function insert(transaction: Parameters<Parameters<typeof alone>[1]>[0], adopted: Adopted): Promise<boolean> {
  const { tenant, owner, conversation } = toColumns(adopted.key);
  const { createdAt, updatedAt, entries } = adopted;
  const first = entries.find((entry) => entry.kind === 'user' && textOf(entry.body.parts).trim() !== '');
  const title = first?.kind === 'user' ? titleOf({ message: first.body }) : '';
  const bodies = entries.map(({ kind, body }) => ({ kind, body: JSON.stringify(body) }));
  const bytes = bodies.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0);
  const made = await sql`insert into conversation(tenant_id, owner, id, version, bytes, title, created_at, updated_at)
    values (${tenant}, ${owner}, ${conversation}, ${entries.length}, ${bytes}, ${toColumn(title)},
      ${createdAt}::timestamptz, ${updatedAt}::timestamptz)
    on conflict do nothing returning id`.execute(transaction);
  if (!made.rows.length) return false;
  const run = `adopted-${crypto.randomUUID()}`;
  await sql`insert into journal(tenant_id, owner, conversation, seq, run, commit_n, epoch, kind, body, bytes_to, at)
    select ${tenant}, ${owner}, ${conversation}, o, ${run}, 0, 0, e->>'kind', e->>'body',
      sum(octet_length(e->>'body')) over (order by o), ${updatedAt}::timestamptz
    from json_array_elements(${JSON.stringify(bodies)}::json) with ordinality as t(e, o)`.execute(transaction);
  return true;
}

type Column = string | null | undefined;

const toMark = ({ seq, bytes, mtime, at }: Record<'seq' | 'bytes' | 'mtime' | 'at', Column>): Mark => ({
  seq: Number(seq),
  bytes: Number(bytes),
  mtime: typeof mtime === 'string' ? Number(mtime) : null,
  at: at ?? null,
});

const toColumns = ({ tenant, owner, conversation }: ConversationKey): ConversationKey => ({
  tenant: toColumn(tenant),
  owner: toColumn(owner),
  conversation: toColumn(conversation),
});
