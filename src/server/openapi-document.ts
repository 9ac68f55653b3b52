// The table of openapi.ts as a document of OpenAPI 3.1.
import * as z from 'zod';
import type { Code, Route } from './openapi.ts';
import { catalogues, requests, routes } from './openapi.ts';
import { answers } from './shapes.ts';

type JsonObject = Record<string, unknown>;
const refTo = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** The whole document. The version is that of the server. */
export function toOpenApi(version: string): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method]: toOperation(route) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Homard', version, description: 'A durable, governed agent server.' },
    security: [{ token: [] }, { cookie: [] }],
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer' },
        cookie: { type: 'apiKey', in: 'cookie', name: 'homard' },
      },
      schemas: { ...toSchemas(requests, 'input'), ...toSchemas(answers, 'output') },
    },
  };
}

function toOperation({ method, path, summary, isOpen, query, headers = {}, body, ...rest }: Route): JsonObject {
  const parameters = [
    ...[...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...(query ? toParameters(query) : []),
    ...Object.entries(headers).map(([name, description]) => ({
      name,
      in: 'header',
      description,
      schema: { type: 'string' },
    })),
  ];
  const operationId = `${method}${path.replace(/[^a-z]+([a-z]?)/gi, (_, letter: string) => letter.toUpperCase())}`;
  return {
    operationId,
    summary,
    ...(isOpen && { security: [] }),
    ...(parameters.length && { parameters }),
    ...(body && { requestBody: { required: true, content: toContent(body) } }),
    responses: toResponses({ method, isOpen, ...rest }),
  };
}

function toContent(body: NonNullable<Route['body']>): JsonObject {
  return body === 'bytes' ? { '*/*': { schema: {} } } : { 'application/json': { schema: refTo(body) } };
}

function toParameters(query: z.ZodObject): JsonObject[] {
  const { properties = {}, required = [] } = z.toJSONSchema(query, { io: 'input', unrepresentable: 'any' });
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...schema } = property as JsonObject;
    const isRequired = required.includes(name);
    return { name, in: 'query', ...(description !== undefined && { description }), required: isRequired, schema };
  });
}

const MEDIA = { events: 'text/event-stream', bytes: '*/*', text: 'text/plain' };

function toResponses({ method, isOpen, answers, errors = [] }: Omit<Route, 'path' | 'summary'>): JsonObject {
  const responses: Record<string, JsonObject> = {};
  const common: Code[] = ['server.host_refused', 'server.origin_refused', 'server.internal', 'store.unavailable'];
  if (method !== 'get') common.push('store.read_only', 'store.disk_full');
  const codes = [...errors, ...(isOpen ? [] : (['server.unauthorized'] as const)), ...common];
  for (const code of codes) {
    const status = statusOf(code);
    const before = responses[status]?.description;
    responses[status] = {
      description: before === undefined ? `\`${code}\`` : `${String(before)}, \`${code}\``,
      content: { 'application/json': { schema: refTo('Error') } },
    };
  }
  for (const [status, { what, shape, kind }] of Object.entries(answers)) {
    const schema = shape ? refTo(shape) : {};
    const media = kind ? MEDIA[kind] : shape ? 'application/json' : undefined;
    responses[status] = { description: what, ...(media && { content: { [media]: { schema } } }) };
  }
  return responses;
}

function statusOf(code: Code): number {
  const [folder, kind = ''] = code.split('.');
  const kinds: Record<string, { status: number } | undefined> =
    catalogues.find((catalogue) => catalogue.folder === folder)?.kinds ?? {};
  return kinds[kind]?.status ?? 500;
}

function toSchemas(named: Record<string, z.ZodType>, io: 'input' | 'output'): JsonObject {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(named)) registry.add(schema, { id });
  const uri = (id: string) => `#/components/schemas/${id}`;
  const { schemas } = z.toJSONSchema(registry, { io, uri, unrepresentable: 'any', override: shorten });
  const { __shared: _, ...own } = schemas;
  return Object.fromEntries(Object.entries(own).map(([id, schema]) => [id, withoutRecursion(schema)] as const));
}

/** Leaves out what says nothing: bounds that every number has, and the letters of a time. */
function shorten({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
}

/** Only `z.json()` refers to itself, and any JSON is what an empty schema says in fewer words. */
function withoutRecursion(schema: object): JsonObject {
  const text = JSON.stringify(schema, (key, value: unknown) =>
    key === '$schema' || key === '$id' || (key === '$ref' && String(value).includes('__shared')) ? undefined : value,
  );
  return JSON.parse(text) as JsonObject;
}
