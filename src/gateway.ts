import type { Request, Response } from 'express';
import { type Context, OpenAPIBackend } from 'openapi-backend';
import type { OpenAPIV3 } from 'openapi-types';
import { parseBody, readBytes } from './body.ts';
import { toCall } from './call.ts';
import { callWithin } from './deadline.ts';
import { DocumentError, readApiRoot } from './document.ts';
import { findLostParameters, readMistakes } from './document-mistakes.ts';
import { type Failure, type Fault, isFault, RequestFailed } from './errors.ts';
import { createKeyUseRecorder } from './key-use.ts';
import { readTranslations, speak, type Translations } from './language.ts';
import { toLink } from './links.ts';
import { callObserved, type Observation, observe } from './observation.ts';
import { type Operation, readOperations } from './operations.ts';
import { createRefusals, type HoldBack } from './refusals.ts';
import { type ApiRequest, convertInputs, readRequest } from './request.ts';
import { type Outcome, respond } from './respond.ts';
import { Router } from './router.ts';
import type { Rows, Store } from './store/store.ts';
import { createAjv, toFieldErrors, translateErrors } from './validation.ts';

/** A document that was read, validated and compiled. */
export type Program = {
  /** As it was read. */
  readonly document: OpenAPIV3.Document;
  readonly backend: OpenAPIBackend<OpenAPIV3.Document>;
  readonly router: Router;
  /** By operationId. */
  readonly operations: ReadonlyMap<string, Operation>;
  readonly translations: Translations;
};

/** What a gateway needs beside its program. */
export type GatewayOptions = {
  readonly store: Store;
  /** The largest body, in bytes. */
  readonly bodyLimit: number;
  /** The longest that a call of the store may take, in milliseconds. */
  readonly deadlineMs: number;
  /** How many refusals of a key an address is given at once in a minute; 0 means all. */
  readonly refusalsPerMinute: number;
  /** Told of every fault: the cause is for the log alone. */
  readonly onFault: (fault: Fault, observation: Observation) => void;
};

/** Answers one request; never throws. Express says which address it came from. */
export type Gateway = (req: Request, res: Response) => Promise<void>;

type Exchange = { readonly req: Request; readonly res: Response; readonly request: ApiRequest };

/**
 * Compiles a document. Throws DocumentError, with all that is wrong, where it is no OpenAPI 3.0 or asks for what the
 * gateway does not do.
 */
export async function compile(document: OpenAPIV3.Document): Promise<Program> {
  const lost = findLostParameters(document);
  if (lost.length > 0) throw new DocumentError(lost);
  const backend = new OpenAPIBackend<OpenAPIV3.Document>({
    definition: structuredClone(document),
    apiRoot: readApiRoot(document),
    strict: true,
    ignoreTrailingSlashes: false,
    customizeAjv: (_default, ajvOptions) => createAjv(ajvOptions),
  });
  try {
    await backend.init();
  } catch (error) {
    throw new DocumentError(readMistakes(error), { cause: error });
  }
  const router = new Router(backend.definition, backend.apiRoot);
  backend.router = router;
  backend.validator.router = router;
  return {
    document,
    backend,
    router,
    operations: readOperations(backend.definition, router.getOperations()),
    translations: readTranslations(document),
  };
}

/** Builds the gateway of a program: match, validate, call, respond, the same for every operation. */
export function createGateway(program: Program, options: GatewayOptions): Gateway {
  registerHandlers(program, options);
  const holdBack = createRefusals(options.refusalsPerMinute);
  return async (req, res) => {
    const outcome = await answer(program, req, res);
    if ('failure' in outcome && isFault(outcome.failure)) options.onFault(outcome.failure, observe(req, res));
    respond(res, await delayRefusal(outcome, holdBack, req, res));
  };
}

async function delayRefusal(outcome: Outcome, holdBack: HoldBack, req: Request, res: Response): Promise<Outcome> {
  if (!('failure' in outcome) || outcome.failure.kind !== 'refusedKey') return outcome;
  return (await holdBack(req.ip, res)) ? outcome : fail({ kind: 'tooManyRefusals' });
}

/** What a program answers, each 422 in the language of its client. */
async function answer(program: Program, req: Request, res: Response): Promise<Outcome> {
  const outcome = await handle(program.backend, req, res);
  if (!('failure' in outcome) || outcome.failure.kind !== 'invalidInput') return outcome;
  return fail(speak(outcome.failure, req, program.translations));
}

async function handle(backend: OpenAPIBackend<OpenAPIV3.Document>, req: Request, res: Response): Promise<Outcome> {
  try {
    const request = readRequest(req);
    return await backend.handleRequest(request as never, { req, res, request } satisfies Exchange);
  } catch (error) {
    return fail(error instanceof RequestFailed ? error.failure : { kind: 'internal', cause: error });
  }
}

/** The stages of a request, in the order in which openapi-backend comes to them. */
function registerHandlers(
  { backend, router, operations, translations }: Program,
  { store, bodyLimit, deadlineMs, onFault }: GatewayOptions,
): void {
  const recordKeyUse = createKeyUseRecorder(store, deadlineMs);
  const operationOf = (context: Context): Operation => {
    const operation = operations.get(context.operation.operationId ?? '');
    if (!operation) throw new Error(`${context.operation.operationId} is no operation of the document`);
    return operation;
  };

  for (const [name, scheme] of Object.entries(backend.definition.components?.securitySchemes ?? {})) {
    if ('type' in scheme && scheme.type === 'apiKey') {
      backend.registerSecurityHandler(name, ({ request }: Context) => request.headers[scheme.name.toLowerCase()]);
    }
  }

  backend.register({
    notFound: () => fail({ kind: 'notFound' }),
    methodNotAllowed: (_context, { request }: Exchange) =>
      fail({ kind: 'methodNotAllowed', allow: router.methodsOf(request.path) }),
    notImplemented: (context) => fail({ kind: 'internal', cause: `no handler for ${context.operation.operationId}` }),
    postRoutingHandler: (context, { req, res, request }: Exchange) => {
      if (!context.operation) return;
      const operation = operationOf(context);
      observe(req, res).operation = operation.id;
      convertInputs(request, operation);
    },
    unauthorizedHandler: () => fail({ kind: 'missingKey' }),
    // Without a key nothing of the body is read.
    postSecurityHandler: async (context, { req, res, request }: Exchange) => {
      if (!context.security.authorized || !operationOf(context).hasBody) return;
      const body = parseBody(await readBytes(req, res, bodyLimit));
      request.requestBody = body.fields;
      for (const [field, messages] of body.problems) request.problems.set(field, messages);
    },
    validationFail: (context, { request }: Exchange) => {
      const { inputs } = operationOf(context);
      const errors = context.validation.errors ?? [];
      return fail({
        kind: 'invalidInput',
        fields: toFieldErrors(errors, request.problems, inputs),
        composed: translateErrors(errors, translations),
      });
    },
    preOperationHandler: (_context, { request }: Exchange) => {
      if (request.problems.size > 0) {
        throw new RequestFailed({ kind: 'invalidInput', fields: Object.fromEntries(request.problems) });
      }
    },
  });

  for (const operation of operations.values()) {
    backend.register(operation.id, async (_context: Context, { req, res, request }: Exchange): Promise<Outcome> => {
      const observation = observe(req, res);
      const call = toCall(operation, request);
      const result = await callObserved(observation, call.function, (origin) =>
        callWithin(deadlineMs, store, call, res, origin),
      );
      if ('failure' in result) return result;
      recordKeyUse(operation.key, call, (fault) => onFault(fault, observation));
      return toSuccess(operation, request, result);
    });
  }
}

function toSuccess(operation: Operation, request: ApiRequest, { json, count }: Rows): Outcome {
  const link = toLink(operation, request, count);
  return {
    status: operation.status,
    json,
    ...(link ? { headers: { Link: link } } : {}),
    ...(operation.readOnly ? { keptBy: operation.key.header } : {}),
  };
}

function fail(failure: Failure): Outcome {
  return { failure };
}
