-- Demo tenants, for development only. The keys are public: never load this into a database that others can reach.
-- The rows are the same at every start: ids, names and dates depend only on the row's number.

insert into private.tenants (id, name, created_at, changes_kept) values
  ('a0000000-0000-4000-8000-000000000000', 'Academia Aurora', '2024-01-01 09:00:00+00', '50 years'),
  ('b0000000-0000-4000-8000-000000000000', 'Rede Bosque', '2024-01-01 09:00:00+00', '50 years');

insert into private.api_keys (tenant_id, id, name, prefix, key_hash, permissions, active, expires_at, created_at)
select k.tenant_id::uuid, k.id::uuid, k.name, left(k.key, 12), sha256(convert_to(k.key, 'UTF8')),
       k.permissions, k.active, k.expires_at, '2024-01-01 09:00:00+00'
  from (values
    ('a0000000-0000-4000-8000-000000000000', 'a9000000-0000-4000-8000-000000000001',
     'Aurora', 'wms_demo_aurora', null::text[], true, null::timestamptz),
    ('b0000000-0000-4000-8000-000000000000', 'b9000000-0000-4000-8000-000000000001',
     'Bosque', 'wms_demo_bosque', null, true, null),
    ('a0000000-0000-4000-8000-000000000000', 'a9000000-0000-4000-8000-000000000002',
     'Leitura', 'wms_demo_leitura',
     array['listar_alunos', 'listar_treinos', 'listar_academias', 'listar_personais', 'listar_anamneses',
           'listar_secoes', 'consultar_uso', 'listar_alteracoes'],
     true, null),
    ('a0000000-0000-4000-8000-000000000000', 'a9000000-0000-4000-8000-000000000003',
     'Inativa', 'wms_demo_inativa', null, false, null),
    ('a0000000-0000-4000-8000-000000000000', 'a9000000-0000-4000-8000-000000000004',
     'Expirada', 'wms_demo_expirada', null, true, '2024-12-31 23:59:59+00')
  ) as k (tenant_id, id, name, key, permissions, active, expires_at);

insert into private.academias (tenant_id, id, nome, ativo, criado_em) values
  ('a0000000-0000-4000-8000-000000000000', 'a1000000-0000-4000-8000-000000000001', 'Aurora Centro', true, '2024-01-02 09:00:00+00'),
  ('a0000000-0000-4000-8000-000000000000', 'a1000000-0000-4000-8000-000000000002', 'Aurora Praia', true, '2024-01-03 09:00:00+00'),
  ('a0000000-0000-4000-8000-000000000000', 'a1000000-0000-4000-8000-000000000003', 'Aurora São João', false, '2024-01-04 09:00:00+00'),
  ('b0000000-0000-4000-8000-000000000000', 'b1000000-0000-4000-8000-000000000001', 'Bosque Matriz', true, '2024-01-02 09:00:00+00');

insert into private.personais (tenant_id, id, nome, email, ativo, academia_id, criado_em) values
  ('a0000000-0000-4000-8000-000000000000', 'a2000000-0000-4000-8000-000000000001', 'Bruno Araújo', 'bruno@aurora.example', true, 'a1000000-0000-4000-8000-000000000001', '2024-01-05 09:00:00+00'),
  ('a0000000-0000-4000-8000-000000000000', 'a2000000-0000-4000-8000-000000000002', 'Débora Gonçalves', 'debora@aurora.example', true, 'a1000000-0000-4000-8000-000000000001', '2024-01-05 10:00:00+00'),
  ('a0000000-0000-4000-8000-000000000000', 'a2000000-0000-4000-8000-000000000003', 'Ícaro Nunes', 'icaro@aurora.example', true, 'a1000000-0000-4000-8000-000000000002', '2024-01-05 11:00:00+00'),
  ('a0000000-0000-4000-8000-000000000000', 'a2000000-0000-4000-8000-000000000004', 'Zilá Peixoto', 'zila@aurora.example', false, 'a1000000-0000-4000-8000-000000000003', '2024-01-05 12:00:00+00'),
  ('b0000000-0000-4000-8000-000000000000', 'b2000000-0000-4000-8000-000000000001', 'Otávio Leão', 'otavio@bosque.example', true, 'b1000000-0000-4000-8000-000000000001', '2024-01-05 09:00:00+00');

-- Aurora: 250 students. Every tenth is inactive, every eighth has no gym, every fifth has no trainer.
insert into private.alunos
  (tenant_id, id, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade, personal_id, ativo, criado_em)
select 'a0000000-0000-4000-8000-000000000000',
       ('a3000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
       (array['Ana', 'Antônio', 'Beatriz', 'Caio', 'Cecília', 'Davi', 'Eduarda', 'Érica', 'Felipe', 'Flávia',
              'Gustavo', 'Heloísa', 'Inês', 'João', 'Júlia', 'Luís', 'Mônica', 'Nuno', 'Olívia', 'Patrícia',
              'Ruy', 'Sônia', 'Tomás', 'Úrsula', 'Vítor'])[1 + (n - 1) % 25]
         || ' ' ||
       (array['Alves', 'Assunção', 'Brandão', 'Carvalho', 'Conceição', 'Fernandes', 'Magalhães', 'Oliveira',
              'Ribeiro', 'Simões'])[1 + (n - 1) / 25],
       'aluno' || lpad(n::text, 3, '0') || '@aurora.example',
       '+55 11 90000-' || lpad(n::text, 4, '0'),
       (array['feminino', 'masculino', null])[1 + n % 3],
       date '1970-01-01' + n * 60,
       case when n % 8 <> 0 then ('a1000000-0000-4000-8000-' || lpad((1 + n % 3)::text, 12, '0'))::uuid end,
       (array['musculação', 'natação', 'pilates', null])[1 + n % 4],
       case when n % 5 <> 0 then ('a2000000-0000-4000-8000-' || lpad((1 + n % 4)::text, 12, '0'))::uuid end,
       n % 10 <> 0,
       timestamptz '2024-02-01 08:00:00+00' + n * interval '1 hour'
  from generate_series(1, 250) n;

insert into private.alunos
  (tenant_id, id, nome, email, academia_id, modalidade, personal_id, ativo, criado_em)
select 'b0000000-0000-4000-8000-000000000000',
       ('b3000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
       (array['Álvaro Sá', 'Bianca Muniz', 'Cássio Prado', 'Dalva Teixeira', 'Éder Vilela'])[n],
       'aluno' || n || '@bosque.example',
       'b1000000-0000-4000-8000-000000000001',
       'musculação',
       'b2000000-0000-4000-8000-000000000001',
       n <> 5,
       timestamptz '2024-02-01 08:00:00+00' + n * interval '1 hour'
  from generate_series(1, 5) n;

insert into private.treinos (tenant_id, id, nome, aluno_id, personal_id, ativo, data_inicio, criado_em)
select 'a0000000-0000-4000-8000-000000000000',
       ('a4000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
       (array['Força', 'Resistência', 'Mobilidade', 'Hipertrofia'])[1 + n % 4] || ' ' || chr(65 + n % 3),
       ('a3000000-0000-4000-8000-' || lpad((1 + (n - 1) % 250)::text, 12, '0'))::uuid,
       ('a2000000-0000-4000-8000-' || lpad((1 + n % 4)::text, 12, '0'))::uuid,
       n % 4 <> 0,
       date '2024-03-01' + n,
       timestamptz '2024-03-01 08:00:00+00' + n * interval '1 hour'
  from generate_series(1, 400) n;

insert into private.treinos (tenant_id, id, nome, aluno_id, personal_id, ativo, data_inicio, criado_em)
select 'b0000000-0000-4000-8000-000000000000',
       ('b4000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
       'Adaptação ' || n,
       ('b3000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
       'b2000000-0000-4000-8000-000000000001',
       true,
       date '2024-03-01' + n,
       timestamptz '2024-03-01 08:00:00+00' + n * interval '1 hour'
  from generate_series(1, 5) n;

-- Aurora: 60 anamneses. Every sixth is not filled in: half of these have null answers, half have empty ones.
insert into private.anamneses (tenant_id, id, aluno_id, status, resposta, criado_em)
select 'a0000000-0000-4000-8000-000000000000',
       ('a5000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
       ('a3000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
       case when n % 6 = 0 then 'pendente' when n % 5 = 0 then 'em_revisao' else 'concluida' end,
       case
         when n % 12 = 0 then null
         when n % 6 = 0 then '{}'::jsonb
         else jsonb_build_object(
           'objetivo', (array['emagrecimento', 'força', 'saúde'])[1 + n % 3],
           'lesoes', case when n % 4 = 0 then jsonb_build_array('joelho', 'ombro') else '[]'::jsonb end,
           'fumante', n % 7 = 0,
           'horas_de_sono', 5 + n % 5
         )
       end,
       timestamptz '2024-04-01 08:00:00+00' + n * interval '1 hour'
  from generate_series(1, 60) n;

insert into private.anamneses (tenant_id, id, aluno_id, status, resposta, criado_em)
select 'b0000000-0000-4000-8000-000000000000',
       ('b5000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
       ('b3000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid,
       'concluida',
       jsonb_build_object('objetivo', 'saúde', 'fumante', false),
       timestamptz '2024-04-01 08:00:00+00' + n * interval '1 hour'
  from generate_series(1, 2) n;

-- The insertion order differs from `ordem`.
insert into private.anamnese_secoes (tenant_id, id, titulo, ordem, ativo) values
  ('a0000000-0000-4000-8000-000000000000', 'a6000000-0000-4000-8000-000000000001', 'Hábitos de sono', 5, true),
  ('a0000000-0000-4000-8000-000000000000', 'a6000000-0000-4000-8000-000000000002', 'Identificação', 1, true),
  ('a0000000-0000-4000-8000-000000000000', 'a6000000-0000-4000-8000-000000000003', 'Histórico de lesões', 3, true),
  ('a0000000-0000-4000-8000-000000000000', 'a6000000-0000-4000-8000-000000000004', 'Questionário antigo', 2, false),
  ('a0000000-0000-4000-8000-000000000000', 'a6000000-0000-4000-8000-000000000005', 'Medicamentos', 4, true),
  ('a0000000-0000-4000-8000-000000000000', 'a6000000-0000-4000-8000-000000000006', 'Alimentação', 6, true),
  ('a0000000-0000-4000-8000-000000000000', 'a6000000-0000-4000-8000-000000000007', 'Objetivos', 2, true),
  ('a0000000-0000-4000-8000-000000000000', 'a6000000-0000-4000-8000-000000000008', 'Rascunho', 7, false),
  ('b0000000-0000-4000-8000-000000000000', 'b6000000-0000-4000-8000-000000000001', 'Objetivos', 2, true),
  ('b0000000-0000-4000-8000-000000000000', 'b6000000-0000-4000-8000-000000000002', 'Identificação', 1, true),
  ('b0000000-0000-4000-8000-000000000000', 'b6000000-0000-4000-8000-000000000003', 'Saúde', 3, true);

-- Days to come, which are never old enough to be deleted.
insert into private.usage (tenant_id, id, key_id, day, operation, class, calls, created_at)
select u.tenant_id::uuid, u.id::uuid, u.key_id::uuid, u.day::date, u.operation, u.class, u.calls, '2024-06-01 09:00:00+00'
  from (values
    ('a0000000-0000-4000-8000-000000000000', 'a8000000-0000-4000-8000-000000000001',
     'a9000000-0000-4000-8000-000000000001', '2099-01-01', 'listarAlunos', '2xx', 1180),
    ('a0000000-0000-4000-8000-000000000000', 'a8000000-0000-4000-8000-000000000002',
     'a9000000-0000-4000-8000-000000000001', '2099-01-01', 'listarAlunos', '429', 12),
    ('a0000000-0000-4000-8000-000000000000', 'a8000000-0000-4000-8000-000000000003',
     'a9000000-0000-4000-8000-000000000001', '2099-01-02', 'criarAluno', '2xx', 7),
    ('b0000000-0000-4000-8000-000000000000', 'b8000000-0000-4000-8000-000000000001',
     'b9000000-0000-4000-8000-000000000001', '2099-01-01', 'listarTreinos', '2xx', 40)
  ) as u (tenant_id, id, key_id, day, operation, class, calls);

-- The first changes, for examples. Those of all rows above follow at the commit.
insert into private.changes (tenant_id, id, resource, records, kind, occurred_at, key, request)
select c.tenant_id::uuid, c.id::uuid, c.resource, array[c.record], c.kind, c.occurred_at::timestamptz, c.key::uuid, c.request
  from (values
    ('a0000000-0000-4000-8000-000000000000', '0060dea0-0000-8000-8000-000000001000',
     'academias', 'a1000000-0000-4000-8000-000000000001', 'criado', '2024-01-02 09:00:00+00', null, null),
    ('a0000000-0000-4000-8000-000000000000', '0060dea0-0000-8000-8000-000000002000',
     'alunos', 'a3000000-0000-4000-8000-000000000001', 'criado', '2024-02-01 09:00:00+00', null, null),
    ('a0000000-0000-4000-8000-000000000000', '0060dea0-0000-8000-8000-000000003000',
     'alunos', 'a3000000-0000-4000-8000-000000000001', 'alterado', '2024-02-02 09:00:00+00',
     'a9000000-0000-4000-8000-000000000001', 'demo'),
    ('b0000000-0000-4000-8000-000000000000', '0060deb0-0000-8000-8000-000000001000',
     'academias', 'b1000000-0000-4000-8000-000000000001', 'criado', '2024-01-02 09:00:00+00', null, null)
  ) as c (tenant_id, id, resource, record, kind, occurred_at, key, request);
