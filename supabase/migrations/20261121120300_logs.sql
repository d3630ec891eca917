-- A call carries its key as a parameter of a statement, and Postgres writes parameters into its log, with the
-- statements that it is told to log. This keeps them out of it.

do $$
declare
  v_setting text;
begin
  foreach v_setting in array array['log_parameter_max_length', 'log_parameter_max_length_on_error'] loop
    begin
      execute format('alter database %I set %I = 0', current_database(), v_setting);
    exception
      when insufficient_privilege then
        raise warning 'API keys can come into the log of Postgres, as parameters of the statements that it logs'
          using hint = format('As a superuser: alter database %I set %I = 0', current_database(), v_setting);
    end;
  end loop;
end;
$$;
