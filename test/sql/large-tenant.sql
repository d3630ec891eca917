-- Tenant 100 with 100,000 students, a workout each, and an anamnesis for every fifth. The same at every run. The gym and the
-- trainer that are new have theirs among the first 1,000 students; five students have a name that nobody else has.

-- The rows are right by the way they are made: to check their foreign keys would take as long as to insert them.
set session_replication_role = replica;

-- As the data of the benchmark, which was loaded before.
select pg_temp.run(drop) from index_to_make;

create function pg_temp.id(p_kind integer, p_row integer)
returns uuid
language sql
stable
return (lpad(to_hex(p_kind), 8, '0') || '-0000-4000-8000-' || lpad(to_hex(100), 5, '0')
        || lpad(to_hex(p_row), 7, '0'))::uuid;

-- From 0 to below 1, as if by chance; other for each number and each purpose.
create function pg_temp.chance(p_row integer, p_purpose integer)
returns double precision
language sql
immutable
return (hashint4extended(p_row, p_purpose) & 16777215) / 16777216.0::double precision;

insert into private.tenants (id, name, created_at)
select pg_temp.id(1, 0), 'Rede Crescente', '2024-01-01 08:00:00+00';

insert into private.api_keys (tenant_id, name, prefix, key_hash)
select pg_temp.id(1, 0), 'Painel', left(k.key, 17), sha256(convert_to(k.key, 'UTF8'))
  from (select current_setting('large_tenant.key')) k (key);

-- Gym 0 has half of the students, gym 8 was closed, gym 9 is new.
insert into private.academias (tenant_id, id, nome, ativo, criado_em)
select pg_temp.id(1, 0), pg_temp.id(3, n), 'Unidade ' || n, n <> 8, timestamptz '2024-01-02 09:00:00+00' + n * interval '1 hour'
  from generate_series(0, 9) n;

-- Trainer 0 is everybody's first, trainers 1 to 18 are at gym 1, trainer 39 is new.
insert into private.personais (tenant_id, id, nome, email, academia_id, criado_em)
select pg_temp.id(1, 0), pg_temp.id(4, n), 'Personal ' || n, 'personal' || n || '@bench.example',
       pg_temp.id(3, least(n, 1)), timestamptz '2024-01-03 09:00:00+00' + n * interval '1 hour'
  from generate_series(0, 39) n;

-- Some names are frequent and most are not, as names are: 40 first names and 1,024 last names.
create temporary table last_name as
select n, case when n < 50 then l.frequent[n + 1]
               else l.first[1 + n % 16] || l.middle[1 + n / 16 % 16] || l.last[1 + n / 256 % 4] end as text
  from generate_series(0, 1023) n
 cross join (select array['Silva', 'Santos', 'Oliveira', 'Souza', 'Lima', 'Pereira', 'Ferreira', 'Costa', 'Rodrigues',
                          'Almeida', 'Nascimento', 'Alves', 'Carvalho', 'Araújo', 'Ribeiro', 'Barbosa', 'Gomes',
                          'Martins', 'Rocha', 'Dias', 'Moreira', 'Mendes', 'Cardoso', 'Teixeira', 'Vieira', 'Conceição',
                          'Correia', 'Fernandes', 'Castro', 'Magalhães', 'Brandão', 'Assunção', 'Azevedo', 'Cunha',
                          'Duarte', 'Esteves', 'Faria', 'Figueira', 'Fonseca', 'Freitas', 'Leão', 'Lopes', 'Macedo',
                          'Matos', 'Nogueira', 'Pacheco', 'Peixoto', 'Pinto', 'Simões', 'Moura'],
                    array['Ba', 'Bel', 'Ca', 'Cor', 'De', 'Fi', 'Gal', 'Lo', 'Mar', 'Ne', 'Pa', 'Que', 'Sal', 'Ta', 'Val', 'Ze'],
                    array['be', 'cá', 'dri', 'fo', 'gue', 'la', 'li', 'mei', 'na', 'ni', 'pe', 'ra', 'ri', 'sco', 'ti', 'vi'],
                    array['do', 'lho', 'nes', 'to']) l (frequent, first, middle, last);

insert into private.alunos
  (tenant_id, id, nome, email, telefone, sexo, data_nascimento, academia_id, modalidade, personal_id, ativo, criado_em)
select pg_temp.id(1, 0), pg_temp.id(5, s.n),
       case when s.is_rare then 'Wlademir Zwinglio Kretzschmar'
            else (array['Maria', 'José', 'Ana', 'João', 'Antônio', 'Francisco', 'Carlos', 'Paulo', 'Pedro', 'Lucas',
                        'Luiz', 'Marcos', 'Luís', 'Gabriel', 'Rafael', 'Adriana', 'Juliana', 'Márcia', 'Fernanda',
                        'Patrícia', 'Aline', 'Sandra', 'Camila', 'Amanda', 'Bruna', 'Jéssica', 'Letícia', 'Júlia',
                        'Luciana', 'Vanessa', 'Beatriz', 'Cecília', 'Érica', 'Flávia', 'Heloísa', 'Inês', 'Mônica',
                        'Olívia', 'Sônia', 'Úrsula'])[1 + floor(40 * power(pg_temp.chance(s.n, 1), 2))]
                 || ' ' || b.text || ' ' || c.text
       end,
       'aluno' || s.n || '@crescente.example', '+55 11 9' || lpad(s.n::text, 8, '0'),
       (array['feminino', 'masculino', null])[1 + s.n % 3], date '1960-01-01' + s.n % 18000,
       case
         when s.n < 1000 and s.n % 50 = 3 then pg_temp.id(3, 9)
         when s.chance_of_trainer between 0.1 and 0.15 then pg_temp.id(3, 1)
         when s.chance_of_gym < 0.5 then pg_temp.id(3, 0)
         when s.chance_of_gym < 0.9 then pg_temp.id(3, 1 + floor(20 * (s.chance_of_gym - 0.5))::integer)
       end,
       (array['musculação', 'natação', 'pilates', null])[1 + s.n % 4],
       case
         when s.n < 1000 and s.n % 100 = 7 then pg_temp.id(4, 39)
         when s.chance_of_trainer < 0.1 then pg_temp.id(4, 0)
         when s.chance_of_trainer < 0.8 then pg_temp.id(4, floor(20 * s.chance_of_trainer)::integer)
       end,
       pg_temp.chance(s.n, 4) >= 0.1
         and not (s.chance_of_gym between 0.85 and 0.9 and s.chance_of_trainer not between 0.1 and 0.15),
       timestamptz '2024-02-01 08:00:00+00' + s.n * interval '1 minute'
  from (
    select n, n % 20000 = 10000 as is_rare, pg_temp.chance(n, 2) as chance_of_gym,
           pg_temp.chance(n, 3) as chance_of_trainer, floor(1024 * power(pg_temp.chance(n, 5), 3)) as second,
           floor(1024 * power(pg_temp.chance(n, 6), 3)) as third
      from generate_series(0, 99999) n
  ) s
  join last_name b on b.n = s.second
  join last_name c on c.n = s.third
 order by s.n;

insert into private.treinos (tenant_id, id, nome, aluno_id, personal_id, ativo, data_inicio, criado_em)
select pg_temp.id(1, 0), pg_temp.id(6, n), 'Treino ' || chr(65 + n % 26), pg_temp.id(5, n),
       case when n < 1000 and n % 100 = 7 then pg_temp.id(4, 39)
            else pg_temp.id(4, floor(20 * pg_temp.chance(n, 3))::integer) end,
       pg_temp.chance(n, 7) >= 0.1, date '2024-03-01' + n / 200, timestamptz '2024-03-01 08:00:00+00' + n * interval '1 minute'
  from generate_series(0, 99999) n;

insert into private.anamneses (tenant_id, id, aluno_id, status, resposta, criado_em)
select pg_temp.id(1, 0), pg_temp.id(7, n), pg_temp.id(5, n),
       case when n < 1000 and n % 100 = 5 then 'revisão' when n % 3 = 0 then 'pendente' else 'concluida' end,
       jsonb_build_object('objetivo', 'saúde', 'fumante', n % 7 = 0, 'horas_de_sono', 5 + n % 5),
       timestamptz '2024-04-01 08:00:00+00' + n * interval '1 minute'
  from generate_series(0, 99999) n
 where n % 5 = 0;

select pg_temp.run(make) from index_to_make;

set session_replication_role = default;
