-- A refusal for a missing permission says so: the gateway does not count it as a guess of a key.

-- Executable by gateway_functions only. The key proves the tenant; nothing else does.
create or replace function private.verify_key(p_api_key text, p_function text)
returns uuid
language plpgsql
-- Volatile, because only such a function may use SET.
volatile
security definer
set search_path = pg_catalog, pg_temp
-- One plan is right for every key. On Citus the functions that call this one have their own plans made anew.
set plan_cache_mode = force_generic_plan
as $$
declare
  v_key record;
begin
  select k.tenant_id, k.permissions, k.active, k.expires_at
    into v_key
    from private.api_keys k
   where k.key_hash = sha256(convert_to(p_api_key, 'UTF8'));

  -- Without this check an unknown key would pass: null makes every comparison below null.
  if not found then
    raise exception using errcode = 'PT401', message = 'API Key inválida';
  end if;
  if not v_key.active then
    raise exception using errcode = 'PT401', message = 'API Key inativa';
  end if;
  if v_key.expires_at <= now() then
    raise exception using errcode = 'PT401', message = 'API Key expirada';
  end if;
  if not (v_key.permissions is null or p_function = any (v_key.permissions)) then
    raise exception using
      errcode = 'PT401',
      message = format('API Key sem permissão para %s', p_function),
      detail = 'permission';
  end if;

  if current_setting('citus.propagate_set_commands', true) is null then
    perform set_config('wellness.tenant_id', v_key.tenant_id::text, true);
  else
    -- Citus takes only this form to other nodes, and only in a transaction block.
    perform set_config('citus.propagate_set_commands', 'local', true);
    execute format('set local wellness.tenant_id = %L', v_key.tenant_id);
  end if;
  return v_key.tenant_id;
end;
$$;
