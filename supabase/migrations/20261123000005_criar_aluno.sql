-- The creation of students: idempotency keys and the function of the gateway.

create table private.idempotency_keys (
  tenant_id uuid not null references private.tenants (id),
  key text not null constraint idempotency_keys_key_length check (char_length(key) <= 255),
  request_hash bytea not null check (octet_length(request_hash) = 32),
  response jsonb,
  created_at timestamptz not null default now(),
  primary key (tenant_id, key)
);
comment on table private.idempotency_keys is 'Responses to requests with an idempotency key, kept for 24 hours';
comment on column private.idempotency_keys.key is 'The value of the header Idempotency-Key';
comment on column private.idempotency_keys.request_hash is 'SHA-256 of the function name and its arguments';
comment on column private.idempotency_keys.response is
  'The first response; null only in the transaction that creates it';

create index idempotency_keys_by_age on private.idempotency_keys (created_at);

select private.isolate('private.idempotency_keys');
grant select, insert (tenant_id, key, request_hash), update (request_hash, response, created_at)
  on private.idempotency_keys to gateway_functions;

create policy retention_select on private.idempotency_keys
  for select to gateway_retention
  using (created_at <= now() - interval '24 hours');
create policy retention_delete on private.idempotency_keys
  for delete to gateway_retention
  using (created_at <= now() - interval '24 hours');
grant select (tenant_id, key, created_at), delete on private.idempotency_keys to gateway_retention;

-- Executable by gateway_functions only. Row security shows the owner only the keys of any tenant that have expired.
create function private.forget_responses()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- One caller at a time: others would wait for the rows that the first one deletes.
  if not pg_try_advisory_xact_lock(hashtext('private.forget_responses')) then
    return;
  end if;
  -- The gateway asks for this once a minute for each key that is used.
  delete from private.idempotency_keys
   where (tenant_id, key) in (
     select i.tenant_id, i.key
       from private.idempotency_keys i
      where i.created_at <= now() - interval '24 hours'
      order by i.created_at
      limit 10000
   );
end;
$$;
comment on function private.forget_responses() is 'Deletes up to 10,000 expired idempotency keys, of any tenant';
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
  -- Citus takes no now() in the parts of an insert.
  v_now constant timestamptz := now();
  v_expired constant timestamptz := v_now - interval '24 hours';
  v_first record;
begin
  if p_key is null then
    return null;
  end if;
  -- Waits for a concurrent request with the same key until its transaction ends.
  insert into private.idempotency_keys as i (tenant_id, key, request_hash)
  values (p_tenant, p_key, v_hash)
  on conflict (tenant_id, key) do update
    set request_hash = excluded.request_hash, response = null, created_at = v_now
    where i.created_at <= v_expired;
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
  'Returns the response to an earlier request with the same idempotency key, or null if this is the first one or the key is null. Raises PT422 on Idempotency-Key if the earlier request was a different one';
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
  'Stores the response to the first request with an idempotency key; does nothing for a null key';
grant execute on function private.keep_response(uuid, text, jsonb) to gateway_functions;

grant insert (tenant_id, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade)
  on private.alunos to gateway_functions;

create function private.to_birth_date(p_text text)
returns date
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_text ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' then
    return make_date(left(p_text, 4)::integer, substr(p_text, 6, 2)::integer, right(p_text, 2)::integer);
  elsif p_text ~ '^[0-9]{2}/[0-9]{2}/[0-9]{4}$' then
    return make_date(right(p_text, 4)::integer, substr(p_text, 4, 2)::integer, left(p_text, 2)::integer);
  end if;
  return null;
exception
  when datetime_field_overflow then
    return null;
end;
$$;
comment on function private.to_birth_date(text) is
  'Converts a text, YYYY-MM-DD or DD/MM/YYYY, to a date; null for any other text';
grant execute on function private.to_birth_date(text) to gateway_functions;

create function private.find_invalid_fields(p_tenant uuid, p_data_nascimento text, p_academia_id uuid)
returns table (field text, message text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_data_nascimento is not null and private.to_birth_date(p_data_nascimento) is null then
    field := 'p_data_nascimento';
    message := 'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY';
    return next;
  end if;
  -- The same text for a gym of another tenant and for none: a response must not reveal that a foreign id exists.
  if p_academia_id is not null and not exists (
    select from private.academias g where g.tenant_id = p_tenant and g.id = p_academia_id
  ) then
    field := 'p_academia_id';
    message := 'must be the id of a gym of the tenant';
    return next;
  end if;
end;
$$;
comment on function private.find_invalid_fields(uuid, text, uuid) is
  'Returns the fields of a new student that only the database can check and that are invalid, each with its message';
grant execute on function private.find_invalid_fields(uuid, text, uuid) to gateway_functions;

-- Callable with a key that has the permission: the key proves the tenant.
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
  v_invalid json;
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

  select json_object_agg(i.field, json_build_array(i.message))
    into v_invalid
    from private.find_invalid_fields(v_tenant, p_data_nascimento, p_academia_id) i;
  if v_invalid is not null then
    raise exception using errcode = 'PT422', message = 'invalid fields', detail = v_invalid::text;
  end if;

  insert into private.alunos as a
    (tenant_id, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade)
  values
    (v_tenant, p_nome, p_email, p_telefone, p_sexo, private.to_birth_date(p_data_nascimento), p_academia_id,
     p_modalidade)
  returning a.id, a.nome, a.email, a.ativo, a.academia_id, a.criado_em into v_aluno;
  perform private.keep_response(v_tenant, p_idempotency_key, to_jsonb(v_aluno));
  return query
    select v_aluno.id, v_aluno.nome, v_aluno.email, v_aluno.ativo, v_aluno.academia_id, v_aluno.criado_em;
end;
$$;
comment on function public.criar_aluno(text, text, text, text, text, text, uuid, text, text) is
  'Creates a student in the key''s tenant and returns it, once for each idempotency key; raises PT422 on p_data_nascimento and p_academia_id together, and on Idempotency-Key';
select private.publish('public.criar_aluno');
