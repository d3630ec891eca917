import { expect, test } from 'vitest';
import { storeFault } from '../../src/errors.ts';
import { blameArgument } from '../../src/store/sqlstate.ts';
import { createCall } from '../helpers/calls.ts';

const CALL = createCall();
const [, second = ''] = Object.keys(CALL.args);

test.each<[where: string, field: string | undefined]>([
  ['unnamed portal parameter $2', second],
  ["unnamed portal parameter $2 = 'ana'", second],
  ['PL/pgSQL function f() line 1\nunnamed portal parameter $2', second],
  ["PL/pgSQL function f() line 1 at RETURN\nunnamed portal with parameters: $1 = 'wms_live_a', $2 = 'ana'", undefined],
  ["unnamed portal parameter $2 = 'a\nb'", second],
  ["unnamed portal parameter $2 = 'a: $1 = b'", second],
  ['portal sem nome parâmetro $2', second],
  ["unnamed portal with parameters: $1 = 'k', $2 = 'a\nb', $3 = 'x'", undefined],
  ['SQL statement "select * from t where $2 = any(tags)"\nPL/pgSQL function f() line 5 at EXECUTE', undefined],
  ['JSON data, line 1: {"a":"$1 = \nunnamed portal parameter $2', second],
  ['unnamed portal parameter $2\nPL/pgSQL function f() line 1', undefined],
  ['', undefined],
])('an error with the context %j blames the argument %s', (where, field) => {
  const result = {
    failure: storeFault('storeError', Object.assign(new Error('division'), { code: '22012', where })).failure,
  };
  const blamed = blameArgument(result, CALL);
  expect('failure' in blamed && 'fields' in blamed.failure ? Object.keys(blamed.failure.fields) : []).toEqual(
    field === undefined ? [] : [field],
  );
});
