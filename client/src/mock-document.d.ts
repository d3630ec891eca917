// The module that client/mock-document.ts writes from openapi.yaml when the package is built.

import type { ValidateFunction } from 'ajv';
import type { Operation } from '../../src/openapi/operations.ts';
import type { Json } from '../../src/store/store.ts';

/** The parts of the document that the handlers need. */
export type MockDocument = {
  readonly apiRoot: string;
  readonly operations: readonly MockOperation[];
  /** By operationId. */
  readonly validators: Readonly<Record<string, readonly ValidateFunction[]>>;
  /** Pairs of an English and a Portuguese text. */
  readonly translations: readonly (readonly [string, string])[];
};

/** An operation with the answers that the document declares, in its order. */
export type MockOperation = Operation & { readonly answers: readonly MockAnswer[] };

/** An answer that the document declares: one for each example, or one without a body. */
export type MockAnswer = {
  readonly status: number;
  /** The example's name. */
  readonly name?: string;
  /** The examples of the status's headers. */
  readonly headers: Readonly<Record<string, string>>;
  readonly value?: Json;
  /** What causes the answer: a key, or the call's arguments; undefined if the request alone does not cause it. */
  readonly cause?: { readonly key: string } | { readonly args: Readonly<Record<string, Json>> };
};

export const document: MockDocument;
