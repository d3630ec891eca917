import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { Store } from '../../src/store/store.ts';
import { document } from '../helpers/api.ts';
import { openTestStore, startGateway, type TestGateway } from '../helpers/gateway.ts';

// A resource that YAML and SQL alone add, on every store: what HTTP and OpenAPI expect of it.

const PATHS = parse(`
/cabides:
  post:
    operationId: criarCabide
    x-rpc: criar_cabide
    requestBody:
      required: true
      content: { application/json: { schema: { $ref: '#/components/schemas/NovoCabide' } } }
    responses:
      '201': { description: Created, content: { application/json: { schema: { $ref: '#/components/schemas/Cabide' } } } }
      '403': { description: Not allowed }
      '409': { description: The number is taken, x-conflicts: { cabides_numero: another locker has this number } }
/cabides/{id}:
  get:
    operationId: obterCabide
    x-rpc: obter_cabide
    parameters: [{ name: id, in: path, required: true, schema: { type: string, format: uuid } }]
    responses:
      '200': { description: The locker, content: { application/json: { schema: { $ref: '#/components/schemas/Cabide' } } } }
      '404': { description: No such locker }
  put:
    operationId: trocarCabide
    x-rpc: obter_cabide
    x-read-only: true
    parameters: [{ name: id, in: path, required: true, schema: { type: string, format: uuid } }]
    responses:
      '200': { description: The locker, content: { application/json: { schema: { $ref: '#/components/schemas/Cabide' } } } }
  delete:
    operationId: apagarCabide
    x-rpc: apagar_cabide
    parameters: [{ name: id, in: path, required: true, schema: { type: string, format: uuid } }]
    responses:
      '204': { description: Deleted }
      4XX: { description: No such locker }
/cabides/numeros:
  get:
    operationId: listarNumeros
    x-rpc: listar_numeros
    responses:
      '200':
        description: The numbers
        content: { application/json: { schema: { type: array, items: { type: integer } } } }
  post:
    operationId: renumerar
    x-rpc: renumerar
    responses: { '202': { description: Will be done } }
`);

const SCHEMAS = parse(`
NovoCabide:
  type: object
  additionalProperties: false
  required: [p_numero]
  properties:
    p_numero: { type: integer, minimum: 0, maximum: 1000 }
    p_academia_id: { type: string, format: uuid }
Cabide:
  type: object
  required: [id, numero]
  properties:
    id: { type: string, format: uuid }
    numero: { type: integer }
`);

const CLAUSES = 'security definer set search_path = pg_catalog, pg_temp';

/** The functions of the resource, in the style of supabase/README.md. */
const SQL = `
create table private.cabides (
  tenant_id uuid not null references private.tenants (id),
  id uuid not null default gen_random_uuid(),
  academia_id uuid,
  numero integer not null,
  primary key (tenant_id, id),
  constraint cabides_numero unique (tenant_id, numero)
);
select private.isolate('private.cabides');
alter table private.cabides
  add constraint cabides_academia foreign key (tenant_id, academia_id) references private.academias (tenant_id, id);
grant select, insert, delete on private.cabides to gateway_functions;

create function public.criar_cabide(p_api_key text, p_numero integer, p_academia_id uuid default null)
returns table (id uuid, numero integer) language plpgsql rows 1 ${CLAUSES} as $$
declare v_tenant constant uuid := private.verify_key(p_api_key, 'criar_cabide');
begin
  if p_numero = 13 then raise sqlstate 'PT403' using message = 'Nobody may have the number 13'; end if;
  if p_numero = 14 then raise sqlstate 'PT410' using message = 'The number 14 is gone'; end if;
  if p_numero = 15 then raise sqlstate 'PT422' using message = 'no field', detail = '{}'; end if;
  return query
    insert into private.cabides as a (tenant_id, numero, academia_id) values (v_tenant, p_numero, p_academia_id)
    returning a.id, a.numero;
end $$;
select private.publish('public.criar_cabide');

create function public.obter_cabide(p_api_key text, p_id uuid)
returns table (id uuid, numero integer) language plpgsql stable rows 1 ${CLAUSES} as $$
declare v_tenant constant uuid := private.verify_key(p_api_key, 'obter_cabide');
begin
  return query select a.id, a.numero from private.cabides a where a.tenant_id = v_tenant and a.id = p_id;
end $$;
select private.publish('public.obter_cabide');

create function public.apagar_cabide(p_api_key text, p_id uuid)
returns void language plpgsql ${CLAUSES} as $$
declare v_tenant constant uuid := private.verify_key(p_api_key, 'apagar_cabide');
begin
  delete from private.cabides a where a.tenant_id = v_tenant and a.id = p_id;
  if not found then raise sqlstate 'PT404' using message = 'There is no such locker'; end if;
end $$;
select private.publish('public.apagar_cabide');

create function public.listar_numeros(p_api_key text) returns integer[] language plpgsql stable ${CLAUSES} as $$
declare v_tenant constant uuid := private.verify_key(p_api_key, 'listar_numeros');
begin
  return array(select a.numero from private.cabides a where a.tenant_id = v_tenant order by 1);
end $$;
select private.publish('public.listar_numeros');

create function public.renumerar(p_api_key text) returns void language plpgsql ${CLAUSES} as $$
begin
  perform private.verify_key(p_api_key, 'renumerar');
end $$;
select private.publish('public.renumerar');
`;

const NOBODY = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
const CENTRO = 'a1000000-0000-4000-8000-000000000001';
const OF_BOSQUE = 'b1000000-0000-4000-8000-000000000001';

let store: Store;
let gateway: TestGateway;

beforeAll(async () => {
  store = await openTestStore({ sql: SQL });
  const components = { ...document.components, schemas: { ...document.components?.schemas, ...SCHEMAS } };
  gateway = await startGateway({
    store,
    document: { ...document, components, paths: { ...document.paths, ...PATHS } },
  });
});

afterAll(async () => {
  await gateway.close();
  await store.close();
});

type Received = { readonly status: number; readonly text: string; readonly headers: Headers };

async function send(method: string, path: string, body?: unknown, headers = {}): Promise<Received> {
  const answer = await fetch(gateway.url + path, {
    method,
    headers: { 'X-Api-Key': 'wms_demo_aurora', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: answer.status, text: await answer.text(), headers: answer.headers };
}

/** What an answer with an error has. */
const refusal = (status: number, error: unknown) => ({ status, text: JSON.stringify({ error }) });

async function create(body: object): Promise<{ id: string }> {
  const { status, text } = await send('POST', '/cabides', body);
  expect(status, text).toBe(201);
  return JSON.parse(text);
}

describe('a status that SQL raises', () => {
  test('is the answer where the document declares it', async () => {
    expect(await send('POST', '/cabides', { p_numero: 13 })).toMatchObject(
      refusal(403, 'Nobody may have the number 13'),
    );
    expect(await send('DELETE', `/cabides/${NOBODY}`)).toMatchObject(refusal(404, 'There is no such locker'));
  });

  test('is a fault where it does not, and the log says so', async () => {
    const before = gateway.faults.length;
    expect(await send('POST', '/cabides', { p_numero: 14 })).toMatchObject(refusal(502, 'Data store error'));
    expect(gateway.faults.slice(before).map(({ cause }) => (cause as Error).message)).toEqual([
      'criarCabide declares no response 410, for which criar_cabide gives a reason: The number 14 is gone',
    ]);
  });

  test('is no 422 without a field', async () => {
    expect(await send('POST', '/cabides', { p_numero: 15 })).toMatchObject(refusal(502, 'Data store error'));
  });
});

describe('a record that is not found', () => {
  test('is the declared 404', async () => {
    expect(await send('GET', `/cabides/${NOBODY}`)).toMatchObject(refusal(404, 'Not found'));
  });

  test('is a fault without a declaration', async () => {
    const before = gateway.faults.length;
    expect(await send('PUT', `/cabides/${NOBODY}`)).toMatchObject(refusal(502, 'Data store error'));
    expect(gateway.faults.slice(before).map(({ cause }) => (cause as Error).message)).toEqual([
      'trocarCabide declares no response 404, for which obter_cabide gives a reason: it returned no record',
    ]);
  });
});

describe('a violated constraint', () => {
  test('is the declared 409, with its own text', async () => {
    await create({ p_numero: 1 });
    expect(await send('POST', '/cabides', { p_numero: 1 })).toMatchObject(
      refusal(409, 'another locker has this number'),
    );
  });

  test('is the declared 409 with a text that reveals nothing, the same for a record of another tenant and for none', async () => {
    for (const p_academia_id of [OF_BOSQUE, NOBODY]) {
      const answer = await send('POST', '/cabides', { p_numero: 2, p_academia_id });
      expect(answer).toMatchObject(refusal(409, 'Conflicts with another record'));
    }
    await create({ p_numero: 2, p_academia_id: CENTRO });
  });
});

describe('an answer', () => {
  test('without content has no body and no type', async () => {
    const { id } = await create({ p_numero: 3 });
    const describe = ({ status, text, headers }: Received) => [
      ...[status, text, headers.get('content-length'), headers.get('content-type')],
    ];
    expect(describe(await send('DELETE', `/cabides/${id}`))).toEqual([204, '', null, null]);
    expect(describe(await send('POST', '/cabides/numeros'))).toEqual([202, '', '0', null]);
  });

  test('may be one value', async () => {
    const { id } = await create({ p_numero: 900 });
    const { status, text } = await send('GET', '/cabides/numeros');
    expect([status, JSON.parse(text)]).toEqual([200, expect.arrayContaining([900])]);
    expect(text).not.toContain('{');
    await send('DELETE', `/cabides/${id}`);
  });

  test('to a method that may write has no ETag, even if it only reads', async () => {
    const { id } = await create({ p_numero: 4 });
    const { status, headers } = await send('PUT', `/cabides/${id}`);
    expect([status, headers.get('etag'), headers.get('cache-control')]).toEqual([200, null, 'no-store']);
    expect((await send('GET', `/cabides/${id}`)).headers.get('etag')).not.toBeNull();
  });
});
