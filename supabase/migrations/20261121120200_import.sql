-- The import of students that a tenant has already, for administrators.

create function private.import_alunos(p_tenant_id uuid, p_lines json, p_check_only boolean default false)
returns table (line integer, field text, message text)
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_line record;
  v_is_bad boolean := false;
  -- Each line a microsecond after the one before it: the embedded Postgres has a clock of milliseconds, and a list of
  -- students has the order of their creation.
  v_now timestamptz;
begin
  perform private.require_tenant(p_tenant_id);

  for v_line in
    select *
      from json_to_recordset(p_lines) as l (line integer, p_data_nascimento text, p_academia_id uuid)
  loop
    line := v_line.line;
    begin
      perform private.to_birth_date(v_line.p_data_nascimento);
    exception
      when sqlstate 'PT422' then
        get stacked diagnostics field = pg_exception_detail, message = message_text;
        v_is_bad := true;
        return next;
    end;
    begin
      perform private.require_academia(p_tenant_id, v_line.p_academia_id);
    exception
      when sqlstate 'PT422' then
        get stacked diagnostics field = pg_exception_detail, message = message_text;
        v_is_bad := true;
        return next;
    end;
  end loop;
  if v_is_bad or p_check_only then
    return;
  end if;

  v_now := clock_timestamp();
  insert into private.alunos
    (tenant_id, criado_em, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade)
  select p_tenant_id, v_now + row_number() over (order by l.line) * interval '1 microsecond', l.p_nome, l.p_email, l.p_telefone, l.p_sexo, private.to_birth_date(l.p_data_nascimento),
         l.p_academia_id, l.p_modalidade
    from json_to_recordset(p_lines) as l (
           line integer, p_nome text, p_email text, p_telefone text, p_sexo text, p_data_nascimento text,
           p_academia_id uuid, p_modalidade text
         );
end;
$$;
comment on function private.import_alunos(uuid, json, boolean) is
  'Creates a student from each object of an array, or none: gives back every line whose fields the rules of criar_aluno refuse. An object has its line''s number in line, and the fields of the document. It may check alone';
