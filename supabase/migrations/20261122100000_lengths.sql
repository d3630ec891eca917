-- A bound for every text that is stored. Without one a single key could store rows of any size, and a list of a thousand
-- of them would take more memory than the gateway has. Characters are counted, as maxLength in the document counts them.
--
-- "not valid": new rows are held to a bound at once. The next migration reads the rows that are there, since in this one
-- everybody would have to wait for it.
--
-- api_keys comes first: every call of the gateway begins there, so once it is locked no call holds another table.

alter table private.api_keys
  add constraint api_keys_name_length check (char_length(name) <= 255) not valid,
  add constraint api_keys_prefix_length check (char_length(prefix) <= 50) not valid;

alter table private.idempotency_keys
  add constraint idempotency_keys_key_length check (char_length(key) <= 255) not valid;

alter table private.tenants
  add constraint tenants_name_length check (char_length(name) <= 255) not valid;

alter table private.academias
  add constraint academias_nome_length check (char_length(nome) <= 255) not valid;

alter table private.personais
  add constraint personais_nome_length check (char_length(nome) <= 255) not valid,
  add constraint personais_email_length check (char_length(email) <= 254) not valid;

-- Its nome has had a bound from the beginning.
alter table private.alunos
  add constraint alunos_email_length check (char_length(email) <= 254) not valid,
  add constraint alunos_telefone_length check (char_length(telefone) <= 40) not valid,
  add constraint alunos_sexo_length check (char_length(sexo) <= 50) not valid,
  add constraint alunos_modalidade_length check (char_length(modalidade) <= 100) not valid;

alter table private.treinos
  add constraint treinos_nome_length check (char_length(nome) <= 255) not valid;

alter table private.anamneses
  add constraint anamneses_status_length check (char_length(status) <= 100) not valid,
  add constraint anamneses_resposta_length check (octet_length(resposta::text) <= 65536) not valid;

alter table private.anamnese_secoes
  add constraint anamnese_secoes_titulo_length check (char_length(titulo) <= 255) not valid;
