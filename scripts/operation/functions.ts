// Writes the SQL of the functions, in the style of supabase/migrations.

import { type Kind, type Subject, toUpper } from './subject.ts';
import type { Column, Table } from './table.ts';

type Definition = {
  readonly parameters: readonly string[];
  readonly result: readonly Column[];
  readonly clauses: readonly string[];
  readonly variables?: readonly string[];
  readonly body: string;
};

/** Writes the function of one operation. */
export function writeFunction(subject: Subject, kind: Kind): string {
  const { table, names, sentences, written, keyArgument } = subject;
  const define = { list, get, create, update, delete: remove }[kind];
  const { parameters, result, clauses, variables = [], body } = define(subject);
  const name = names[kind];
  const writes = kind === 'create' || kind === 'update';
  const all = [`${keyArgument} text`, ...parameters];
  const inLine = all.join(', ');
  const types = all.map((parameter) => parameter.replace(/^\S+ /, '').replace(/ default .*$/, ''));
  return `-- Callable with a key that has the permission: the key proves the tenant.
create function public.${name}(${inLine.length < 80 ? inLine : `\n  ${all.join(',\n  ')}\n`})
returns table (${declared(result)})
language plpgsql
${clauses.join('\n')}
as $$
declare
  v_tenant constant uuid := private.verify_key(${keyArgument}, '${name}');
${[...variables, ...(writes && table.otherChecks.length > 0 ? ['v_constraint text;'] : [])].map((variable) => `  ${variable}\n`).join('')}begin${body.replace(/^(?!\n)/, '\n')}
${writes ? refuseViolations(table, written) : ''}end;
$$;
comment on function public.${name}(${types.join(', ')}) is
  ${quote(toUpper(sentences[kind]))};
select private.publish('public.${name}');
`;
}

/** Grants the privileges that the functions need; some may be granted already. */
export function writeGrants({ table, kinds, written, writes }: Subject): string {
  const name = `private.${table.name}`;
  const fields = identifiers(written);
  const privileges = [
    'select',
    ...(kinds.includes('create') ? [`insert (tenant_id, ${fields})`] : []),
    ...(kinds.includes('update') ? [`update (${fields})`] : []),
    ...(kinds.includes('delete') ? ['delete'] : []),
  ];
  // A function that writes looks up the records that a new row refers to.
  const targets = new Set(written.flatMap(({ reference }) => (writes && reference ? [reference.target] : [])));
  const others = [...targets].filter((target) => target !== name);
  return [grant(privileges, name), ...others.map((other) => grant(['select'], other))].join('');
}

function grant(privileges: readonly string[], table: string): string {
  const inLine = `grant ${privileges.join(', ')} on ${table} to gateway_functions;\n`;
  return inLine.length <= 120 ? inLine : inLine.replaceAll('), ', '),\n  ').replace(' on private', '\n  on private');
}

function list({ table, columns, order, filters }: Subject): Definition {
  const place = order === 'id' ? undefined : columns.concat(table.columns).find(({ name }) => name === order);
  // Postgres does not compare a domain over an enumerated type.
  const toBase = ({ name, base, type }: Column) => `t.${name}${base.includes('.') && base !== type ? `::${base}` : ''}`;
  const conditions = filters.map((one) => `\n       and (p_${one.name} is null or ${toBase(one)} = p_${one.name})`);
  const record = `from private.${table.name} t where t.tenant_id = v_tenant and t.id = p_after;`;
  return {
    parameters: [
      'p_limit integer default 100',
      'p_offset integer default 0',
      ...filters.map(({ name, base }) => `p_${name} ${base} default null`),
      'p_after uuid default null',
    ],
    result: columns,
    clauses: ['stable', ...SECURITY, 'set plan_cache_mode = force_custom_plan'],
    // The variable starts as null, which a domain may refuse: use its base type.
    variables: place ? [`v_after ${place.base};`] : [],
    body: `
  if p_after is not null then
    ${place ? `select t.${order} into v_after` : 'perform'} ${record}
    perform private.require_record(found, 'after');
  end if;
  return query
    select ${selected(columns)}
      from private.${table.name} t
     where t.tenant_id = v_tenant${conditions.join('')}
       and (p_after is null or ${place ? `(${toBase(place)}, t.id) > (v_after, p_after)` : 't.id > p_after'})
     order by ${place ? `t.${order}, ` : ''}t.id
     limit p_limit
    offset p_offset;`,
  };
}

function get({ table, columns }: Subject): Definition {
  return {
    parameters: ['p_id uuid'],
    result: columns,
    clauses: ['stable', 'rows 1', ...SECURITY],
    body: `
  return query
    select ${selected(columns)}
      from private.${table.name} t
     where t.tenant_id = v_tenant
       and t.id = p_id;`,
  };
}

function create({ table, columns, written, names }: Subject): Definition {
  const values = written.map(({ name, default: fallback, isNullable }) => {
    if (fallback === null) return `b.${name}`;
    return isNullable
      ? `case when p_body ? '${name}' then b.${name} else ${fallback} end`
      : `coalesce(b.${name}, ${fallback})`;
  });
  return {
    parameters: ['p_body jsonb', 'p_idempotency_key text default null'],
    result: columns,
    clauses: ['volatile', 'rows 1', ...SECURITY],
    variables: [
      `v_first constant jsonb := private.recall_response(
    v_tenant, p_idempotency_key, jsonb_build_array('${names.create}', p_body)
  );`,
      'v_record record;',
    ],
    body: `
  if v_first is not null then
    return query select f.* from jsonb_to_record(v_first) as f (${declared(columns)});
    return;
  end if;
${requireRecords(written)}
  insert into private.${table.name} as t (tenant_id, ${identifiers(written)})
  select v_tenant, ${values.join(', ')}
    from jsonb_to_record(p_body) as b (${declared(written, 'base')})
  returning ${selected(columns)} into v_record;
  perform private.keep_response(v_tenant, p_idempotency_key, to_jsonb(v_record));
  return query select ${selected(columns, 'v_record')};`,
  };
}

function update({ table, columns, written }: Subject): Definition {
  return {
    parameters: ['p_id uuid', 'p_body jsonb'],
    result: columns,
    clauses: ['volatile', 'rows 1', ...SECURITY],
    body: `${requireRecords(written)}
  -- An absent field leaves the column as it is, and null clears it.
  return query
    update private.${table.name} t
       set (${identifiers(written)}) =
           (select ${selected(written, 'b')} from jsonb_populate_record(t, p_body) b)
     where t.tenant_id = v_tenant
       and t.id = p_id
    returning ${selected(columns)};`,
  };
}

function remove({ table, columns }: Subject): Definition {
  return {
    parameters: ['p_id uuid'],
    result: columns.filter(({ name }) => name === 'id'),
    clauses: ['volatile', 'rows 1', ...SECURITY],
    body: `
  return query
    delete from private.${table.name} t
     where t.tenant_id = v_tenant
       and t.id = p_id
    returning t.id;`,
  };
}

const SECURITY = ['security definer', 'set search_path = pg_catalog, pg_temp'];

/** Refuses a field that refers to no record of the tenant, before the foreign key does. */
function requireRecords(columns: readonly Column[]): string {
  const checks = columns.map(({ name, reference }) =>
    reference
      ? `
  perform private.require_record(
    p_body ->> '${name}' is null
      or exists (select from ${reference.target} r where r.tenant_id = v_tenant and r.id = (p_body ->> '${name}')::uuid),
    '${name}'
  );`
      : '',
  );
  return checks.join('');
}

/** Turns a violated check or a failed computation into a 422 on the first of its fields that clients set. */
function refuseViolations({ otherChecks }: Table, written: readonly Column[]): string {
  const isSent = (column: string) => written.some(({ name }) => name === column);
  const refuse = (columns: readonly string[], message: string) =>
    `raise sqlstate 'PT422' using message = ${quote(message)}, detail = '${columns.find(isSent) ?? 'body'}';`;
  const checks = otherChecks.filter(({ name }) => name);
  const cases = checks.map(({ name, columns, text }) => {
    const words = (text.match(/\w+/g) ?? []).filter((word) => columns.includes(word));
    return `
      when ${quote(name)} then
        ${refuse([...words, ...columns], `must satisfy ${text}`)}`;
  });
  const violations = `
  when check_violation then
    get stacked diagnostics v_constraint = constraint_name;
    case v_constraint${cases.join('')}
      else raise;
    end case;`;
  // Postgres does not say what it could not compute.
  const sources = otherChecks.flatMap(({ columns, mayFail }) => (mayFail ? columns : []));
  const failures = `
  when data_exception then
    ${refuse(sources, 'must be a value that can be computed with')}`;
  const handlers = (cases.length > 0 ? violations : '') + (sources.length > 0 ? failures : '');
  return handlers && `exception${handlers}\n`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function selected(columns: readonly Column[], of = 't'): string {
  return columns.map(({ identifier }) => `${of}.${identifier}`).join(', ');
}

function identifiers(columns: readonly Pick<Column, 'identifier'>[]): string {
  return columns.map(({ identifier }) => identifier).join(', ');
}

/** Declares columns. `base` is for fields that may be absent: a domain may refuse their null. */
function declared(columns: readonly Column[], type: 'type' | 'base' = 'type'): string {
  return columns.map((column) => `${column.identifier} ${column[type]}`).join(', ');
}
