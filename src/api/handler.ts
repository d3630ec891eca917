import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ValidateFunction } from 'ajv';
import { OpenAPIBackend, OpenAPIValidator } from 'openapi-backend';
import type { OpenAPIV3 } from 'openapi-types';
import { type Failure, type Fault, isFault, RequestFailed, storeFault } from '../errors.ts';
import { type Body, parseBody, readBytes } from '../http/body.ts';
import { toNetwork } from '../http/client-address.ts';
import { createRefusals } from '../http/delayed-refusals.ts';
import { type Outcome, respond } from '../http/respond.ts';
import type { Unread } from '../http/unread.ts';
import { DocumentError, readApiRoot } from '../openapi/document.ts';
import { findLostParameters, readMistakes } from '../openapi/mistakes.ts';
import { type Input, type Operation, readOperations } from '../openapi/operations.ts';
import { Router } from '../openapi/router.ts';
import type { Rows, Store } from '../store/store.ts';
import { callObserved, type Observation, observe } from '../telemetry/record.ts';
import type { AcceptedKeys } from './accepted-keys.ts';
import { toCall } from './call.ts';
import { callWithin } from './deadline.ts';
import { createKeyUseRecorder } from './key-use.ts';
import { toLink } from './links.ts';
import { readTranslations, speak, type Translations } from './localize.ts';
import { describeLargeAnswer, MAX_INPUTS, messages } from './messages.ts';
import { type ApiRequest, convertInputs, readRequest } from './request.ts';
import { createAjv, toFieldErrors, translateErrors } from './validate.ts';

/** A document that was read, validated and compiled. */
export type Program = {
  /** As it was read. */
  readonly document: OpenAPIV3.Document;
  readonly router: Router;
  /** By operationId. */
  readonly operations: ReadonlyMap<string, Operation>;
  /** What each operation's requests have to be, by operationId. */
  readonly validators: ReadonlyMap<string, readonly ValidateFunction[]>;
  readonly translations: Translations;
};

/** What a gateway needs beside its program. */
export type GatewayOptions = {
  readonly store: Store;
  /** The largest body, in bytes. */
  readonly bodyLimit: number;
  /** The largest answer of the store, in bytes. */
  readonly answerLimit: number;
  /** The longest that a call of the store may take, in milliseconds. */
  readonly deadlineMs: number;
  /** How many refusals of a key an address is given at once in a minute; 0 means all. */
  readonly refusalsPerMinute: number;
  /** Which address a request came from. */
  readonly addressOf: (req: IncomingMessage) => string;
  readonly acceptedKeys: AcceptedKeys;
  readonly unread: Unread;
  /** Told of every fault: the cause is for the log alone. */
  readonly onFault: (fault: Fault, observation: Observation) => void;
};

/** Answers one request; never throws. */
export type Gateway = (req: IncomingMessage, res: ServerResponse) => Promise<void>;

/** openapi-backend compiles the schema of all OpenAPI to validate one document, which takes longer than all else. */
class ValidBackend extends OpenAPIBackend<OpenAPIV3.Document> {
  override validateDefinition(): OpenAPIV3.Document {
    return this.document;
  }
}

/**
 * Compiles a document. Throws DocumentError, with all that is wrong, where it is no OpenAPI 3.0 or asks for what the
 * gateway does not do. One that is known to be OpenAPI, since it was compiled before, takes less time.
 */
export async function compile(document: OpenAPIV3.Document, { isValid = false } = {}): Promise<Program> {
  const lost = findLostParameters(document);
  if (lost.length > 0) throw new DocumentError(lost);
  const Backend = isValid ? ValidBackend : OpenAPIBackend<OpenAPIV3.Document>;
  const backend = new Backend({
    definition: structuredClone(document),
    apiRoot: readApiRoot(document),
    strict: true,
    ignoreTrailingSlashes: false,
    validate: false,
  });
  try {
    await backend.init();
    const router = new Router(backend.router.getOperations(), backend.apiRoot);
    const operations = readOperations(backend.definition, router.operations);
    // By itself, and lazily: to compile what nobody asks for, the schemas of answers, would take as long as all else.
    const validator = new OpenAPIValidator({
      definition: backend.definition,
      router: backend.router,
      lazyCompileValidators: true,
      customizeAjv: (_default, ajvOptions) => createAjv(ajvOptions),
    });
    const toValidators = (id: string) => [id, validator.getRequestValidatorsForOperation(id)] as const;
    const validators = new Map([...operations.keys()].map(toValidators));
    return { document, router, operations, validators, translations: readTranslations(document) };
  } catch (error) {
    throw error instanceof DocumentError ? error : new DocumentError(readMistakes(error), { cause: error });
  }
}

/**
 * Builds the gateway of a program. What openapi-backend compiled is used here without its handlers, so that the stages
 * of a request stand in one place, and none of them can be left out by a handler that is not registered.
 */
export function createGateway(program: Program, options: GatewayOptions): Gateway {
  const { store, bodyLimit, deadlineMs, addressOf, acceptedKeys, unread, onFault } = options;
  const recordKeyUse = createKeyUseRecorder(store, deadlineMs);
  const refusals = createRefusals(options.refusalsPerMinute);

  async function handle(req: IncomingMessage, res: ServerResponse, observation: Observation): Promise<Outcome> {
    const request = readRequest(req);
    const operation = findOperation(program, request);
    observation.operation = operation.id;
    convertInputs(request, operation);
    const key = String(request.headers[operation.key.header] ?? '');
    // Without a key nothing of the body is read.
    if (key === '') return fail({ kind: 'missingKey' });
    if (operation.hasBody) takeBody(request, parseBody(await readBytes(req, res, bodyLimit)));
    const invalid = validate(program, operation, request);
    if (invalid) return fail(invalid);

    const isAccepted = acceptedKeys.has(key);
    const place = isAccepted ? undefined : refusals.takePlace(addressOf(req));
    if (place?.isTaken) return fail({ kind: 'tooManyRefusals' });
    const share = isAccepted ? key : `address ${toNetwork(addressOf(req))}`;
    const call = toCall(operation, request);
    const result = await callObserved(observation, call.function, (origin) =>
      callWithin(deadlineMs, store, call, res, { ...origin, share }),
    ).finally(() => place?.free());
    if ('failure' in result) {
      if (result.failure.kind === 'refusedKey') acceptedKeys.record(key, false);
      const isTooLong = result.failure.kind === 'answerTooLarge' && operation.page !== undefined;
      return isTooLong ? fail(toInvalidLimit(operation.page.limit, options.answerLimit)) : result;
    }
    if (!isAccepted) acceptedKeys.record(key, true);
    recordKeyUse(operation.key, call, (fault) => onFault(fault, observation));
    // A creation has taken place, and its answer is short.
    if (operation.readOnly && !unread.admit(res, key, Buffer.byteLength(result.json))) {
      return storeFault('storeOverloaded', `UNREAD_LIMIT_BYTES: ${unread.bytes} bytes wait for clients to read them`);
    }
    return toSuccess(operation, request, result);
  }

  return async (req, res) => {
    const observation = observe(req, res);
    let outcome: Outcome;
    try {
      outcome = await handle(req, res, observation);
    } catch (error) {
      outcome = fail(error instanceof RequestFailed ? error.failure : { kind: 'internal', cause: error });
    }
    respond(res, 'failure' in outcome ? await settle(outcome.failure, req, res, observation) : outcome);
  };

  /** What a client is told of a failure, and when. */
  async function settle(
    failure: Failure,
    req: IncomingMessage,
    res: ServerResponse,
    observation: Observation,
  ): Promise<Outcome> {
    if (isFault(failure)) onFault(failure, observation);
    if (failure.kind === 'invalidInput') return fail(speak(failure, req, program.translations));
    if (failure.kind !== 'refusedKey') return fail(failure);
    return fail((await refusals.holdBack(addressOf(req), res)) ? failure : { kind: 'tooManyRefusals' });
  }
}

function findOperation({ router, operations }: Program, request: ApiRequest): Operation {
  const { operationId = '' } = router.match(request);
  const operation = operations.get(operationId);
  if (!operation) throw new Error(`${operationId} is no operation of the document`);
  return operation;
}

function takeBody(request: ApiRequest, { fields, problems }: Body): void {
  request.requestBody = fields;
  for (const [field, messages] of problems) request.problems.set(field, messages);
}

/** All that is wrong with a request's inputs and body; undefined where nothing is. */
function validate(
  { validators, translations }: Program,
  { id, inputs }: Operation,
  request: ApiRequest,
): Failure | undefined {
  const { params, query, headers, cookies, requestBody, problems } = request;
  if (Object.keys(query).length > MAX_INPUTS) {
    return { kind: 'invalidInput', fields: { query: [messages.hasTooManyParameters.en] } };
  }
  const parts = { path: params, query, header: headers, cookie: cookies, requestBody };
  const errors = (validators.get(id) ?? []).flatMap((isValid) => (isValid(parts) ? [] : (isValid.errors ?? [])));
  if (errors.length === 0 && problems.size === 0) return undefined;
  const fields = toFieldErrors(errors, problems, inputs);
  return { kind: 'invalidInput', fields, compose: () => translateErrors(errors, translations) };
}

/** The client can ask for fewer records, where the list is given in pages. */
function toInvalidLimit({ name }: Input, answerLimit: number): Failure {
  const message = describeLargeAnswer(answerLimit);
  const compose = () => new Map([[message.en, message['pt-BR']]]);
  return { kind: 'invalidInput', fields: { [name]: [message.en] }, compose };
}

function toSuccess(operation: Operation, request: ApiRequest, { json, count }: Rows): Outcome {
  const link = toLink(operation, request, count);
  return {
    status: operation.status,
    json,
    headers: link ? { Link: link } : {},
    keptBy: operation.readOnly ? operation.key.header : undefined,
  };
}

function fail(failure: Failure): Outcome {
  return { failure };
}
