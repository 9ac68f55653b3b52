// How many tokens an owner used, summed from the model steps of their runs.
import { sql } from 'kysely';
import type { Owner, Usage } from '../kernel/index.ts';
import { fromColumn, toColumn } from './column.ts';
import type { Database } from './database.ts';

export interface UsageRow extends Usage {
  conversation: string;
  run: string;
  model: string;
  /** UTC, yyyy-mm-dd. */
  day: string;
  steps: number;
}

export type UsageKey = 'conversation' | 'run' | 'model' | 'day';

export interface UsageReport {
  /**
   * Sums by the asked keys and always by model (prices differ), of steps begun at or after `from` and before `to`
   * (ISO-8601); keys that were not asked for are ''. Newest day first, then by name.
   */
  sum(owner: Owner, range: { from: string; to: string; by: readonly UsageKey[] }): Promise<UsageRow[]>;
}

export function createUsageReport({ kysely }: Database): UsageReport {
  const column = (by: readonly UsageKey[], key: UsageKey, expression: ReturnType<typeof sql>) =>
    by.includes(key) ? expression : sql`''::text`;
  const total = (field: keyof Usage) => sql<number>`coalesce(sum((step.usage::json->>${field})::bigint), 0)::bigint`;
  return {
    async sum(owner, { from, to, by }) {
      const day = sql`to_char(step.started_at at time zone 'UTC', 'YYYY-MM-DD')`;
      const keys = sql`${column(by, 'conversation', sql`run.conversation`)} as conversation,
        ${column(by, 'run', sql`run.id`)} as run, ${column(by, 'day', day)} as day`;
      const { rows } = await sql<UsageRow>`select ${keys}, coalesce(step.model, '') as model, count(*) as steps,
          ${total('inputTokens')} as "inputTokens", ${total('outputTokens')} as "outputTokens",
          ${total('reasoningTokens')} as "reasoningTokens", ${total('cachedTokens')} as "cachedTokens"
        from run join step on step.run = run.id
        where run.tenant_id = ${toColumn(owner.tenant)} and run.owner = ${toColumn(owner.owner)}
          and step.kind = 'model' and step.usage is not null
          and step.started_at >= ${from}::timestamptz and step.started_at < ${to}::timestamptz
        group by 1, 2, 3, 4 order by 3 desc, 1, 2, 4`.execute(kysely);
      return rows.map((row) => ({ ...row, conversation: fromColumn(row.conversation), model: fromColumn(row.model) }));
    },
  };
}
