-- A repeated creation says so: its answer has the header Idempotent-Replayed.

create or replace function private.recall_response(p_tenant uuid, p_key text, p_request jsonb)
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
  if v_first.response is not null then
    -- PostgREST sends what is set here as headers of the answer, and the gateway reads it alike.
    perform set_config('response.headers', '[{"Idempotent-Replayed": "true"}]', true);
  end if;
  return v_first.response;
end;
$$;
comment on function private.recall_response(uuid, text, jsonb) is
  'Returns the response to an earlier request with the same idempotency key, and marks the answer as repeated; null if this is the first request or the key is null. Raises PT422 on Idempotency-Key if the earlier request was a different one';
