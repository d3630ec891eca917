import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { findLanguage, inLanguage, readPortuguese, toKey, translate } from '../../src/admin/language.ts';
import { readDocument } from '../../src/openapi/document.ts';
import { AURORA, EMAIL, useAdmin } from '../helpers/admin.ts';
import { readAdminCommands } from '../helpers/commands.ts';
import { runAdmin } from '../helpers/run.ts';

const { own, others } = readPortuguese();

const ADMIN = 'src/admin';
const MIGRATIONS = 'supabase/migrations';

/** A text of the source: with {0} for its values, and whether `t` translates it. */
type Text = {
  readonly place: string;
  readonly key: string;
  readonly isTagged: boolean;
  readonly isTemplate: boolean;
  readonly isThrown: boolean;
};

/** Every string and template of a file, as TypeScript reads it. */
function readTexts(file: string): Text[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
  const texts: Text[] = [];
  const visit = (node: ts.Node) => {
    // The API translates Ajv's messages.
    if (ts.isImportDeclaration(node) || (ts.isCallExpression(node) && node.expression.getText() === 'describeKeyword'))
      return;
    if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) {
      const isTemplate = ts.isTemplateExpression(node);
      const parts = isTemplate ? [node.head, ...node.templateSpans.map(({ literal }) => literal)] : [node];
      const { line } = source.getLineAndCharacterOfPosition(node.getStart());
      const { parent } = node;
      const isTagged = ts.isTaggedTemplateExpression(parent) && parent.tag.getText() === 't';
      const isThrown = ts.isNewExpression(parent);
      const key = toKey(parts.map(({ text }) => text));
      texts.push({ place: `${file}:${line + 1}`, key, isTagged, isTemplate, isThrown });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return texts;
}

const inPortuguese = <T>(work: () => T) => inLanguage('pt-BR', work);
/** A text with values in place of its placeholders. */
const toSample = (key: string) => key.replace(/\{\d\}/g, 'x').replace(/%[sLI]/g, 'x');
const isTranslated = (text: string) => inPortuguese(() => translate(text)) !== text;

const texts = readdirSync(ADMIN)
  .filter((file) => file.endsWith('.ts'))
  .flatMap((file) => readTexts(join(ADMIN, file)));

/** SQL, and what people type: both are the same in every language. */
const CODE =
  /^\s*(select|insert|with o as|update|declare|fetch|close|analyze|set|rollback|savepoint|format|position|BASE_BACKUP|EEXIST|EPIPE|NFD)\b|^(--|wms_|`?npm )|--tenant ID/;
/** Several words, or the heading of a column. */
const PROSE = /[A-Za-z]{2,}[,:;]? [a-z]|^[A-Z]{3,}( [A-Z]+)*$/;
const isProse = ({ key }: Text) => PROSE.test(toSample(key)) && !CODE.test(key);

describe('every text of the administration is translated to Portuguese', () => {
  test('if it is its own', () => {
    const shown = texts.filter((text) => text.isTagged || isProse(text));
    expect(shown.length).toBeGreaterThan(200);
    const missing = shown.filter((text) => (text.isTemplate && !text.isTagged) || !own.has(text.key));
    expect(missing.map(({ place, key }) => `${place} ${key}`)).toEqual([]);
  });

  test('if it comes from the embedded store or the functions of the database', () => {
    const store = ['folder.ts', 'store.ts']
      .flatMap((file) => readTexts(join('src/store/embedded', file)))
      .filter(({ isThrown }) => isThrown)
      .map(({ key }) => key);
    expect(store.length).toBeGreaterThanOrEqual(7);
    const sql = readdirSync(MIGRATIONS)
      // Leaves out messages for authors of migrations (_roles.sql) and for clients (PT codes).
      .filter((file) => !file.endsWith('_roles.sql'))
      .flatMap((file) => [
        ...readFileSync(join(MIGRATIONS, file), 'utf8').matchAll(/raise exception using(.*?)end if;/gs),
      ])
      .filter(([, raised = '']) => !/errcode = 'PT/.test(raised))
      .flatMap(([, raised = '']) => [...raised.matchAll(/(?:message|hint) = (?:format\()?'(.*?)'[,;)]/g)])
      .map(([, text = '']) => text.replaceAll("''", "'"));
    const rules = [
      ...readFileSync(join(MIGRATIONS, '20261123000010_import.sql'), 'utf8').matchAll(/then '(must .*?)'/g),
    ];
    expect(sql.length).toBeGreaterThanOrEqual(18);
    expect(rules.length).toBe(2);
    const all = [...store, ...sql, ...rules.map(([, text = '']) => text.replace(/ $/, ' x'))];
    expect(all.map(toSample).filter((text) => !isTranslated(text))).toEqual([]);
  });
});

test('no Portuguese text is unused, and each has the placeholders of its English text', () => {
  const known = new Set(texts.map(({ key }) => key));
  const helped = ['display help for command', ...'Usage: Options: Arguments: Commands: [options] [command]'.split(' ')];
  expect([...own.keys()].filter((key) => !known.has(key) && !helped.includes(key))).toEqual([]);
  const valuesOf = (text: string) => [...text.matchAll(/\{\d\}/g)].map(([value]) => value).sort();
  const differ = [...own, ...others].filter(
    ([english, portuguese]) => `${valuesOf(english)}` !== `${valuesOf(portuguese)}`,
  );
  expect(differ).toEqual([]);
});

test('a message that is also in the document has the same translation', async () => {
  const { 'x-translations': translations } = readDocument('openapi.yaml') as unknown as {
    'x-translations': { 'pt-BR': Record<string, string> };
  };
  const common = Object.entries(translations['pt-BR']).filter(([english]) => own.has(english));
  expect(common.map(([english]) => english)).toContain('must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY');
  expect(common.filter(([english, portuguese]) => own.get(english) !== portuguese)).toEqual([]);
});

test.each<[string, Record<string, string>, string]>([
  ['tenant list', {}, 'en'],
  ['tenant list', { LANG: 'pt_BR.UTF-8' }, 'pt-BR'],
  ['tenant list', { LANG: 'en_US.UTF-8', LC_MESSAGES: 'pt_PT' }, 'pt-BR'],
  ['tenant list', { LANG: 'pt_BR.UTF-8', LC_MESSAGES: '', LC_ALL: 'C' }, 'en'],
  ['tenant list --lang en', { LANG: 'pt_BR.UTF-8' }, 'en'],
  ['--lang=pt tenant list', {}, 'pt-BR'],
  ['--lang fr tenant list', { LANG: 'pt_BR.UTF-8' }, 'pt-BR'],
  ['tenant list --json', { LANG: 'pt_BR.UTF-8' }, 'en'],
  ['tenant list --json --lang pt', {}, 'pt-BR'],
])('the language of %s with %j is %s', (args, env, language) => {
  expect(findLanguage(args.split(' '), env)).toBe(language);
});

describe('where the locale is Portuguese', () => {
  const { admin: run, database, rows } = useAdmin();
  const admin = (...args: string[]) => run(args, { DATABASE_URL: database().adminUrl, LANG: 'pt_BR.UTF-8' });
  const folder = mkdtempSync(join(tmpdir(), 'language-'));

  test('the help of each command has no English text', async () => {
    const paths = (await readAdminCommands()).filter((name) => !name.includes('--'));
    expect(paths.length).toBeGreaterThan(20);
    for (const path of paths) {
      const args = path.split(' ').slice(2);
      const { output } = await runAdmin([...args, '--help'], { LANG: 'pt_BR.UTF-8' });
      const help = output.replace(/\s+/g, ' ');
      const left = [...own.keys()]
        .filter((english) => / /.test(english.trim()) || /^\[|:$/.test(english))
        .filter((english) => help.includes(english.replace(/\s+/g, ' ')));
      expect({ path, left }).toEqual({ path, left: [] });
    }
  });

  const NOBODY = 'f0000000-0000-4000-8000-00000000000f';
  const REFUSED: Readonly<Record<string, string>> = {
    'tenant lst': "comando desconhecido 'lst'\n(Seria list?)\nVeja --help.",
    'key list --tennant x': "opção desconhecida '--tennant'\n(Seria --tenant?)\nVeja --help.",
    'find alunos Ana':
      "falta a opção obrigatória '--tenant <ID>'\nnpm run admin -- tenant list mostra os tenants com seus ids. Veja --help.",
    [`show alunos --tenant ${AURORA}`]: "falta o argumento obrigatório 'RECORD'\nVeja --help.",
    'tenant create Minha Academia':
      "argumentos demais para 'create': aceita 1, e recebeu 2: Minha, Academia.\nEscreva entre aspas um texto com espaços, como 'Academia Aurora'. Veja --help.",
    'tenant list --lang fr': "o valor 'fr' da opção '--lang <LANGUAGE>' é inválido. Informe pt ou en.\nVeja --help.",
    'key usage --days 0':
      "o valor '0' da opção '--days <NUMBER>' é inválido. Informe um número inteiro de 1 a 9999.\nVeja --help.",
    'key permit x --all --permission x':
      "a opção '--permission <FUNCTION...>' não pode ser usada com a opção '--all'\nVeja --help.",
    [`key list --tenant ${NOBODY}`]: `não há o tenant ${NOBODY}\n\`npm run admin -- tenant list\` mostra todos.`,
    [`show alunos nada --tenant ${AURORA}`]:
      'o tenant não tem nada em alunos\nInforme um registro pelo id ou email: npm run admin -- find alunos TEXTO --tenant a0000000-0000-4000-8000-000000000000',
    [`update alunos ${EMAIL} --tenant ${AURORA} --set nome= data_nascimento=31/2/1990 email=x`]:
      'nome: Preencha este campo\ndata_nascimento "31/2/1990": Informe uma data que exista, como AAAA-MM-DD ou DD/MM/AAAA\nemail "x": Informe um e-mail válido\nNada foi mudado.',
  };

  test.each(Object.entries(REFUSED))('%s is refused in Portuguese', async (command, message) => {
    const { output, errors } = await admin(...command.split(' '));
    expect([output, errors.slice(0, message.length + 1)]).toEqual(['', `${message}\n`]);
  });

  test('keys are issued, listed and replaced in Portuguese', async () => {
    const issued = await admin('key', 'issue', '--tenant', AURORA, '--name', 'Painel');
    expect(issued.output).toMatch(
      /^Chave {5}wms_\w+\nPrefixo {3}\w+\nId {8}\S+\nValidade {2}nunca\n\nGuarde a chave agora: .*\.\n$/,
    );
    const prefix = /Prefixo +(\w+)/.exec(issued.output)?.[1] ?? '';
    const { output } = await admin('key', 'list', '--tenant', AURORA);
    expect(output).toMatch(/^PREFIXO +NOME +PERMISSÕES +ESTADO +CRIAÇÃO +VALIDADE +ÚLTIMO USO +ID\n/);
    expect(output).toMatch(new RegExp(`^${prefix} +Painel +todas +ativa +\\S+ +nunca +nunca +`, 'm'));
    expect(await admin('key', 'limit', prefix, '--per-minute', '60', '--per-day', '900')).toMatchObject({
      output: `A chave ${prefix} pode fazer 60 chamadas por minuto (60 de uma vez) e 900 chamadas por dia.\n`,
    });
    const rotated = await admin('key', 'rotate', prefix, '--overlap', '0s');
    expect(rotated.output).toContain(`\nA chave antiga, ${prefix}, não funciona mais.\n`);
    expect(await admin('key', 'revoke', prefix, '--yes')).toMatchObject({
      output: `A chave ${prefix} está revogada: requisições com ela são recusadas.\n`,
    });
  });

  test('an import reports its bad lines in Portuguese, and its file of problems can be imported in any language', async () => {
    const [file, problems] = [join(folder, 'alunos.csv'), join(folder, 'corrigir.csv')];
    writeFileSync(file, `nome;email;unidade\nAna;x;\n;a@b.example;Norte\nRui;${EMAIL};;\n`);
    const failed = await admin('import', 'alunos', file, '--tenant', AURORA, '--problems', problems);
    expect(failed.errors).toBe(`linha 2: email "x": Informe um e-mail válido
linha 3: nome: Preencha este campo
linha 3: unidade "Norte": Nenhum registro do tenant em academias tem este id ou nome
linha 4: Não combina com o cabeçalho (valores: 4, colunas: 3)
Nada foi importado de ${file}; linhas com problemas: 3 de 3
${problems} tem todas as linhas, com o que há de errado em cada uma: corrija esse arquivo e importe-o com: npm run admin -- import alunos ${problems} --tenant ${AURORA}
`);
    const written = readFileSync(problems, 'utf8');
    expect(written).toMatch(/^\ufeffnome;email;unidade;Problemas \(ignorada\)\r\n/);
    writeFileSync(problems, written.replace('Ana;x', 'Ana;x@y.example').split('\r\n').slice(0, 2).join('\r\n'));
    const args = ['import', 'alunos', problems, '--tenant', AURORA, '--dry-run'];
    const shown = await admin(...args);
    expect(shown.output).toMatch(/^COLUNA DE corrigir.csv +VIRA +LINHA 2\n/);
    expect(shown.output).toContain('\nNada está errado, e nada foi mudado. Sem --dry-run: Criados: alunos 1.\n');
    expect(await run([...args, '--lang', 'en'])).toMatchObject({ code: 0, errors: '' });
  });

  test('the output for scripts is the same in every language: JSON, and the columns of exports', async () => {
    const [row] = await rows(`select private.create_tenant('Vazio') as id`);
    const failed = await admin('show', 'alunos', 'nada', '--tenant', String(row?.id), '--json');
    expect(JSON.parse(failed.errors)).toMatchObject({ error: 'the tenant has no nada in alunos' });
    expect(await admin('export', join(folder, 'export'), '--tenant', AURORA)).toMatchObject({
      output: expect.stringMatching(/^Exportado para .*: .*alunos 250/),
    });
    expect(readFileSync(join(folder, 'export/usage.csv'), 'utf8')).toMatch(
      /^key_id,name,day,operation,class,calls\r\n/,
    );
    expect((await admin('erasures')).output).toMatch(/^tenant,student,erased_at/);
  });
});
