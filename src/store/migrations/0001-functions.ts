// The hot statements as functions: one call each, many runs a call. Locks are always taken in the order active run ->
// conversation -> queued run, and batches come sorted by conversation, so that they cannot deadlock. A function's name ends
// in its version: processes of two releases may share a database during a rolling deployment.

/**
 * Compares without an index: a function's plan is made once, maybe while the table is empty, and must use the primary key
 * for ever, not an index that begins with the owner.
 */
const ownedBy = (tenant: string, owner: string) => `(tenant_id, owner) is not distinct from (${tenant}, ${owner})`;

const millisecondsSince = (instant: string) =>
  `round(extract(epoch from clock_timestamp() - ${instant}) * 1000)::bigint`;

/** A run as its new worker gets it. */
const claimJson = (
  run: string,
  more: { version: string; bytes: string; born: string; message: string },
) => `json_build_object(
    'run', ${run}.id, 'tenant', ${run}.tenant_id, 'owner', ${run}.owner, 'conversation', ${run}.conversation,
    'epoch', ${run}.epoch, 'commits', ${run}.n, 'request', ${run}.request, 'version', ${more.version}, 'bytes', ${more.bytes},
    'incarnation', ${more.born}::text, 'message', ${more.message}, 'messageSeq', ${run}.message_seq, 'cancelled', ${run}.cancelled,
    'startedAt', to_char(${run}.started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'ageMs', ${run}.active_ms + ${millisecondsSince(`${run}.active_since`)}, 'attempts', ${run}.attempts)`;

/** Claims the oldest queued run of an idle conversation whose row is locked; its message enters the journal now. */
const next = `create function homard_next_1(p_tenant text, p_owner text, p_conversation text, p_worker text, p_lease float8)
  returns json language plpgsql as $f$
  declare q record; r run; v int; b bigint; born timestamptz;
  begin
    for q in select id, message from run
      where tenant_id = p_tenant and owner = p_owner and conversation = p_conversation and status = 'queued' order by position
    loop
      perform 1 from run where id = q.id and status = 'queued' for update;
      continue when not found;
      update conversation set version = version + 1, bytes = bytes + octet_length(q.message), active_run = q.id,
          updated_at = now()
        where tenant_id = p_tenant and owner = p_owner and id = p_conversation returning version, bytes, created_at into v, b, born;
      insert into journal(tenant_id, owner, conversation, seq, run, commit_n, epoch, kind, body, bytes_to)
        values (p_tenant, p_owner, p_conversation, v, q.id, 0, 1, 'user', q.message, b);
      update run set status = 'running', epoch = 1, lease_owner = p_worker, lease_until = now() + p_lease * interval '1 s',
          message = null, message_seq = v, started_at = now(), active_since = now(), changed_at = now()
        where id = q.id returning * into r;
      return ${claimJson('r', { version: 'v', bytes: 'b', born: 'born', message: 'q.message' })};
    end loop;
    return null;
  end $f$`;

/** Answers a row an item: o = claimed | queued | conflict | duplicate. */
const submit = `create function homard_submit_1(batch json) returns table(i int, r text) language plpgsql as $f$
  #variable_conflict use_column
  declare x record; v int; b bigint; a text; born timestamptz; known text; known_digest text; size int;
  begin
    for x in select * from json_to_recordset(batch) as t(i int, tenant text, owner text, conversation text, expected int,
      run text, worker text, lease float8, message text, request text, agent text, title text, key text, digest text,
      again boolean)
    loop
      i := x.i; v := null; known := null;
      if x.key is not null then
        select id, digest into known, known_digest from run where tenant_id = x.tenant and owner = x.owner
          and conversation = x.conversation and idempotency_key = x.key;
      end if;
      if known is null and x.again then select id, digest into known, known_digest from run where id = x.run; end if;
      if known is not null then
        r := json_build_object('o', 'duplicate', 'run', known, 'digest', known_digest); return next; continue;
      end if;
      size := octet_length(x.message);
      if coalesce(x.expected, 0) = 0 then
        insert into conversation as c(tenant_id, owner, id, version, bytes, active_run, agent, title)
          values (x.tenant, x.owner, x.conversation, 1, size, x.run, x.agent, x.title)
          on conflict (tenant_id, owner, id) do update set updated_at = now(),
            version = c.version + (c.active_run is null)::int,
            bytes = c.bytes + case when c.active_run is null then size else 0 end,
            active_run = coalesce(c.active_run, x.run)
          where x.expected is null returning c.version, c.bytes, c.active_run, c.created_at into v, b, a, born;
      else
        update conversation c set updated_at = now(), version = c.version + (c.active_run is null)::int,
            bytes = c.bytes + case when c.active_run is null then size else 0 end,
            active_run = coalesce(c.active_run, x.run)
          where c.tenant_id = x.tenant and c.owner = x.owner and c.id = x.conversation and c.version = x.expected
          returning c.version, c.bytes, c.active_run, c.created_at into v, b, a, born;
      end if;
      if v is null then
        select version into v from conversation where tenant_id = x.tenant and owner = x.owner and id = x.conversation;
        r := json_build_object('o', 'conflict', 'version', coalesce(v, 0));
      elsif a = x.run then
        insert into run(id, tenant_id, owner, conversation, status, epoch, lease_owner, lease_until, request, message_seq,
            idempotency_key, digest, started_at, active_since)
          values (x.run, x.tenant, x.owner, x.conversation, 'running', 1, x.worker, now() + x.lease * interval '1 s',
            x.request, v, x.key, x.digest, now(), now());
        insert into journal(tenant_id, owner, conversation, seq, run, commit_n, epoch, kind, body, bytes_to)
          values (x.tenant, x.owner, x.conversation, v, x.run, 0, 1, 'user', x.message, b);
        r := json_build_object('o', 'claimed', 'version', v, 'bytes', b, 'incarnation', born::text,
          'startedAt', to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
      else
        insert into run(id, tenant_id, owner, conversation, status, epoch, request, message, idempotency_key, digest)
          values (x.run, x.tenant, x.owner, x.conversation, 'queued', 0, x.request, x.message, x.key, x.digest);
        r := json_build_object('o', 'queued', 'version', v);
      end if;
      return next;
    end loop;
  end $f$`;

/** Answers a row an item: o = done | repeated | lost. */
const commit = `create function homard_commit_1(batch json) returns table(i int, r text) language plpgsql as $f$
  #variable_conflict use_column
  declare x record; u record; v int; b bigint; added int; ends boolean; nx json;
  begin
    for x in select * from json_to_recordset(batch) as t(i int, tenant text, owner text, run text, epoch int, n int, status text, worker text,
      lease float8, outcome text, j json, s json)
    loop
      i := x.i; nx := null;
      ends := x.status not in ('running', 'waiting');
      update run set n = n + 1, status = x.status, outcome = x.outcome,
          lease_until = case when x.status = 'running' then now() + x.lease * interval '1 s' end,
          lease_owner = case when x.status = 'running' then lease_owner end, attempts = 0,
          active_ms = case when x.status = 'waiting' then active_ms + ${millisecondsSince('active_since')} else active_ms end,
          changed_at = case when x.status = 'running' then changed_at else now() end,
          ended_at = case when ends then now() end
        where id = x.run and ${ownedBy('x.tenant', 'x.owner')} and epoch = x.epoch and n = x.n and status = 'running'
        returning tenant_id, owner, conversation into u;
      if not found then
        select version, bytes into v, b from run join conversation c
            on c.tenant_id = run.tenant_id and c.owner = run.owner and c.id = run.conversation
          where run.id = x.run and run.epoch = x.epoch and run.n = x.n + 1
            and (run.tenant_id, run.owner) is not distinct from (x.tenant, x.owner);
        r := case when found then json_build_object('o', 'repeated', 'version', v, 'bytes', b)
          else json_build_object('o', 'lost') end;
        return next; continue;
      end if;
      added := coalesce(json_array_length(x.j), 0);
      select coalesce(sum(octet_length(e->>'body')), 0) into b from json_array_elements(x.j) as e;
      update conversation set version = version + added, bytes = bytes + b, updated_at = now(),
          active_run = case when ends then null else active_run end
        where tenant_id = u.tenant_id and owner = u.owner and id = u.conversation returning version, bytes into v, b;
      if added > 0 then
        insert into journal(tenant_id, owner, conversation, seq, run, commit_n, epoch, kind, body, bytes_to)
          select u.tenant_id, u.owner, u.conversation, v - added + o::int, x.run, x.n + 1, x.epoch, e->>'kind', e->>'body',
            b - coalesce(sum(octet_length(e->>'body')) over (order by o rows between 1 following and unbounded following), 0)
          from json_array_elements(x.j) with ordinality as t(e, o);
      end if;
      if x.s is not null then
        insert into step as s(run, n, tenant_id, owner, kind, call, state, epoch, usage, model, ended_at)
          select x.run, e.n, u.tenant_id, u.owner, e.kind, e.call, e.state, x.epoch, e.usage, e.model,
            case when e.state = 'done' then now() end
          from json_to_recordset(x.s) as e(n int, kind text, call text, state text, usage text, model text)
          on conflict (run, n) do update set state = excluded.state, epoch = excluded.epoch,
            usage = coalesce(excluded.usage, s.usage), ended_at = excluded.ended_at;
      end if;
      -- Answered or cancelled meanwhile: whoever sees it goes on.
      if x.status = 'waiting' then
        update run set status = 'queued' where id = x.run
          and (cancelled or not exists (select from step where run = x.run and state = 'awaiting'));
      end if;
      if ends then nx := homard_next_1(u.tenant_id, u.owner, u.conversation, x.worker, x.lease); end if;
      r := json_build_object('o', 'done', 'version', v, 'bytes', b, 'next', nx);
      return next;
    end loop;
  end $f$`;

const takenOver = claimJson('r', { version: 'c.version', bytes: 'c.bytes', born: 'c.created_at', message: 'null' });

/** Takes over runs whose lease ran out, answered runs, and queues that nobody moved on. A row a claim. */
export const claim = `create function homard_claim_1(p_worker text, p_limit int, p_lease float8) returns setof text
  language plpgsql as $f$
  declare q record; r run; c conversation; nx json;
  begin
    for q in select id from run where status = 'running' and lease_until < now() order by position limit p_limit
      for update skip locked
    loop
      update run set epoch = epoch + 1, attempts = attempts + (lease_owner is not null)::int, lease_owner = p_worker,
          lease_until = now() + p_lease * interval '1 s'
        where id = q.id returning * into r;
      select * into c from conversation where tenant_id = r.tenant_id and owner = r.owner and id = r.conversation;
      p_limit := p_limit - 1;
      return next ${takenOver}::text;
    end loop;
    for q in select run.id from run join conversation
        on conversation.tenant_id = run.tenant_id and conversation.owner = run.owner and conversation.id = run.conversation
      where run.status = 'queued' and conversation.active_run = run.id limit p_limit for update of run skip locked
    loop
      update run set status = 'running', epoch = epoch + 1, lease_owner = p_worker, active_since = now(),
          lease_until = now() + p_lease * interval '1 s', changed_at = now()
        where id = q.id returning * into r;
      select * into c from conversation where tenant_id = r.tenant_id and owner = r.owner and id = r.conversation;
      p_limit := p_limit - 1;
      return next ${takenOver}::text;
    end loop;
    for q in select distinct run.tenant_id, run.owner, run.conversation from run join conversation
        on conversation.tenant_id = run.tenant_id and conversation.owner = run.owner and conversation.id = run.conversation
      where run.status = 'queued' and conversation.active_run is null limit p_limit
    loop
      perform 1 from conversation where tenant_id = q.tenant_id and owner = q.owner and id = q.conversation
        and active_run is null for update skip locked;
      continue when not found or p_limit <= 0;
      nx := homard_next_1(q.tenant_id, q.owner, q.conversation, p_worker, p_lease);
      if nx is not null then p_limit := p_limit - 1; return next nx::text; end if;
    end loop;
  end $f$`;

/** A run whose row is locked is being committed, which renews it: so this waits for nobody. */
const renew = `create function homard_renew_1(p_worker text, p_runs json, p_lease float8)
  returns table(id text, epoch int, cancelled boolean) language plpgsql as $f$
  #variable_conflict use_column
  declare ids text[] := array(select json_array_elements_text(p_runs));
  begin
    update run set lease_until = now() + p_lease * interval '1 s' where id in
      (select id from run where id = any(ids) and lease_owner = p_worker and status = 'running' for update skip locked);
    return query select run.id, run.epoch, run.cancelled from run
      where run.id = any(ids) and lease_owner = p_worker and status = 'running';
  end $f$`;

/** The status after the request to end; null: no such run. A queued run ends here; others are ended by a worker. */
const cancel = `create function homard_cancel_1(p_tenant text, p_owner text, p_run text, p_outcome text) returns text
  language plpgsql as $f$
  declare r run; active text;
  begin
    select * into r from run where id = p_run and ${ownedBy('p_tenant', 'p_owner')} for update;
    if not found or r.status in ('done', 'failed', 'cancelled') then return r.status; end if;
    if r.status = 'queued' then
      select active_run into active from conversation
        where tenant_id = r.tenant_id and owner = r.owner and id = r.conversation;
      if active is distinct from p_run then
        update run set status = 'cancelled', outcome = p_outcome, ended_at = now(), changed_at = now() where id = p_run;
        return 'cancelled';
      end if;
    end if;
    update run set cancelled = true, status = case status when 'waiting' then 'queued' else status end, changed_at = now()
      where id = p_run returning status into r.status;
    return r.status;
  end $f$`;

/** False when nothing waits there. The run becomes claimable when nothing else waits. */
const answer = `create function homard_answer_1(p_tenant text, p_owner text, p_run text, p_step int, p_answer text)
  returns boolean language plpgsql as $f$
  begin
    perform 1 from run where id = p_run and ${ownedBy('p_tenant', 'p_owner')} and status in ('running', 'waiting')
      for update;
    if not found then return false; end if;
    update step set state = 'ready', answer = p_answer where run = p_run and n = p_step and state = 'awaiting';
    if not found then return false; end if;
    if not exists (select from step where run = p_run and state = 'awaiting') then
      update run set status = 'queued', changed_at = now() where id = p_run and status = 'waiting';
    end if;
    return true;
  end $f$`;

export const functions = [next, submit, commit, claim, renew, cancel, answer];
