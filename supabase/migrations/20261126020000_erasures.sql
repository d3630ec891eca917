-- Erasures are recorded by their ids, because a backup of before brings back whom they erased. The functions that erase write them
-- from the migration of changes on.

create table private.erasures (
  id uuid primary key default gen_random_uuid(),
  tenant uuid not null,
  student uuid,
  erased_at timestamptz not null,
  constraint erasures_once unique nulls not distinct (tenant, student)
);
comment on table private.erasures is 'Erased students and deleted tenants, by their ids alone, for the restore of a backup';
comment on column private.erasures.tenant is
  'Not tenant_id, and without a foreign key: the record is no data of the tenant and outlives it';
comment on column private.erasures.student is 'Null for the whole tenant';
alter table private.erasures enable row level security;
alter table private.erasures force row level security;
create policy administration on private.erasures
  to current_user
  using (true);

create function private.repeat_erasures(p_erasures jsonb)
returns setof private.erasures
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_erasure private.erasures;
begin
  for v_erasure in select e.* from jsonb_populate_recordset(null::private.erasures, p_erasures) e loop
    -- Also where nothing came back: the next list has to be as long as this one.
    insert into private.erasures (tenant, student, erased_at)
    values (v_erasure.tenant, v_erasure.student, v_erasure.erased_at)
    on conflict do nothing;
    if v_erasure.student is null then
      continue when not exists (select from private.tenants t where t.id = v_erasure.tenant);
      perform private.delete_tenant(v_erasure.tenant);
    else
      continue when not exists (
        select from private.alunos a where a.tenant_id = v_erasure.tenant and a.id = v_erasure.student
      );
      perform private.erase_student(v_erasure.tenant, v_erasure.student);
    end if;
    return next v_erasure;
  end loop;
end;
$$;
comment on function private.repeat_erasures(jsonb) is
  'Erases again what a restored backup brought back of an array of rows of private.erasures, records all of them, and returns those that had come back';
