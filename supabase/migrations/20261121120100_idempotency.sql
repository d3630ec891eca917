-- Idempotent creation: the answer to a request with an idempotency key is kept for 24 hours, in the transaction that
-- creates, and given again.

create function private.ensure_role(p_name text, p_purpose text)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  begin
    execute format('create role %I nologin noinherit', p_name);
    execute format('comment on role %I is %L', p_name, p_purpose);
  exception
    -- Roles belong to the whole server, so another database on it may have made it already.
    when duplicate_object or unique_violation then null;
  end;

  -- To hand a function over to the role, one has to be allowed to be it, and not only to administer it.
  if not pg_has_role(current_user, p_name, 'usage') then
    begin
      execute format('grant %I to %I', p_name, current_user);
    exception
      when insufficient_privilege then
        raise exception using
          errcode = 'insufficient_privilege',
          message = format('%s may not become the role %s, which another role of this server has made',
                           current_user, p_name),
          hint = format('As that role or as a superuser: grant %I to %I with admin option', p_name, current_user);
    end;
  end if;
end;
$$;
comment on function private.ensure_role(text, text) is
  'Makes a role that owns functions and cannot log in, where there is none, and lets the current user hand functions over to it';

select private.ensure_role('gateway_retention', 'Deletes kept answers whose time is over; sees nothing else');
grant usage on schema private to gateway_retention;

create table private.idempotency_keys (
  tenant_id uuid not null references private.tenants (id),
  key text not null,
  request_hash bytea not null check (octet_length(request_hash) = 32),
  response jsonb,
  created_at timestamptz not null default now(),
  primary key (tenant_id, key)
);
comment on table private.idempotency_keys is 'Answers to requests that carried an idempotency key, for 24 hours';
comment on column private.idempotency_keys.key is 'What the client sent in Idempotency-Key';
comment on column private.idempotency_keys.request_hash is 'SHA-256 of the function''s name and arguments';
comment on column private.idempotency_keys.response is
  'The first answer; null only inside the transaction that is making it';

create index idempotency_keys_by_age on private.idempotency_keys (created_at);

alter table private.idempotency_keys enable row level security;
alter table private.idempotency_keys force row level security;
create policy administration on private.idempotency_keys
  to current_user
  using (true);
create policy tenant_isolation on private.idempotency_keys
  to gateway_functions
  using (tenant_id = (select private.current_tenant()));
grant select, insert (tenant_id, key, request_hash), update (request_hash, response, created_at)
  on private.idempotency_keys to gateway_functions;

create policy retention_select on private.idempotency_keys
  for select to gateway_retention
  using (created_at <= now() - interval '24 hours');
create policy retention_delete on private.idempotency_keys
  for delete to gateway_retention
  using (created_at <= now() - interval '24 hours');
grant select (tenant_id, key, created_at), delete on private.idempotency_keys to gateway_retention;

-- Executable by gateway_functions alone; row security shows its owner what has passed its time, and nothing else.
create function private.forget_responses()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- One at a time: others would wait for the rows that the first one deletes.
  if not pg_try_advisory_xact_lock(hashtext('private.forget_responses')) then
    return;
  end if;
  -- Each creation adds one, so a few at a time keep up.
  delete from private.idempotency_keys
   where (tenant_id, key) in (
     select i.tenant_id, i.key
       from private.idempotency_keys i
      where i.created_at <= now() - interval '24 hours'
      order by i.created_at
      limit 20
   );
end;
$$;
comment on function private.forget_responses() is 'Deletes some of the answers, of any tenant, that were kept for 24 hours';
revoke all on function private.forget_responses() from public;
grant execute on function private.forget_responses() to gateway_functions;
grant create on schema private to gateway_retention;
alter function private.forget_responses() owner to gateway_retention;
revoke create on schema private from gateway_retention;

create function private.recall_response(p_tenant uuid, p_key text, p_request jsonb)
returns jsonb
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hash constant bytea := sha256(convert_to(p_request::text, 'UTF8'));
  v_first record;
begin
  if p_key is null then
    return null;
  end if;
  perform private.forget_responses();

  -- A request with the same key that is under way holds this up until its transaction ends.
  insert into private.idempotency_keys as i (tenant_id, key, request_hash)
  values (p_tenant, p_key, v_hash)
  on conflict (tenant_id, key) do update
    set request_hash = excluded.request_hash, response = null, created_at = now()
    where i.created_at <= now() - interval '24 hours';
  if found then
    return null;
  end if;

  select i.request_hash, i.response
    into strict v_first
    from private.idempotency_keys i
   where i.tenant_id = p_tenant
     and i.key = p_key;
  if v_first.request_hash <> v_hash then
    raise exception using
      errcode = 'PT422',
      message = 'was used for another request in the last 24 hours',
      detail = 'Idempotency-Key';
  end if;
  return v_first.response;
end;
$$;
comment on function private.recall_response(uuid, text, jsonb) is
  'The answer that was given to the same request with the same idempotency key, or null for the first one, whose answer private.keep_response then keeps. Raises PT422 on Idempotency-Key where the request was another. Null for a null key';
grant execute on function private.recall_response(uuid, text, jsonb) to gateway_functions;

create function private.keep_response(p_tenant uuid, p_key text, p_response jsonb)
returns void
language sql
volatile
set search_path = pg_catalog, pg_temp
as $$
  update private.idempotency_keys i
     set response = p_response
   where i.tenant_id = p_tenant
     and i.key = p_key;
$$;
comment on function private.keep_response(uuid, text, jsonb) is
  'Keeps the answer to a request that private.recall_response found to be the first of its key; nothing for a null key';
grant execute on function private.keep_response(uuid, text, jsonb) to gateway_functions;

create function private.require_academia(p_tenant uuid, p_academia_id uuid)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
  -- The same for a gym of another tenant and for none: an answer must not tell that a foreign id exists.
  if p_academia_id is not null and not exists (
    select from private.academias g where g.tenant_id = p_tenant and g.id = p_academia_id
  ) then
    raise exception using
      errcode = 'PT422',
      message = 'must be the id of a gym of the tenant',
      detail = 'p_academia_id';
  end if;
end;
$$;
comment on function private.require_academia(uuid, uuid) is
  'Raises PT422 on p_academia_id unless it is null or a gym of the tenant';
grant execute on function private.require_academia(uuid, uuid) to gateway_functions;

-- One more argument makes another function, and of two with the same name a call could mean either.
drop function public.criar_aluno(text, text, text, text, text, text, uuid, text);

-- Callable with any key that has the permission: the key proves the tenant.
create function public.criar_aluno(
  p_api_key text,
  p_nome text,
  p_email text,
  p_telefone text default null,
  p_sexo text default null,
  p_data_nascimento text default null,
  p_academia_id uuid default null,
  p_modalidade text default null,
  p_idempotency_key text default null
)
returns table (id uuid, nome text, email text, ativo boolean, academia_id uuid, criado_em timestamptz)
language plpgsql
volatile
rows 1
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant constant uuid := private.verify_key(p_api_key, 'criar_aluno');
  v_first constant jsonb := private.recall_response(
    v_tenant,
    p_idempotency_key,
    jsonb_build_array(
      'criar_aluno', p_nome, p_email, p_telefone, p_sexo, p_data_nascimento, p_academia_id, p_modalidade
    )
  );
  v_data_nascimento constant date := private.to_birth_date(p_data_nascimento);
  v_aluno record;
begin
  if v_first is not null then
    return query
      select f.*
        from jsonb_to_record(v_first) as f (
               id uuid, nome text, email text, ativo boolean, academia_id uuid, criado_em timestamptz
             );
    return;
  end if;

  perform private.require_academia(v_tenant, p_academia_id);
  insert into private.alunos as a
    (tenant_id, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade)
  values
    (v_tenant, p_nome, p_email, p_telefone, p_sexo, v_data_nascimento, p_academia_id, p_modalidade)
  returning a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em into v_aluno;
  perform private.keep_response(v_tenant, p_idempotency_key, to_jsonb(v_aluno));
  return query
    select v_aluno.id, v_aluno.nome, v_aluno.email, v_aluno.ativo, v_aluno.academia_id, v_aluno.criado_em;
end;
$$;
comment on function public.criar_aluno(text, text, text, text, text, text, uuid, text, text) is
  'Creates a student in the tenant of the key and gives it back, once for each idempotency key; raises PT422 on p_data_nascimento, p_academia_id and Idempotency-Key';
select private.publish('public.criar_aluno');
