-- A key has one successor: rotating it twice would leave a live key that nobody knows of.

alter table private.api_keys add column successor text;
-- A short scan: keys are few, and none has a successor yet.
-- squawk-ignore constraint-missing-not-valid
alter table private.api_keys add constraint api_keys_successor_length check (char_length(successor) <= 50);
comment on column private.api_keys.successor is
  'The prefix of the key that replaced it at its last rotation; null if none did';

create or replace function private.rotate_key(
  p_key_id uuid,
  p_overlap interval default interval '24 hours',
  p_expires_at timestamptz default null
)
returns table (id uuid, key text, prefix text, expires_at timestamptz)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_old constant private.api_keys := private.require_key(p_key_id);
  -- A key that private.issue_key did not create has no prefix, and so no environment.
  v_environment constant text := coalesce(split_part(v_old.prefix, '_', 2), 'live');
  -- A key whose successor was lost is rotated again. Its rotation brought its expiry forward, so the successor takes over the
  -- original one.
  v_expires_at constant timestamptz :=
    case when v_old.rotated_at is null then v_old.expires_at else v_old.expires_unrotated_at end;
  v_new record;
begin
  -- The clock and not now(), which does not advance while this call waits for another rotation.
  if not v_old.active or v_old.expires_at <= clock_timestamp() then
    raise exception using
      errcode = 'object_not_in_prerequisite_state',
      message = format('key %s cannot be rotated: it is revoked or expired', p_key_id),
      hint = 'Issue a new key.';
  end if;
  if exists (
    select from private.api_keys k
     where k.prefix = v_old.successor and k.active and coalesce(k.expires_at, 'infinity') > clock_timestamp()
  ) then
    raise exception using
      errcode = 'object_not_in_prerequisite_state',
      message = format('key %s was replaced by %s already', p_key_id, v_old.successor),
      hint = 'Rotate that one. If it was lost, revoke it and rotate this one again.';
  end if;
  if p_overlap is null or p_overlap < interval '0' then
    raise exception using
      errcode = 'invalid_parameter_value',
      message = format('the overlap of two keys cannot be %s', coalesce(p_overlap::text, 'null'));
  end if;

  select i.* into v_new
    from private.issue_key(
           v_old.tenant_id, v_old.name, v_old.permissions, coalesce(p_expires_at, v_expires_at), v_environment
         ) i;
  update private.api_keys k
     set expires_at = least(k.expires_at, now() + p_overlap),
         rotated_at = now(),
         expires_unrotated_at = v_expires_at,
         successor = v_new.prefix
   where k.id = p_key_id;
  return query select v_new.id, v_new.key, v_new.prefix, v_new.expires_at;
end;
$$;
